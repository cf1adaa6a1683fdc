// <tl-picker>: a button that opens a searchable list of options.

import { freshId, h, setText } from "./dom.js";
import { icon } from "./icons.js";

const MAX_SHOWN = 200;
const SHORT = 8;
const MARGIN = 8;

/** Set `label`, `value`, and `options` or `source`. Fires `pick` with the value of the chosen option.
 *
 * An option is {value, label, hint?, group?, note?, button?}; `button` is the text of the button when it is chosen. */
class Picker extends HTMLElement {
  label = "";
  placeholder = "Search…";
  /** A function that resolves to the options for a query, for lists that are too long to load. */
  source = null;
  #options = [];
  #value = null;
  #shown = [];
  #active = -1;
  #ask = 0;
  /** The last search: a promise of whether its results are shown. */
  #searched = null;
  #id = freshId("list");
  #words = h("span", { class: "picker-words" });
  #button = h("button", {
    type: "button",
    class: "quiet picker-button",
    "aria-haspopup": "listbox",
    "aria-expanded": "false",
    onclick: () => this.open(),
  });
  #input = h("input", {
    type: "text",
    class: "picker-search",
    role: "combobox",
    autocomplete: "off",
    "aria-autocomplete": "list",
    "aria-expanded": "true",
    "aria-controls": this.#id,
  });
  #list = h("ul", { class: "picker-list", role: "listbox", id: this.#id, tabIndex: -1 });
  #panel = h("div", { class: "picker-panel", popover: "auto" }, this.#input, this.#list);

  connectedCallback() {
    if (this.#button.isConnected) return;
    if (this.dataset.icon) this.#button.append(icon(this.dataset.icon));
    this.#button.append(this.#words);
    if (!this.dataset.icon) this.#button.append(icon("down"));
    this.append(this.#button, this.#panel);
    this.#input.addEventListener("input", () => this.#startSearch());
    this.#panel.addEventListener("keydown", (event) => this.#key(event));
    this.#panel.addEventListener("toggle", (event) => this.#toggled(event.newState === "open"));
    this.#list.addEventListener("click", (event) => this.#clicked(event));
    this.#list.addEventListener("pointermove", (event) => this.#pointed(event));
    this.#list.addEventListener("mousedown", (event) => event.preventDefault()); // keep the focus in the search field
    this.#render();
  }

  set options(options) {
    if (JSON.stringify(options) === JSON.stringify(this.#options)) return; // keep the active option of an open list
    this.#options = options;
    this.#render();
    if (this.isOpen) this.#startSearch();
  }

  set value(value) {
    this.#value = value;
    this.#render();
  }

  get value() {
    return this.#value;
  }

  get isOpen() {
    return this.#panel.matches(":popover-open");
  }

  open() {
    if (this.isOpen) return;
    this.#input.value = "";
    this.#input.placeholder = this.placeholder;
    this.#input.setAttribute("aria-label", this.label);
    this.#list.setAttribute("aria-label", this.label);
    this.#panel.classList.toggle("is-short", !this.source && this.#options.length <= SHORT);
    this.#panel.showPopover();
    this.#startSearch();
    // On a phone, focusing the field opens the keyboard, which would hide half of the list.
    (matchMedia("(hover: none)").matches && this.#options.length ? this.#list : this.#input).focus();
  }

  #render() {
    const chosen = this.#options.find(({ value }) => value === this.#value);
    setText(this.#words, this.dataset.icon ? "" : (chosen?.button ?? chosen?.label ?? this.#value ?? this.label));
    const name = this.dataset.icon ? this.label : `${this.label}: ${chosen?.label ?? this.#value ?? "none"}`;
    this.#button.setAttribute("aria-label", name);
    this.#button.title = name;
  }

  #toggled(isOpen) {
    this.#button.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen && this.#panel.contains(document.activeElement)) this.#button.focus();
  }

  #startSearch() {
    this.#searched = this.#search();
  }

  async #search() {
    const words = this.#input.value.trim().toLowerCase();
    const ask = (this.#ask += 1);
    const found = this.source ? await this.source(words) : this.#options.filter((option) => isFound(option, words));
    if (ask !== this.#ask) return false;
    this.#show(found.slice(0, MAX_SHOWN), words);
    this.#position();
    return true;
  }

  #show(found, words) {
    this.#shown = found;
    const rows = [];
    let group;
    found.forEach((option, at) => {
      if (option.group && option.group !== group)
        rows.push(h("li", { class: "picker-group", role: "presentation" }, option.group));
      group = option.group;
      rows.push(this.#row(option, at));
    });
    if (rows.length === 0) {
      const text = words ? "No matches" : "Nothing to choose from";
      rows.push(h("li", { class: "picker-none", role: "presentation" }, text));
    }
    this.#list.replaceChildren(...rows);
    const chosen = found.findIndex(({ value }) => value === this.#value);
    this.#activate(words || chosen < 0 ? 0 : chosen);
  }

  #row(option, at) {
    const isChosen = option.value === this.#value;
    return h(
      "li",
      {
        class: "picker-option",
        role: "option",
        id: `${this.#id}-${at}`,
        "aria-selected": String(isChosen),
        data: { at, value: option.value ?? "" },
      },
      h("span", { class: "picker-label" }, option.label),
      option.note && h("span", { class: "tag" }, option.note),
      option.hint && h("span", { class: "picker-hint" }, option.hint),
      isChosen && icon("check"),
    );
  }

  /** Place the list above or below the button, inside the window. */
  #position() {
    const button = this.#button.getBoundingClientRect();
    const below = innerHeight - button.bottom;
    const isAbove = below < 320 && button.top > below;
    const style = this.#panel.style;
    style.maxHeight = `${Math.min(420, (isAbove ? button.top : below) - 2 * MARGIN)}px`;
    style.left = `${Math.max(MARGIN, Math.min(button.left, innerWidth - this.#panel.offsetWidth - MARGIN))}px`;
    style.top = isAbove ? "auto" : `${button.bottom + 4}px`;
    style.bottom = isAbove ? `${innerHeight - button.top + 4}px` : "auto";
  }

  #activate(at) {
    this.#active = Math.max(-1, Math.min(at, this.#shown.length - 1));
    for (const row of this.#list.querySelectorAll(".is-active")) row.classList.remove("is-active");
    const row = this.#list.querySelector(`[data-at="${this.#active}"]`);
    row?.classList.add("is-active");
    row?.scrollIntoView({ block: "nearest" });
    this.#input.setAttribute("aria-activedescendant", row ? row.id : "");
  }

  #key(event) {
    if (event.isComposing) return event.stopPropagation();
    const moves = {
      ArrowDown: this.#active + 1,
      ArrowUp: this.#active - 1,
      PageDown: this.#active + 10,
      PageUp: this.#active - 10,
    };
    if (event.key in moves) this.#activate(Math.max(0, moves[event.key]));
    else if (event.key === "Enter") this.#pickActive();
    else if (event.key === "Tab") return this.#panel.hidePopover();
    else if (event.key === "Escape") this.#close();
    else return event.stopPropagation();
    event.preventDefault();
    event.stopPropagation();
    return undefined;
  }

  #clicked(event) {
    const row = event.target.closest("[data-at]");
    if (row) this.#pick(Number(row.dataset.at));
  }

  #pointed(event) {
    const row = event.target.closest("[data-at]");
    if (row && Number(row.dataset.at) !== this.#active) this.#activate(Number(row.dataset.at));
  }

  /** Choose the active option, after the results for the text in the search field have arrived. */
  async #pickActive() {
    if ((await this.#searched) && this.isOpen) this.#pick(this.#active);
  }

  #pick(at) {
    const option = this.#shown[at];
    if (!option) return;
    this.#close();
    if (!this.source) this.value = option.value;
    this.dispatchEvent(new CustomEvent("pick", { detail: option.value }));
  }

  #close() {
    this.#panel.hidePopover();
    this.#button.focus();
  }
}

function isFound({ value, label, hint = "", group = "" }, words) {
  const text = `${value ?? ""} ${label} ${hint} ${group}`.toLowerCase();
  return words.split(/\s+/).every((word) => text.includes(word));
}

customElements.define("tl-picker", Picker);
