// What came of a tool: text that may still grow, long text folded to its interesting end.

import { h } from "./dom.js";
import { plain } from "./terminal-text.js";
import { plural } from "./words.js";

const MOST_LINES = 16;
const NEAR = 24; // pixels
const MOST_SHOWN = 400_000; // Beyond that a browser struggles; the whole is never needed here.

export class Output {
  #node = document.createTextNode("");
  #pre = h("pre", { class: "output-text", tabIndex: 0 }, this.#node);
  #more = h("button", { type: "button", class: "quiet small more", hidden: true, onclick: () => this.#unfold() });
  #isOpen = false;
  #endFirst;
  element = h("div", { class: "output is-folded", hidden: true, data: { test: "output" } }, this.#pre, this.#more);

  /** A terminal shows its last lines, anything else its first. */
  constructor(endFirst) {
    this.#endFirst = endFirst;
    this.#pre.classList.toggle("is-terminal", endFirst);
  }

  set(raw) {
    const text = end(plain(raw).replace(/\s+$/, ""));
    const shown = this.#node.data;
    if (text === shown) return;
    const isFollowed = this.#endFirst && this.#isAtEnd();
    if (text.startsWith(shown)) this.#node.appendData(text.slice(shown.length));
    else this.#node.data = text;
    this.element.hidden = text === "";
    this.#fold(text);
    if (isFollowed) this.#pre.scrollTop = this.#pre.scrollHeight;
  }

  /** Whether its end is in sight: folded it always is, and a person who has scrolled back wants to stay there. */
  #isAtEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.#pre;
    return !this.#isOpen || scrollTop + clientHeight > scrollHeight - NEAR;
  }

  #fold(text) {
    let lines = 1;
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) lines += 1;
    const isLong = lines > MOST_LINES || text.length > 120 * MOST_LINES;
    this.#more.hidden = !isLong || this.#isOpen;
    this.#more.textContent = lines > 1 ? `Show all ${plural(lines, "line")}` : "Show all of it";
    this.element.classList.toggle("is-folded", isLong && !this.#isOpen);
  }

  #unfold() {
    this.#isOpen = true;
    this.#more.hidden = true;
    this.element.classList.remove("is-folded");
    this.#pre.focus();
  }
}

/** The end of a text that is too long for a browser, with a mark of what is left out. */
function end(text) {
  const cut = text.length - MOST_SHOWN;
  return cut > 0 ? `… ${plural(cut, "character")} not shown …\n${text.slice(cut)}` : text;
}
