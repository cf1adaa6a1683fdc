// The model's thinking, collapsed to one line until the user opens it.

import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { Tail } from "./tail.js";
import { formatDuration, now } from "./format.js";

export class Thinking {
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
    if (part.redacted) setText(this.#label, "Thinking (hidden by the provider)");
    else if (isLive) setText(this.#label, "Thinking…");
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
    setText(this.#label, length < 1 ? "Thought" : `Thought for ${formatDuration(length)}`);
  }
}
