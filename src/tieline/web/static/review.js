// The body of a plan to review: all of it, its steps, and yes or no with words of what to change.

import { answer } from "./asks.js";
import { h } from "./dom.js";
import { nodesOf } from "./html.js";
import { Steps } from "./plan-view.js";

export function reviewBody(item) {
  const { ask } = item;
  const area = h("textarea", { rows: 2, placeholder: "What should be different? (optional)", "aria-label": "Feedback", data: { test: "feedback" } });
  const reject = h("button", { type: "submit", class: "danger-quiet", data: { test: "reject-send" } }, "Reject with this");
  const feedback = h("form", { class: "feedback", hidden: true }, area, h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", onclick: () => toggle(false) }, "Back"), reject));
  const approve = h("button", { type: "button", class: "primary", data: { test: "approve" }, onclick: () => send({ approved: true, feedback: "" }) }, "Approve");
  const refuse = h("button", { type: "button", class: "danger-quiet", data: { test: "reject" }, onclick: () => toggle(true) }, "Reject…");
  const choice = h("div", { class: "actions ask-actions" }, approve, refuse);

  function toggle(isOpen) {
    feedback.hidden = !isOpen;
    choice.hidden = isOpen;
    (isOpen ? area : refuse).focus();
  }

  async function send(body) {
    for (const one of [approve, refuse, reject]) one.disabled = true;
    const isTaken = await answer(item.id, body);
    for (const one of [approve, refuse, reject]) one.disabled = isTaken;
  }

  feedback.addEventListener("submit", (event) => {
    event.preventDefault();
    send({ approved: false, feedback: area.value.trim() });
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      feedback.requestSubmit();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      toggle(false);
    }
  });
  return [h("div", { class: "ask-what" }, h("h3", { class: "ask-title" }, ask.title), plan(item), steps(ask)), choice, feedback];
}

function plan({ ask, html }) {
  const rendered = html ?? ask.html;
  if (rendered !== undefined) return h("div", { class: "prose plan-text" }, ...nodesOf(rendered));
  return ask.plan ? h("div", { class: "plan-text plan-plain" }, ask.plan) : "";
}

function steps(ask) {
  if (!ask.steps?.length) return "";
  const view = new Steps();
  view.show(ask.steps);
  return view.element;
}
