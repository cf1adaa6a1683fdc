// The output of a tool: text that may still grow; long text is folded.

import { h } from "./dom.js";
import { stripTerminalCodes } from "./terminal-text.js";
import { plural } from "./format.js";

const MAX_LINES = 16;
const NEAR = 24; // pixels
const MAX_SHOWN = 400_000; // Browsers get slow with more.

export class Output {
  #node = document.createTextNode("");
  #pre = h("pre", { class: "output-text", tabIndex: 0 }, this.#node);
  #more = h("button", { type: "button", class: "quiet small more", hidden: true, onclick: () => this.#unfold() });
  #isOpen = false;
  #endFirst;
  element = h("div", { class: "output is-folded", hidden: true, data: { test: "output" } }, this.#pre, this.#more);

  /** `endFirst`: show the last lines of folded text, like a terminal; otherwise the first. */
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

  /** Whether the end is visible. A user who has scrolled back should stay there. */
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

/** Cut a text that is too long for the browser to its end, with a note about the missing part. */
function end(text) {
  const cut = text.length - MAX_SHOWN;
  return cut > 0 ? `… ${plural(cut, "character")} not shown …\n${text.slice(cut)}` : text;
}
