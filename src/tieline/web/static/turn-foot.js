// The row below a message: buttons to copy, edit and retry it and to switch versions, and its token usage.

import { copyText } from "./clipboard.js";
import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { formatAge, formatDateTime, formatUsage } from "./format.js";

export class TurnFoot {
  #turn;
  #position = h("span", { class: "branch-position" });
  #branches = h(
    "span",
    {
      class: "branches",
      hidden: true,
      role: "group",
      "aria-label": "Versions of this message",
      data: { test: "branches" },
    },
    tool("left", "Earlier version", () => this.#step(-1)),
    this.#position,
    tool("right", "Later version", () => this.#step(1)),
  );
  #copy = tool("copy", "Copy message", () => copyText(this.#turn.text, this.#copy));
  #edit = tool("edit", "Edit as a new branch", () => this.#dispatch("edit"));
  #retry = tool("retry", "Regenerate answer", () => this.#dispatch("retry"));
  #facts = h("span", { class: "turn-facts" });
  #siblings = [];
  element = h("footer", { class: "turn-foot" }, this.#branches, this.#copy, this.#edit, this.#retry, this.#facts);

  constructor(turn) {
    this.#turn = turn;
    this.#edit.hidden = this.#retry.hidden = true;
  }

  /** Set whether this is the last message, the ids of all its versions, and whether an answer is in progress. */
  place({ isLast = false, siblings = [], isRunning = false }) {
    const { role, id } = this.#turn.turn;
    this.#siblings = siblings.length && !siblings.includes(id) ? [id, ...siblings] : siblings;
    this.#branches.hidden = this.#siblings.length < 2;
    const at = this.#siblings.indexOf(id);
    setText(this.#position, `${at + 1}/${this.#siblings.length}`);
    this.#branches.firstElementChild.disabled = isRunning || at <= 0;
    this.#branches.lastElementChild.disabled = isRunning || at >= this.#siblings.length - 1;
    this.#edit.hidden = role !== "user" || isRunning;
    this.#retry.hidden = role !== "assistant" || !isLast || isRunning;
    this.update();
  }

  update() {
    const { role, at, model, usage } = this.#turn.turn;
    this.element.classList.toggle("is-live", this.#turn.isLive);
    const facts = [role === "assistant" ? model : "", usage ? formatUsage(usage) : "", at ? formatAge(at) : ""];
    setText(this.#facts, facts.filter(Boolean).join(" · "));
    if (at) this.#facts.title = formatDateTime(at);
  }

  #step(by) {
    this.#dispatch("branch", this.#siblings[this.#siblings.indexOf(this.#turn.turn.id) + by]);
  }

  #dispatch(what, message = this.#turn.turn.id) {
    this.element.dispatchEvent(
      new CustomEvent(`turn-${what}`, { bubbles: true, detail: { message, turn: this.#turn } }),
    );
  }
}

function tool(name, label, act) {
  return h(
    "button",
    { type: "button", class: "quiet icon-button", title: label, "aria-label": label, onclick: act },
    icon(name),
  );
}
