// <tl-ask>: one thing that waits for a person, with who asks and how long there is left.

import { headline, whoAsks } from "./asks.js";
import { h, say } from "./dom.js";
import { icon } from "./icons.js";
import { InputGuard } from "./input-guard.js";
import { permissionBody } from "./permission.js";
import { questionBody } from "./question.js";
import { reviewBody } from "./review.js";
import { everySecond } from "./ticker.js";
import { countdown, now } from "./words.js";

const KINDS = {
  permission: { sign: "shield", name: "Permission", body: permissionBody },
  plan_review: { sign: "plan", name: "Plan", body: reviewBody },
  form: { sign: "question", name: "Question", body: questionBody },
};

/** What becomes of something that nobody answers. */
const OUTCOME = {
  permission: "denied automatically",
  plan_review: "rejected automatically",
  form: "given up automatically",
};

class AskCard extends HTMLElement {
  #item = null;
  #left = h("span", { class: "ask-left" });
  #untick = null;
  #guard = new InputGuard(this);

  set item(item) {
    this.#item = item;
    const { sign, name, body } = KINDS[item.ask.type];
    this.dataset.test = "ask";
    this.dataset.kind = item.ask.type;
    this.dataset.ask = item.id;
    this.tabIndex = 0;
    this.setAttribute("role", "group");
    this.setAttribute("aria-label", `${name}: ${headline(item)}`);
    const { origin = {} } = item;
    const head = h(
      "header",
      { class: "ask-head" },
      icon(sign),
      h("span", { class: "ask-name" }, name),
      h("span", { class: "ask-origin", title: origin.title ?? "" }, whoAsks(item)),
      this.#left,
    );
    const about = origin.title && h("p", { class: "ask-about" }, `“${origin.title}”`);
    this.replaceChildren(head, about || "", ...body(item, this));
  }

  /** The same item as it stands now: only when it expires can be another. */
  update(item) {
    this.#item = item;
    this.#tick();
  }

  get item() {
    return this.#item;
  }

  connectedCallback() {
    this.#guard.connect();
    this.#tick();
    this.#untick = everySecond(() => this.#tick());
  }

  disconnectedCallback() {
    this.#guard.disconnect();
    this.#untick?.();
  }

  /** Time counts only while nobody watches the inbox, so it is rarely seen: just after a page was opened. */
  #tick() {
    const { until = null } = this.#item;
    const left = until === null ? Infinity : until - now();
    say(this.#left, left > 3600 ? "" : `${OUTCOME[this.#item.ask.type]} in ${countdown(left)} if not answered`);
    this.#left.classList.toggle("is-urgent", left < 20);
  }
}

customElements.define("tl-ask", AskCard);
