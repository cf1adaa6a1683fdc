// Ignores clicks and keys that began before the user could see the inbox item they would answer.
//
// A card that appears or moves under the pointer could receive a click meant for something else. So a click, tap or key
// press counts only if it began at least SETTLED milliseconds after the answer buttons reached their position. Until
// then the buttons are aria-disabled. The position of the pointer is not used: touch screens and screen readers have
// none.

import { isTyping } from "./dom.js";

export const SETTLED = 500;

const guards = new Set();
let frame = 0;

/** The times at which the current presses began. Repeated events of a held key do not count. */
const began = { pointer: null, key: null };
const forget = (name) => () => setTimeout(() => (began[name] = null));
addEventListener("pointerdown", (event) => (began.pointer = event.timeStamp), true);
addEventListener("click", forget("pointer"), true);
addEventListener("keydown", (event) => !event.repeat && (began.key = event.timeStamp), true);
addEventListener("keyup", forget("key"), true);

/** Guards the keys that answer, and all buttons of a card except those inside `.item-what`. */
export class InputGuard {
  #card;
  #layout = "";
  /** The times since which the layout has been unchanged, for the pointer and for keys. */
  #since = { pointer: Infinity, key: Infinity };
  #isTyping = false;
  #isOpen = null;

  constructor(card) {
    this.#card = card;
    card.addEventListener("click", (event) => this.#filter(event), true);
    card.addEventListener("keydown", (event) => this.#filter(event), true);
    card.addEventListener("input", () => (this.#isTyping = true), true);
  }

  /** Start watching the card when it is added to the page. */
  connect() {
    this.#restart();
    this.#show(false);
    guards.add(this);
    frame ||= requestAnimationFrame(checkAll);
  }

  disconnect() {
    guards.delete(this);
  }

  /** Check the layout; called once per frame. A position counts from its second frame on: only then was it painted. */
  check(now) {
    const layout = this.#measured();
    if (layout !== this.#layout) this.#restart(layout);
    else {
      for (const name in this.#since) if (this.#since[name] === Infinity) this.#since[name] = now;
      this.#isTyping = false;
    }
    this.#show(now - this.#since.pointer >= SETTLED);
  }

  /** Start the waiting time again. If a field grows while the user types, this does not affect keys. */
  #restart(layout = "") {
    this.#layout = layout;
    this.#since.pointer = Infinity;
    if (!this.#isTyping) this.#since.key = Infinity;
  }

  #filter(event) {
    if (!isAnswer(event)) return;
    const layout = this.#measured();
    if (layout !== this.#layout) this.#restart(layout);
    const source = event.type === "click" && event.detail > 0 ? "pointer" : "key";
    const start = began[source] ?? event.timeStamp;
    if (start - this.#since[source] >= SETTLED) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  #measured() {
    const places = this.#buttons.map((button) => {
      const { x, y, width, height } = button.getBoundingClientRect();
      return [x, y, width, height].map(Math.round).join();
    });
    return places.join(";");
  }

  get #buttons() {
    return [...this.#card.querySelectorAll("button")].filter((button) => !button.closest(".item-what"));
  }

  #show(isOpen) {
    if (isOpen === this.#isOpen) return;
    this.#isOpen = isOpen;
    for (const button of this.#buttons) {
      if (isOpen) button.removeAttribute("aria-disabled");
      else button.setAttribute("aria-disabled", "true");
    }
  }
}

/** Return whether an event would answer the item: a click on a button, Enter in a field, or a shortcut letter. */
function isAnswer(event) {
  if (event.type === "click") return event.target.closest("button") && !event.target.closest(".item-what");
  return isTyping(event) ? event.key === "Enter" : event.key.length === 1;
}

function checkAll() {
  const now = performance.now();
  for (const guard of guards) guard.check(now);
  frame = guards.size ? requestAnimationFrame(checkAll) : 0;
}
