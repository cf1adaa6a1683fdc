// <tl-inbox>: the panel with the inbox items of all conversations and all clients.

import "./inbox-card.js";
import { arrange, h } from "./dom.js";
import { chatPath } from "./embed.js";
import { icon } from "./icons.js";
import { live } from "./live-state.js";
import { canRequestNotifications, requestNotifications } from "./notifications.js";

class Inbox extends HTMLElement {
  #cards = new Map();
  #list = h("div", { class: "inbox-list", data: { test: "inbox-list" } });
  #none = h(
    "div",
    { class: "inbox-none" },
    icon("check"),
    h("p", {}, "Nothing is waiting for you."),
    h("p", { class: "muted" }, "Permissions, plans and questions from all clients of this gateway appear here."),
  );
  #notify = h(
    "button",
    { type: "button", class: "quiet small", hidden: true, onclick: () => this.#allow() },
    icon("bell"),
    "Notify me",
  );

  connectedCallback() {
    this.setAttribute("role", "complementary");
    this.setAttribute("aria-label", "Inbox");
    this.dataset.test = "inbox";
    this.hidden = true;
    const close = h(
      "button",
      {
        type: "button",
        class: "quiet icon-button",
        "aria-label": "Close inbox",
        onclick: () => this.toggle(false),
      },
      icon("cross"),
    );
    this.append(
      h("header", { class: "panel-head" }, h("h2", {}, "Inbox"), this.#notify, close),
      this.#list,
      this.#none,
    );
    this.addEventListener(
      "keydown",
      (event) => event.key === "Escape" && (event.stopPropagation(), this.toggle(false)),
    );
    live.on("inbox", () => this.#show());
    this.#show();
  }

  toggle(isOpen = this.hidden) {
    const hadFocus = this.contains(document.activeElement);
    this.hidden = !isOpen;
    this.#notify.hidden = !canRequestNotifications();
    if (isOpen) (this.#list.firstElementChild ?? this.querySelector("button:not([hidden])")).focus();
    else if (hadFocus) document.querySelector(".inbox-button").focus();
    this.dispatchEvent(new CustomEvent("toggled", { bubbles: true, detail: isOpen }));
  }

  #show() {
    const { items } = live.inbox;
    for (const id of this.#cards.keys()) if (!items.some((item) => item.id === id)) this.#cards.delete(id);
    const hadFocus = this.#list.contains(document.activeElement);
    arrange(
      this.#list,
      items.map((item) => this.#card(item)),
    );
    this.#none.hidden = items.length > 0;
    if (hadFocus && !this.#list.contains(document.activeElement))
      (this.#list.firstElementChild ?? this.querySelector("button:not([hidden])")).focus();
  }

  #card(item) {
    let card = this.#cards.get(item.id);
    if (card) card.update(item);
    else {
      card = document.createElement("tl-inbox-item");
      card.item = item;
      this.#cards.set(item.id, card);
      const session = item.session ?? item.origin?.session;
      if (session)
        card.append(
          h(
            "a",
            { class: "item-session", href: `${chatPath}#${session}`, onclick: () => this.#leave() },
            "Open chat",
            icon("right"),
          ),
        );
    }
    return card;
  }

  /** Close the panel if it covers the page, so that the opened chat becomes visible. */
  #leave() {
    if (getComputedStyle(this).position === "fixed") this.toggle(false);
  }

  async #allow() {
    await requestNotifications();
    this.#notify.hidden = !canRequestNotifications();
  }
}

customElements.define("tl-inbox", Inbox);
