// A row of the Connect page: a lamp that shows whether something is ready, its name, and a description.

import { h } from "./dom.js";

/** Create a row. `about` is shown beside the title, and `extra` below. */
export function statusRow(isReady, title, about, extra) {
  return h(
    "div",
    { class: "row" },
    h("span", { class: `lamp ${isReady ? "is-on" : ""}`, role: "img", "aria-label": isReady ? "ready" : "not ready" }),
    h("div", { class: "row-words" }, h("strong", {}, title), about, extra),
  );
}

/** Create a text in which the parts between backticks are formatted as code. */
export function withCode(text) {
  return h(
    "span",
    {},
    text.split("`").map((piece, at) => (at % 2 ? h("code", {}, piece) : piece)),
  );
}
