// Ignores answers that began before the person can have seen what they would answer.
//
// A card that appears or moves under the pointer could take a click meant for something else. So a click, tap or key
// press counts only if it began SETTLED milliseconds after the answer buttons reached their place. Where the pointer is
// or was makes no difference: touch screens and screen readers have none. Until then the buttons are aria-disabled.

import { isTyping } from "./dom.js";

export const SETTLED = 500;

const guards = new Set();
let frame = 0;

/** When the action under way began. A held key repeats, but began only once. */
const began = { pointer: null, key: null };
const forget = (name) => () => setTimeout(() => (began[name] = null));
addEventListener("pointerdown", (event) => (began.pointer = event.timeStamp), true);
addEventListener("click", forget("pointer"), true);
addEventListener("keydown", (event) => !event.repeat && (began.key = event.timeStamp), true);
addEventListener("keyup", forget("key"), true);

/** Guards every button of a card except those inside its `.ask-what`, and the keys that answer. */
export class InputGuard {
  #card;
  #layout = "";
  /** Since when the layout has been the same, for the pointer and for keys. */
  #since = { pointer: Infinity, key: Infinity };
  #isTyping = false;
  #isOpen = null;

  constructor(card) {
    this.#card = card;
    card.addEventListener("click", (event) => this.#filter(event), true);
    card.addEventListener("keydown", (event) => this.#filter(event), true);
    card.addEventListener("input", () => (this.#isTyping = true), true);
  }

  /** Watch the card for as long as it is part of the page. */
  connect() {
    this.#restart();
    this.#show(false);
    guards.add(this);
    frame ||= requestAnimationFrame(lookAtAll);
  }

  disconnect() {
    guards.delete(this);
  }

  /** Once per frame. A place counts from the second frame on that shows the card there: then it has been painted. */
  look(now) {
    const layout = this.#measured();
    if (layout !== this.#layout) this.#restart(layout);
    else {
      for (const name in this.#since) if (this.#since[name] === Infinity) this.#since[name] = now;
      this.#isTyping = false;
    }
    this.#show(now - this.#since.pointer >= SETTLED);
  }

  /** A field that grows while it is filled in moves the buttons, but takes no key by surprise. */
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
    return [...this.#card.querySelectorAll("button")].filter((button) => !button.closest(".ask-what"));
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

/** Buttons that answer, Enter in a field, and the letters that stand for buttons. */
function isAnswer(event) {
  if (event.type === "click") return event.target.closest("button") && !event.target.closest(".ask-what");
  return isTyping(event) ? event.key === "Enter" : event.key.length === 1;
}

function lookAtAll() {
  const now = performance.now();
  for (const guard of guards) guard.look(now);
  frame = guards.size ? requestAnimationFrame(lookAtAll) : 0;
}
