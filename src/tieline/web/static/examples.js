// <tl-examples>: cards that start an example conversation with one click, and a link to add a model.

import { h } from "./dom.js";
import { firstRun, rememberHidden, rememberTried } from "./first-run.js";
import { icon } from "./icons.js";

const ICONS = { read: "read", run: "execute", plan: "plan", question: "question" };

/** Call `show`.
 *
 * Fires `start` with an example, `models` to choose another model, and `change` when the cards are hidden or shown. */
class Examples extends HTMLElement {
  #folder = "";
  #items = [];
  #hasOthers = false;
  #isStarting = false;
  #shown = "";

  /** Show the examples of the gateway. `hasOthers` says whether other models can be chosen. */
  show({ folder, items }, hasOthers) {
    this.#folder = folder;
    this.#items = items;
    this.#hasOthers = hasOthers;
    this.#render();
  }

  /** Whether the cards are shown. The user can hide them. */
  get isOpen() {
    return this.#items.length > 0 && !firstRun().isHidden;
  }

  #render() {
    const facts = JSON.stringify([this.#folder, this.#items, this.#hasOthers, firstRun()]);
    if (facts === this.#shown) return;
    this.#shown = facts;
    const hadFocus = this.contains(document.activeElement);
    const isOpen = this.isOpen;
    this.replaceChildren(...(isOpen ? this.#cards() : [this.#foot()]));
    if (hadFocus) this.querySelector(".examples-toggle")?.focus();
  }

  #cards() {
    const { tried } = firstRun();
    const cards = this.#items.map((example) => this.#card(example, tried.includes(example.id)));
    return [
      h("p", { class: "muted examples-about" }, "Try these examples. They need no key and no network."),
      h("ul", { class: "examples" }, cards),
      h(
        "p",
        { class: "muted examples-note" },
        "The examples work with sample files in ",
        h("code", {}, this.#folder),
        ". They write a file or run a command only if you allow it.",
      ),
      this.#foot(),
    ];
  }

  #card(example, isTried) {
    const start = async () => {
      if (this.#isStarting) return;
      this.#isStarting = true;
      rememberTried(example.id);
      try {
        await new Promise((done) => this.dispatchEvent(new CustomEvent("start", { detail: { example, done } })));
      } finally {
        this.#isStarting = false;
        this.#render();
      }
    };
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", class: "example", data: { test: `example-${example.id}` }, onclick: start },
        h("span", { class: "example-sign" }, icon(ICONS[example.id] ?? "other")),
        h("span", { class: "example-title" }, example.title),
        isTried && h("span", { class: "example-tried" }, icon("check"), h("span", { class: "hidden" }, "Tried")),
        h("span", { class: "example-about" }, example.about),
      ),
    );
  }

  #foot() {
    const isOpen = this.isOpen;
    const isDone = firstRun().tried.length > 0;
    const toggle = () => {
      rememberHidden(isOpen);
      this.#render();
      this.dispatchEvent(new CustomEvent("change"));
    };
    const own = this.#hasOthers
      ? h(
          "button",
          {
            type: "button",
            class: isDone ? "primary" : "",
            data: { test: "own-model" },
            onclick: () => this.dispatchEvent(new CustomEvent("models")),
          },
          "Choose another model",
        )
      : h(
          "a",
          { class: isDone ? "button primary" : "button", href: "/connect#add-model", data: { test: "own-model" } },
          "Use your own model",
        );
    return h(
      "div",
      { class: "examples-foot" },
      own,
      this.#items.length > 0 &&
        h(
          "button",
          { type: "button", class: "quiet examples-toggle", data: { test: "examples-toggle" }, onclick: toggle },
          isOpen ? "Hide the examples" : "Show examples",
        ),
    );
  }
}

customElements.define("tl-examples", Examples);
