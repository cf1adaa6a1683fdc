// The steps of a plan with their status, updated in place.

import { h, setText } from "./dom.js";
import { icon } from "./icons.js";

const MARKS = { pending: "circle", in_progress: "dot", completed: "check", failed: "cross" };
const STATES = { pending: "to do", in_progress: "in progress", completed: "done", failed: "skipped" };

/** A list of steps. `show` takes all steps and updates only those that have changed. */
export class Steps {
  element = h("ol", { class: "steps" });
  #rows = [];

  show(entries) {
    entries.forEach((entry, at) => this.#row(at, entry));
    this.#rows.splice(entries.length).forEach(({ item }) => item.remove());
  }

  #row(at, { content, status = "pending", priority = "medium" }) {
    let row = this.#rows[at];
    if (!row) {
      row = {
        words: h("span", { class: "step-words" }),
        mark: h("span", { class: "step-mark" }),
        state: h("span", { class: "hidden" }),
        status: "",
      };
      row.item = h("li", { data: { test: "step" } }, row.mark, row.words, row.state);
      this.#rows[at] = row;
      this.element.append(row.item);
    }
    setText(row.words, content);
    row.item.classList.toggle("is-urgent", priority === "high");
    if (row.status === status) return;
    row.status = status;
    row.item.dataset.status = status;
    row.mark.replaceChildren(icon(MARKS[status]));
    row.state.textContent = ` (${STATES[status]})`;
  }
}

/** The plan of an answer, with its progress. */
export class PlanView {
  #steps = new Steps();
  #count = h("span", { class: "plan-count" });
  #bar = h("progress", { "aria-label": "Steps done" });
  element = h(
    "section",
    { class: "plan", "aria-label": "Plan", data: { test: "plan" } },
    h("header", {}, icon("plan"), h("strong", {}, "Plan"), this.#count, this.#bar),
    this.#steps.element,
  );

  show({ entries = [] }) {
    this.element.hidden = entries.length === 0;
    this.#steps.show(entries);
    const done = entries.filter(({ status }) => status === "completed" || status === "failed").length;
    setText(this.#count, `${done} of ${entries.length}`);
    this.#bar.max = Math.max(1, entries.length);
    this.#bar.value = done;
  }
}
