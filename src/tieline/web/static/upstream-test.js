// <tl-upstream-test>: the outcome of a test of an upstream, step by step.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { withCode } from "./status-row.js";

const SIGNS = { ok: "check", warning: "warn", failed: "cross" };
const STATES = { ok: "Passed", warning: "Warning", failed: "Failed" };
const TITLES = { reach: "Connection", key: "Key", models: "Models", tools: "Tool call" };

class UpstreamTest extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "status");
  }

  /** Show that the test is running. */
  begin() {
    this.replaceChildren(h("p", { class: "test-busy muted" }, h("span", { class: "lamp is-busy" }), "Testing…"));
  }

  show({ steps }) {
    this.replaceChildren(h("ul", { class: "test-steps" }, steps.map(step)));
  }

  clear() {
    this.replaceChildren();
  }
}

function step({ id, state, text }) {
  return h(
    "li",
    { class: `test-step is-${state}`, data: { test: `step-${id}`, state } },
    icon(SIGNS[state]),
    h("strong", {}, TITLES[id] ?? id, h("span", { class: "hidden" }, `: ${STATES[state]}.`)),
    withCode(text),
  );
}

customElements.define("tl-upstream-test", UpstreamTest);
