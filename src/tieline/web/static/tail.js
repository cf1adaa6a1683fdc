// The unfinished end of an answer: plain text that grows. Each update has a constant cost.
//
// Text is appended to the last of several pieces. When a piece is long enough, a new one begins and the old one does
// not change any more, so a layout costs the same after 200 kB as after 2 kB.

import { h } from "./dom.js";
import { nextFrame } from "./frame-scheduler.js";

const PIECE = 3000;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;

export class Tail {
  element = h("div", { class: "tail" });
  #text = "";
  #shown = 0;
  #node = null;
  #show = () => this.#grow();

  get text() {
    return this.#text;
  }

  add(text) {
    this.#text += text;
    nextFrame(this.#show);
  }

  /** Replace the text. */
  set(text) {
    if (text === this.#text) return;
    this.#text = text;
    this.#shown = 0;
    this.#node = null;
    this.element.replaceChildren();
    this.element.classList.remove("is-code");
    nextFrame(this.#show);
  }

  #grow() {
    if (this.#shown === 0 && FENCE.test(this.#text) && !this.#openCode()) return;
    let fresh = this.#text.slice(this.#shown);
    this.#shown = this.#text.length;
    while (fresh) {
      if (this.#node === null) this.#begin();
      const cut =
        this.#node.length > PIECE
          ? fresh.indexOf("\n")
          : this.#node.length + fresh.length > 2 * PIECE
            ? fresh.indexOf("\n", PIECE)
            : -1;
      if (cut < 0) {
        this.#node.appendData(fresh);
        return;
      }
      this.#node.appendData(fresh.slice(0, cut));
      this.#node = null;
      fresh = fresh.slice(cut + 1);
    }
  }

  #begin() {
    this.#node = document.createTextNode("");
    this.element.append(h("div", { class: "piece" }, this.#node));
  }

  /** Show an unfinished code block as code. Return false if its first line, the fence, is still incomplete. */
  #openCode() {
    const end = this.#text.indexOf("\n");
    if (end < 0) return false;
    const language = this.#text.slice(0, end).replace(FENCE, "").trim();
    this.element.classList.add("is-code");
    this.element.append(h("div", { class: "code-head" }, h("span", { class: "code-language" }, language)));
    this.#shown = end + 1;
    return true;
  }
}
