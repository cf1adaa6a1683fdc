// Text that the user has to approve. The page always contains all of it, but collapses it if it is long.

import { h } from "./dom.js";
import { plural } from "./format.js";
import { visible } from "./invisible-text.js";

const MAX_LINES = 16;
const MAX_CHARACTERS = 120 * MAX_LINES;

/** Create preformatted text with invisible characters made visible. Long text has a button that expands it. */
export function longText(text, { label, ...properties } = {}) {
  const shown = visible(text);
  const pre = h("pre", { tabIndex: 0, "aria-label": label, ...properties }, shown);
  const lines = shown.split("\n").length;
  if (lines <= MAX_LINES && shown.length <= MAX_CHARACTERS) return pre;
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
