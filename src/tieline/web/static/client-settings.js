// <tl-clients>: the settings of a client, with the address of the gateway and a model that the user chooses.

import { get } from "./api.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { live } from "./live-state.js";
import { modelOptions } from "./model-choice.js";
import { attempt } from "./notices.js";
import "./picker.js";

class ClientSettings extends HTMLElement {
  #tabs = h("div", { class: "snippet-tabs", role: "tablist", "aria-label": "Clients", "aria-orientation": "vertical" });
  #panel = h("div", { class: "snippet", role: "tabpanel", data: { test: "snippet" } });
  #model = Object.assign(document.createElement("tl-picker"), { label: "Model" });
  #snippets = [];
  #chosen = location.hash.slice(1);
  #wanted = "";

  connectedCallback() {
    this.#model.dataset.test = "snippet-model";
    this.#model.addEventListener("pick", (event) => this.#pick(event.detail));
    this.#tabs.addEventListener("keydown", (event) => this.#key(event));
    this.append(
      h("div", { class: "snippet-model" }, h("span", { class: "muted" }, "Model:"), this.#model),
      h("div", { class: "snippets", id: "snippets" }, this.#tabs, this.#panel),
    );
  }

  /** The query that requests the settings for the chosen model. */
  get query() {
    return this.#wanted ? `?model=${encodeURIComponent(this.#wanted)}` : "";
  }

  /** Show settings. `model` is the model that they contain. */
  show(snippets, model) {
    // Full names, because the settings contain them.
    this.#model.options = modelOptions(live.state).map((option) => ({ ...option, label: option.value, hint: "" }));
    this.#model.value = model;
    this.#snippets = snippets;
    if (!snippets.some(({ id }) => id === this.#chosen)) this.#chosen = snippets[0]?.id;
    const tabs = snippets.map(({ id, title }) => this.#tab(id, title));
    const hadFocus = this.#tabs.contains(document.activeElement);
    this.#tabs.replaceChildren(...tabs);
    if (hadFocus) this.#tabs.querySelector('[tabindex="0"]')?.focus();
    this.#showSnippet();
  }

  #tab(id, title) {
    const isChosen = id === this.#chosen;
    return h(
      "button",
      {
        type: "button",
        class: "quiet",
        role: "tab",
        id: `tab-${id}`,
        "aria-selected": String(isChosen),
        tabIndex: isChosen ? 0 : -1,
        data: { test: `snippet-${id}` },
        onclick: () => this.#choose(id),
      },
      title,
    );
  }

  async #pick(model) {
    this.#wanted = model;
    this.#model.value = model;
    const facts = await attempt(() => get(`/api/connect${this.query}`));
    if (facts && this.#wanted === model) this.show(facts.snippets, facts.model);
  }

  #choose(id) {
    this.#chosen = id;
    history.replaceState(null, "", `#${id}`);
    for (const tab of this.#tabs.children) {
      const isChosen = tab.id === `tab-${id}`;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
    }
    this.#showSnippet();
  }

  #showSnippet() {
    const snippet = this.#snippets.find(({ id }) => id === this.#chosen);
    if (!snippet) return;
    this.#panel.setAttribute("aria-labelledby", `tab-${snippet.id}`);
    const copy = h(
      "button",
      { type: "button", class: "quiet small copy-code", "aria-label": "Copy" },
      icon("copy"),
      h("span", {}, "Copy"),
    );
    this.#panel.replaceChildren(
      snippet.about ? h("p", { class: "muted" }, snippet.about) : "",
      snippet.text &&
        h(
          "div",
          { class: "code" },
          h("div", { class: "code-head" }, h("span", { class: "code-language" }, snippet.language ?? ""), copy),
          h("pre", { tabIndex: 0 }, h("code", {}, snippet.text)),
        ),
    );
  }

  #key(event) {
    const tabs = [...this.#tabs.children];
    const at = tabs.indexOf(event.target);
    const [next, before] = [at + 1, at - 1];
    const to = { ArrowRight: next, ArrowDown: next, ArrowLeft: before, ArrowUp: before, Home: 0, End: -1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const tab = tabs.at(to % tabs.length);
    tab.click();
    tab.focus();
  }
}

customElements.define("tl-clients", ClientSettings);
