// <tl-cursor>: shows the state of the Cursor account, and starts a login that the user completes on Cursor's page.

import { post, remove } from "./api.js";
import { h, setText } from "./dom.js";
import { live } from "./live-state.js";
import { announce, attempt, notify } from "./notices.js";
import { everySecond } from "./ticker.js";
import { formatCountdown, now, plural } from "./format.js";

const STATE_TEXTS = { none: "Not logged in.", logged_in: "Logged in.", simulated: "Simulated.", off: "Switched off." };

class CursorLogin extends HTMLElement {
  #lamp = h("span", { class: "lamp", role: "img" });
  #words = h("span", { class: "muted", role: "status", data: { test: "cursor-state" } });
  #left = h("span", { class: "cursor-left", data: { test: "cursor-left" } });
  #link = h(
    "a",
    { target: "_blank", rel: "noopener noreferrer", data: { test: "cursor-url" } },
    "Open the login page again",
  );
  #wait = h("p", { class: "cursor-wait", hidden: true }, this.#link, this.#left);
  #trouble = h("p", { class: "trouble", role: "alert", hidden: true, data: { test: "cursor-trouble" } });
  #begin = h("button", { type: "button", data: { test: "cursor-login" }, onclick: () => this.#logIn() });
  #cancel = h(
    "button",
    { type: "button", class: "quiet", hidden: true, data: { test: "cursor-cancel" }, onclick: () => this.#giveUp() },
    "Cancel",
  );
  #state = null;
  #until = null;

  connectedCallback() {
    this.append(
      h(
        "div",
        { class: "row" },
        this.#lamp,
        h("div", { class: "row-words" }, h("strong", {}, "Cursor account"), this.#words, this.#wait, this.#trouble),
        h("div", { class: "actions" }, this.#cancel, this.#begin),
      ),
    );
    everySecond(() => this.#tick());
  }

  show({ state, text, trouble = "", is_offered: isOffered = true, url = "", until = null }) {
    const before = this.#state;
    const hadFocus = this.contains(document.activeElement);
    const isReady = state === "logged_in" || state === "simulated";
    const isWaiting = state === "waiting";
    this.#state = state;
    this.#until = until;
    this.#lamp.classList.toggle("is-on", isReady);
    this.#lamp.classList.toggle("is-busy", isWaiting);
    this.#lamp.setAttribute("aria-label", isReady ? "ready" : isWaiting ? "waiting" : "not ready");
    setText(this.#words, [text || STATE_TEXTS[state] || "", isReady ? models() : ""].filter(Boolean).join(" · "));
    this.#wait.hidden = this.#cancel.hidden = !isWaiting;
    if (/^https?:/.test(url)) this.#link.href = url;
    setText(this.#trouble, trouble);
    this.#trouble.hidden = trouble === "";
    this.#begin.hidden = !isOffered || isWaiting;
    this.#begin.className = state === "none" ? "primary" : "";
    setText(this.#begin, state === "logged_in" ? "Log in again" : "Log in with Cursor");
    this.#tick();
    if (hadFocus && state !== before) (isWaiting ? this.#link : this.#begin).focus();
    if (before === "waiting" && isReady) notify("You are logged in to Cursor. Its models are now available.");
    if (before === "waiting" && trouble) announce(trouble);
  }

  async #logIn() {
    // Open the window before the request: browsers block a window that opens after waiting for a response.
    const page = open("about:blank", "_blank");
    this.#begin.disabled = true;
    const answer = await attempt(() => post("/api/connect/cursor"));
    this.#begin.disabled = false;
    this.#begin.focus();
    if (!answer || !/^https?:/.test(answer.url)) {
      page?.close();
      return;
    }
    if (page) {
      page.opener = null;
      page.location = answer.url;
    }
    this.#link.href = answer.url;
  }

  async #giveUp() {
    await attempt(() => remove("/api/connect/cursor"));
  }

  #tick() {
    const left = this.#until === null ? null : formatCountdown(this.#until - now());
    setText(this.#left, left === null ? "" : `${left} left; this page updates automatically`);
  }
}

/** Return the number of Cursor models as text; empty if they are not known yet. */
function models() {
  const count = live.state.models.filter(({ backend }) => backend === "cursor").length;
  return count ? plural(count, "model") : "";
}

customElements.define("tl-cursor", CursorLogin);
