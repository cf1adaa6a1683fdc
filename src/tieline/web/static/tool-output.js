// The output of a tool: text that may still grow. Long text is collapsed.

import { h } from "./dom.js";
import { stripTerminalCodes } from "./terminal-text.js";
import { plural } from "./format.js";

const MAX_LINES = 16;
const NEAR = 24; // pixels
const MAX_SHOWN = 400_000; // Characters. Browsers become slow with more.

export class Output {
  #node = document.createTextNode("");
  #pre = h("pre", { class: "output-text", tabIndex: 0 }, this.#node);
  #more = h("button", { type: "button", class: "quiet small more", hidden: true, onclick: () => this.#unfold() });
  #isOpen = false;
  #endFirst;
  element = h("div", { class: "output is-folded", hidden: true, data: { test: "output" } }, this.#pre, this.#more);

  /** With `endFirst`, collapsed text shows its last lines, like a terminal; otherwise its first. */
  constructor(endFirst) {
    this.#endFirst = endFirst;
    this.#pre.classList.toggle("is-terminal", endFirst);
  }

  set(raw) {
    const text = end(stripTerminalCodes(raw).replace(/\s+$/, ""));
    const shown = this.#node.data;
    if (text === shown) return;
    const isFollowed = this.#endFirst && this.#isAtEnd();
    if (text.startsWith(shown)) this.#node.appendData(text.slice(shown.length));
    else this.#node.data = text;
    this.element.hidden = text === "";
    this.#fold(text);
    if (isFollowed) this.#pre.scrollTop = this.#pre.scrollHeight;
  }

  /** Return whether the end is visible. If the user has scrolled back, new output must not scroll to the end. */
  #isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.#pre;
    return !this.#isOpen || scrollTop + clientHeight > scrollHeight - NEAR;
  }

  #fold(text) {
    let lines = 1;
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
    const isLong = lines > MAX_LINES || text.length > 120 * MAX_LINES;
    this.#more.hidden = !isLong || this.#isOpen;
    this.#more.textContent = lines > 1 ? `Show all ${plural(lines, "line")}` : "Show all";
    this.element.classList.toggle("is-folded", isLong && !this.#isOpen);
  }

  #unfold() {
    this.#isOpen = true;
    this.#more.hidden = true;
    this.element.classList.remove("is-folded");
    this.#pre.focus();
  }
}

/** Return the end of a text that is too long for the browser, with a note about the missing part. */
function end(text) {
  const cut = text.length - MAX_SHOWN;
  return cut > 0 ? `… ${plural(cut, "character")} not shown …\n${text.slice(cut)}` : text;
}
