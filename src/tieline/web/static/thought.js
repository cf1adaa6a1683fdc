// What the model thought, folded: one line that opens to all of it.

import { h, say } from "./dom.js";
import { icon } from "./icons.js";
import { Tail } from "./tail.js";
import { duration, now } from "./words.js";

export class Thought {
  #label = h("span", {}, "Thought");
  #tail = new Tail();
  #began = now();
  #isLive = false;
  element = h(
    "details",
    { class: "thought", data: { test: "thinking" } },
    h("summary", {}, icon("think"), this.#label, icon("right")),
    h("div", { class: "thought-text" }, this.#tail.element),
  );

  constructor(part, isLive = false) {
    this.#isLive = isLive;
    if (part.redacted) say(this.#label, "Thought (hidden by its maker)");
    else if (isLive) say(this.#label, "Thinking…");
    this.element.classList.toggle("is-live", isLive);
    this.element.classList.toggle("is-empty", Boolean(part.redacted));
    if (part.text) this.#tail.set(part.text);
  }

  add(text) {
    this.#tail.add(text);
  }

  end(part) {
    if (part.text) this.#tail.set(part.text);
    if (!this.#isLive) return;
    this.#isLive = false;
    this.element.classList.remove("is-live");
    const length = now() - this.#began;
    say(this.#label, length < 1 ? "Thought" : `Thought for ${duration(length)}`);
  }
}
