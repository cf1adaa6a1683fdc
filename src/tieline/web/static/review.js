// The body of a plan to review: all of it, its steps, and yes or no with words of what to change.

import { answer } from "./asks.js";
import { h } from "./dom.js";
import { nodesOf } from "./html.js";
import { Steps } from "./plan-view.js";

export function reviewBody(item) {
  const { choice, feedback } = new Verdict(item.id);
  const what = h(
    "div",
    { class: "ask-what" },
    h("h3", { class: "ask-title" }, item.ask.title),
    plan(item),
    steps(item),
  );
  return [what, choice, feedback];
}

/** Approve, or reject with feedback. */
class Verdict {
  #id;
  #area = h("textarea", { rows: 2, placeholder: "What should be different? (optional)", "aria-label": "Feedback" });
  #approve = button("Approve", "primary", "approve", () => this.#send({ approved: true, feedback: "" }));
  #refuse = button("Reject…", "danger-quiet", "reject", () => this.#open(true));
  #back = button("Back", "quiet", "back", () => this.#open(false));
  #reject = button("Reject with this", "danger-quiet", "reject-send", () => this.#sendFeedback());
  choice = h("div", { class: "actions ask-actions" }, this.#approve, this.#refuse);
  feedback = h(
    "div",
    { class: "feedback", hidden: true },
    this.#area,
    h("div", { class: "actions" }, this.#back, this.#reject),
  );

  constructor(id) {
    this.#id = id;
    this.#area.dataset.test = "feedback";
    this.#area.addEventListener("keydown", (event) => this.#key(event));
  }

  #open(isOpen) {
    this.feedback.hidden = !isOpen;
    this.choice.hidden = isOpen;
    (isOpen ? this.#area : this.#refuse).focus();
  }

  #key(event) {
    if (event.key === "Escape") this.#open(false);
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) this.#sendFeedback();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #sendFeedback() {
    return this.#send({ approved: false, feedback: this.#area.value.trim() });
  }

  async #send(body) {
    if (this.#approve.disabled) return;
    this.#setDisabled(true);
    this.#setDisabled(await answer(this.#id, body));
  }

  #setDisabled(isDisabled) {
    for (const one of [this.#approve, this.#refuse, this.#reject]) one.disabled = isDisabled;
  }
}

function button(words, tone, test, act) {
  return h("button", { type: "button", class: tone, data: { test }, onclick: act }, words);
}

/** The plan as the server rendered it, or as it was written. */
function plan({ ask, html = ask.html }) {
  if (html !== undefined) return h("div", { class: "prose plan-text" }, ...nodesOf(html));
  return ask.plan ? h("div", { class: "plan-text plan-plain" }, ask.plan) : "";
}

function steps({ ask }) {
  if (!ask.steps?.length) return "";
  const view = new Steps();
  view.show(ask.steps);
  return view.element;
}
