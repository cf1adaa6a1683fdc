// <tl-inbox-item>: one inbox item with its origin and, if it expires, the time left.

import { headline, originText } from "./inbox-items.js";
import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { InputGuard } from "./input-guard.js";
import { permissionBody } from "./permission.js";
import { questionBody } from "./question-form.js";
import { reviewBody } from "./plan-review.js";
import { everySecond } from "./ticker.js";
import { formatCountdown, now } from "./format.js";
import { onWorkspaceTitles } from "./workspace-titles.js";

const KINDS = {
  permission: { sign: "shield", name: "Permission", body: permissionBody },
  plan_review: { sign: "plan", name: "Plan", body: reviewBody },
  form: { sign: "question", name: "Question", body: questionBody },
};

/** What happens to an item that is not answered in time. */
const OUTCOME = {
  permission: "Denied automatically",
  plan_review: "Rejected automatically",
  form: "Cancelled automatically",
};

class InboxCard extends HTMLElement {
  #item = null;
  #left = h("span", { class: "item-left" });
  #origin = h("span", { class: "item-origin" });
  #untick = null;
  #unlisten = null;
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
      { class: "item-head" },
      icon(sign),
      h("span", { class: "item-name" }, name),
      this.#origin,
      this.#left,
    );
    this.#origin.title = origin.title ?? "";
    this.#showOrigin();
    const about = origin.title && h("p", { class: "item-about" }, `“${origin.title}”`);
    this.replaceChildren(head, about || "", ...body(item, this));
  }

  /** Update the item. Only its expiry can have changed. */
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
    this.#unlisten = onWorkspaceTitles(() => this.#showOrigin());
  }

  disconnectedCallback() {
    this.#guard.disconnect();
    this.#untick?.();
    this.#unlisten?.();
  }

  #showOrigin() {
    setText(this.#origin, originText(this.#item));
  }

  /** Show the time left. Items expire only while the inbox is not watched, so this is rarely visible. */
  #tick() {
    const { until = null } = this.#item;
    const left = until === null ? Infinity : until - now();
    setText(this.#left, left > 3600 ? "" : `${OUTCOME[this.#item.ask.type]} in ${formatCountdown(left)}`);
    this.#left.classList.toggle("is-urgent", left < 20);
  }
}

customElements.define("tl-inbox-item", InboxCard);
