// The body of a plan card: the plan, its steps, and buttons to approve it or reject it with feedback.

import { answer } from "./inbox-items.js";
import { h } from "./dom.js";
import { htmlToNodes } from "./server-html.js";
import { longText } from "./long-text.js";
import { hiddenNote, rawInput } from "./permission.js";
import { Steps } from "./plan-view.js";
import { visible } from "./invisible-text.js";

const APPROVE = { id: null, label: "Approve plan", kind: "allow_once" };

export function reviewBody(item) {
  const { ask } = item;
  const { lasting, choice, feedback } = new Verdict(item.id, ask.options ?? []);
  const what = h(
    "div",
    { class: "item-what" },
    h("h3", { class: "item-title" }, ask.title),
    plan(item),
    steps(item),
    ask.detail ? longText(ask.detail, { class: "item-detail", label: "Details" }) : "",
    ask.hidden ? h("p", { class: "item-hidden" }, hiddenNote(ask.hidden)) : "",
    ask.input ? rawInput(ask.input) : "",
  );
  return [what, lasting, choice, feedback];
}

/** The buttons of a plan: approve it, with one of the agent's options if there are any, or reject it with feedback. */
class Verdict {
  #id;
  #area = h("textarea", { rows: 2, placeholder: "What should change? (optional)", "aria-label": "Feedback" });
  #refuse = button("Reject plan…", "danger-quiet", "reject", () => this.#open(true));
  #back = button("Back", "quiet", "back", () => this.#open(false));
  #reject = button("Reject plan", "danger-quiet", "reject-send", () => this.#sendFeedback());
  #buttons = [this.#refuse, this.#reject];
  #isSent = false;
  lasting;
  choice;
  feedback = h(
    "div",
    { class: "feedback", hidden: true },
    this.#area,
    h("div", { class: "actions" }, this.#back, this.#reject),
  );

  constructor(id, options) {
    this.#id = id;
    this.#area.dataset.test = "feedback";
    this.#area.addEventListener("keydown", (event) => this.#key(event));
    const once = options.filter(({ kind }) => kind === "allow_once");
    const always = options.filter(({ kind }) => kind === "allow_always");
    const others = options.filter(({ kind }) => !kind.startsWith("allow")).slice(1);
    const [main, ...more] = once.length || always.length ? once : [APPROVE];
    const approve = main ? this.#option(main, "primary", "approve") : null;
    this.choice = h(
      "div",
      { class: "actions item-actions" },
      approve,
      this.#refuse,
      more.map((option) => this.#option(option, "")),
      others.map((option) => this.#option(option, "danger-quiet")),
    );
    // As with permissions, lasting answers are never at the position of another card's main button.
    this.lasting = always.length
      ? h(
          "div",
          { class: "item-always" },
          always.map((option) => this.#option(option, "small")),
        )
      : "";
  }

  /** Create a button for one option. The agent's first rejecting option has none; "Reject plan…" replaces it. */
  #option({ id, label, kind = "", description }, tone, test = `option-${id}`) {
    const body = { approved: kind.startsWith("allow"), feedback: "", ...(id !== null && { option: id }) };
    const made = button(visible(label || id), tone, test, () => this.#send(body));
    made.title = description ?? "";
    this.#buttons.push(made);
    return made;
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
    if (this.#isSent) return;
    this.#setSent(true);
    this.#setSent(await answer(this.#id, body));
  }

  #setSent(isSent) {
    this.#isSent = isSent;
    for (const one of this.#buttons) one.disabled = isSent;
  }
}

function button(label, tone, test, act) {
  return h("button", { type: "button", class: tone, data: { test }, onclick: act }, label);
}

/** Create the text of the plan: HTML rendered by the server, or plain text if the plan is long. */
function plan({ ask, html = ask.html }) {
  if (html !== undefined) return h("div", { class: "prose plan-text" }, ...htmlToNodes(html));
  return ask.plan ? longText(ask.plan, { class: "plan-text plan-plain", label: "Plan" }) : "";
}

function steps({ ask }) {
  if (!ask.steps?.length) return "";
  const view = new Steps();
  view.show(ask.steps);
  return view.element;
}
