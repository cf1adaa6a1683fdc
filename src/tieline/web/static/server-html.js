// Turns HTML that the gateway has rendered from Markdown into elements. No other module turns markup into elements.
//
// This is safe because (1) the function is only called with `html` fields of the API, which the server renders with raw
// HTML disabled and every link checked; (2) the HTML is parsed inside a <template>, where nothing runs or loads; and
// (3) the page's Content-Security-Policy forbids inline scripts, and scripts and resources from other sites.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const policy = globalThis.trustedTypes?.createPolicy("tieline", { createHTML: (text) => text });

/** Return the elements of server-rendered HTML. Code gets copy buttons, and links open in a new window. */
export function htmlToNodes(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  template.content.querySelectorAll("pre").forEach(addCodeHeader);
  template.content.querySelectorAll("table").forEach(makeScrollable);
  for (const link of template.content.querySelectorAll("a[href]")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  return [...template.content.children];
}

function addCodeHeader(pre) {
  const block = h("div", { class: "code", data: { test: "code" } });
  pre.replaceWith(block);
  const copy = h(
    "button",
    { type: "button", class: "quiet small copy-code", "aria-label": "Copy code" },
    icon("copy"),
    h("span", {}, "Copy"),
  );
  block.append(h("div", { class: "code-head" }, h("span", { class: "code-language" }, languageOf(pre)), copy), pre);
  pre.tabIndex = 0;
}

function languageOf(pre) {
  const code = pre.querySelector("code");
  const name =
    pre.dataset.language ?? code?.dataset.language ?? /language-([\w+#.-]+)/.exec(code?.className ?? "")?.[1];
  return name ?? "";
}

function makeScrollable(table) {
  const frame = h("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Table" });
  table.replaceWith(frame);
  frame.append(table);
}
