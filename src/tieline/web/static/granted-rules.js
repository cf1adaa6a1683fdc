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
    const found = await attempt(() => get("/api/rules"));
    if (!found) return;
    const { rules } = found;
    const hadFocus = this.contains(document.activeElement);
    this.closest("section").hidden = rules.length === 0;
    this.#list.replaceChildren(...rules.map(({ id, text }) => this.#row(id, text)));
    if (hadFocus) this.querySelector("button")?.focus();
  }

  #row(id, text) {
    const button = h(
      "button",
      {
        type: "button",
        class: "danger-quiet small",
        "aria-label": `Revoke: ${text}`,
        data: { test: "revoke" },
        onclick: () => this.#revoke(id),
      },
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
