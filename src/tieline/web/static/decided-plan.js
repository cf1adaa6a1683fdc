// <tl-decided-plan>: a plan that the user approved or rejected. It stays in the conversation.

import { h, setText } from "./dom.js";
import { htmlToNodes } from "./server-html.js";
import { icon } from "./icons.js";
import { longText } from "./long-text.js";

class DecidedPlan extends HTMLElement {
  #mark = h("span", { class: "tool-state" });
  #title = h("strong");
  #decision = h("p", { class: "decision", data: { test: "decision" } });
  #text = h("div", { class: "prose plan-text" });

  connectedCallback() {
    if (this.firstChild) return;
    this.dataset.test = "decided-plan";
    this.append(
      h("details", { open: true }, h("summary", {}, icon("plan"), this.#title, this.#mark), this.#text),
      this.#decision,
    );
  }

  show({ title, status, output = "", plan = "", html }) {
    this.dataset.status = status;
    setText(this.#title, title);
    setText(this.#decision, output);
    this.#mark.replaceChildren(icon(status === "completed" ? "check" : "cross"));
    this.#text.replaceChildren(...(html === undefined ? [longText(plan, { class: "plan-plain" })] : htmlToNodes(html)));
  }

  /** Do nothing: a decided plan is not in progress. */
  stop() {}
}

customElements.define("tl-decided-plan", DecidedPlan);
