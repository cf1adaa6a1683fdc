// Shows a file change as added and removed lines. A long change is collapsed.

import { h } from "./dom.js";
import { diffButton, pathView } from "./file-links.js";
import { compared, counted, readUnified } from "./line-diff.js";
import { plural } from "./format.js";

const FOLDED = 60;
const CLASSES = { "+": "added", "-": "removed", " ": "same", "…": "gap" };

/** Show the difference between two versions of an excerpt. `isMade` is false for a change that was not made. */
export function diffView({ path, old, new: text = "", line = 1 }, isMade = true) {
  const rows = compared(old ?? null, text, line);
  return view(path, rows, { isNew: old === null || old === undefined, isMade, before: old ?? "", after: text, line });
}

/** Show a unified diff, which describes a change that the gateway's own tools would make. */
export function unifiedDiff(path, diff) {
  const rows = readUnified(diff);
  const side = (sign) =>
    rows
      .filter((row) => row.sign === " " || row.sign === sign)
      .map(({ text }) => `${text}\n`)
      .join("");
  const line = rows.find(({ is }) => is)?.is ?? 1;
  return view(path, rows, { isNew: diff.startsWith("--- /dev/null"), before: side("-"), after: side("+"), line });
}

function view(path, rows, { isNew, isMade = true, before, after, line: start }) {
  const { added, removed } = counted(rows);
  const lines = h("div", {
    class: "diff-lines",
    tabIndex: 0,
    role: "region",
    "aria-label": `Changes to ${path ?? "a file"}`,
  });
  const body = h("div", { class: "diff-body" });
  lines.append(body);
  const show = (some) => body.append(...some.map(line));
  show(rows.slice(0, FOLDED));
  const more =
    rows.length > FOLDED &&
    h(
      "button",
      { type: "button", class: "quiet small more", onclick: unfold },
      `Show all ${plural(rows.length, "line")}`,
    );
  function unfold() {
    show(rows.slice(FOLDED));
    more.remove();
    lines.focus();
  }
  return h(
    "figure",
    { class: "diff", data: { test: "diff" } },
    h(
      "figcaption",
      {},
      pathView(path, rows.find(({ sign, is }) => sign === "+" && is)?.is ?? start),
      isNew && h("span", { class: "tag" }, "new"),
      !isMade && h("span", { class: "tag", data: { test: "not-made" } }, "not applied"),
      h("span", { class: "added", "aria-label": `${plural(added, "line")} added` }, `+${added}`),
      h("span", { class: "removed", "aria-label": `${plural(removed, "line")} removed` }, `−${removed}`),
      diffButton(path, before, after, start),
    ),
    lines,
    more,
  );
}

function line({ sign, text, was, is }) {
  return h(
    "div",
    { class: `line ${CLASSES[sign]}` },
    h("span", { class: "number", "aria-hidden": "true" }, was ?? ""),
    h("span", { class: "number", "aria-hidden": "true" }, is ?? ""),
    h("span", { class: "sign" }, sign === " " ? " " : sign === "-" ? "−" : sign),
    h("code", {}, text),
  );
}
