// <tl-rules>: the rules granted with "Always allow", each with a button that revokes it.

import { get, remove } from "./api.js";
import { h } from "./dom.js";
import { attempt } from "./notices.js";

class GrantedRules extends HTMLElement {
  #list = h("ul", { class: "rows", data: { test: "rules" } });

  connectedCallback() {
    this.append(this.#list);
    this.closest("section").hidden = true;
  }

  async load() {
    let rules = [];
    try {
      ({ rules } = await get("/api/rules"));
    } catch {
      // Without its own tools the gateway has no rules.
    }
    this.closest("section").hidden = rules.length === 0;
    this.#list.replaceChildren(...rules.map(({ id, text }) => this.#row(id, text)));
  }

  #row(id, text) {
    const button = h(
      "button",
      { type: "button", class: "danger-quiet small", data: { test: "revoke" }, onclick: () => this.#revoke(id) },
      "Revoke",
    );
    return h(
      "li",
      { data: { test: "rule" } },
      h("div", { class: "row" }, h("span", { class: "row-words" }, text), button),
    );
  }

  async #revoke(id) {
    await attempt(() => remove(`/api/rules/${encodeURIComponent(id)}`));
    await this.load();
  }
}

customElements.define("tl-rules", GrantedRules);
