// The only place where markup becomes elements: HTML the gateway rendered from Markdown and escaped itself.
//
// Safe because (1) it is called with `html` fields of the API and with nothing else; the server makes them with raw
// HTML turned off and every address checked; (2) the text is parsed inside a <template>, where nothing runs or loads;
// (3) the page's Content-Security-Policy forbids inline script, foreign script and foreign resources.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const policy = globalThis.trustedTypes?.createPolicy("tieline", { createHTML: (text) => text });

/** The nodes of server-rendered HTML, with a copy button on code and links that open elsewhere. */
export function nodesOf(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  template.content.querySelectorAll("pre").forEach(dress);
  template.content.querySelectorAll("table").forEach(letScroll);
  for (const link of template.content.querySelectorAll("a[href]")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  return [...template.content.children];
}

function dress(pre) {
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

function letScroll(table) {
  const frame = h("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": "Table" });
  table.replaceWith(frame);
  frame.append(table);
}
