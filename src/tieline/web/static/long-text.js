// Text a person has to judge: complete in the page, and folded with a clear mark where it is long.

import { h } from "./dom.js";
import { plural } from "./words.js";
import { visible } from "./visible.js";

const MOST_LINES = 16;
const MOST_CHARACTERS = 120 * MOST_LINES;

/** Preformatted text with hidden characters spelled out; a long one has a button that shows all of it. */
export function longText(text, { label, ...properties } = {}) {
  const shown = visible(text);
  const pre = h("pre", { tabIndex: 0, "aria-label": label, ...properties }, shown);
  const lines = shown.split("\n").length;
  if (lines <= MOST_LINES && shown.length <= MOST_CHARACTERS) return pre;
  const size = lines > 1 ? plural(lines, "line") : plural(shown.length, "character");
  const more = h("button", { type: "button", class: "quiet small more", onclick: unfold }, `Show all ${size}`);
  const element = h("div", { class: "long-text is-folded" }, pre, more);
  function unfold() {
    element.classList.remove("is-folded");
    more.remove();
    pre.focus();
  }
  return element;
}
