// <tl-sessions>: the list of sessions, newest first. The user can open, rename and delete them, or start a new one.

import { patch, remove } from "./api.js";
import { modelName } from "./model-choice.js";
import { confirmAction } from "./confirm-dialog.js";
import { arrange, h, setText } from "./dom.js";
import { chatPath } from "./embed.js";
import { icon } from "./icons.js";
import { live } from "./live-state.js";
import { attempt } from "./notices.js";
import { everySecond } from "./ticker.js";
import { formatAge } from "./format.js";
import { onWorkspaceTitles, workspaceTitle } from "./workspace-titles.js";

const SEARCHABLE = 10;

/** Fires `open` with a session id, or null for a new session. */
class SessionList extends HTMLElement {
  #rows = new Map();
  #current = null;
  #search = h("input", {
    type: "search",
    class: "sessions-search",
    placeholder: "Search chats",
    "aria-label": "Search chats",
    hidden: true,
    oninput: () => this.#render(),
  });
  #list = h("ul", { class: "sessions-list" });
  #none = h("p", { class: "muted sessions-none" }, "No chats yet.");
  #age = 0;

  connectedCallback() {
    this.setAttribute("role", "navigation");
    this.setAttribute("aria-label", "Chats");
    const fresh = h(
      "button",
      {
        type: "button",
        class: "new-chat",
        title: "New chat (Alt+N)",
        data: { test: "new-chat" },
        onclick: () => this.#open(null),
      },
      icon("plus"),
      "New chat",
    );
    this.append(h("div", { class: "sessions-head" }, fresh, this.#search), this.#list, this.#none);
    this.#list.addEventListener("keydown", (event) => this.#key(event));
    live.on("state", () => this.#render());
    live.on("session", (summary) => this.#learn(summary));
    live.on("gone", () => this.#render());
    live.on("inbox", () => this.#mark());
    onWorkspaceTitles(() => this.#render());
    everySecond(() => this.#grewOlder());
    if (live.state) this.#render();
  }

  set current(id) {
    this.#rows.get(this.#current)?.setCurrent(false);
    this.#current = id;
    this.#rows.get(id)?.setCurrent(true);
  }

  /** Show a changed summary. Sort the list again if the position of its row may have changed. */
  #learn(summary) {
    const row = this.#rows.get(summary.id);
    const first = this.#list.firstElementChild;
    if (row && (row.element === first || row.updated === summary.updated)) row.show(summary);
    else this.#render();
  }

  #render() {
    const words = this.#search.value.trim().toLowerCase();
    const all = [...live.sessions.values()].sort((one, other) => other.updated - one.updated);
    const shown = words ? all.filter(({ title, model }) => `${title} ${model}`.toLowerCase().includes(words)) : all;
    for (const id of this.#rows.keys()) if (!live.sessions.has(id)) this.#rows.delete(id);
    const focused = [...this.#list.children].findIndex((row) => row.contains(document.activeElement));
    arrange(
      this.#list,
      shown.map((summary) => this.#row(summary).element),
    );
    this.#search.hidden = all.length < SEARCHABLE && !words;
    this.#none.hidden = shown.length > 0;
    setText(this.#none, words ? "No matching chats." : "No chats yet.");
    this.#mark();
    // If the row with the focus was removed, focus the next row, or the last one.
    if (focused >= 0 && !this.#list.contains(document.activeElement))
      (this.#list.children[focused] ?? this.#list.lastElementChild)?.querySelector("a").focus();
  }

  #row(summary) {
    let row = this.#rows.get(summary.id);
    if (!row) {
      row = new Row(summary.id, (id) => this.#open(id));
      row.setCurrent(summary.id === this.#current);
      this.#rows.set(summary.id, row);
    }
    row.show(summary);
    return row;
  }

  /** Mark the sessions that have inbox items. */
  #mark() {
    const waiting = new Set(live.inbox.items.map((item) => item.session ?? item.origin?.session).filter(Boolean));
    for (const [id, row] of this.#rows) row.setWaiting(waiting.has(id));
  }

  #grewOlder() {
    this.#age += 1;
    if (this.#age % 30 === 0) this.#rows.forEach((row) => row.showAge());
  }

  #key(event) {
    const rows = [...this.#list.querySelectorAll("a")];
    const at = rows.indexOf(event.target);
    if (at < 0) return;
    if (event.key === "ArrowDown") rows[at + 1]?.focus();
    else if (event.key === "ArrowUp") rows[at - 1]?.focus();
    else if (event.key === "F2") this.#rows.get(event.target.dataset.session).rename();
    else if (event.key === "Delete") this.#rows.get(event.target.dataset.session).drop();
    else return;
    event.preventDefault();
  }

  #open(id) {
    this.dispatchEvent(new CustomEvent("open", { detail: id }));
  }
}

/** One session in the list. */
class Row {
  #id;
  #summary = null;
  #title = h("span", { class: "session-title" });
  #model = h("span", { class: "session-model" });
  #time = h("time", {});
  #link;
  element;

  constructor(id, open) {
    this.#id = id;
    const opened = (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      open(id);
    };
    this.#link = h(
      "a",
      { href: `${chatPath}#${id}`, data: { session: id }, onclick: opened },
      this.#title,
      h("span", { class: "session-facts" }, this.#model, this.#time),
    );
    this.element = h(
      "li",
      { class: "session", data: { test: "session" } },
      this.#link,
      h(
        "span",
        { class: "session-tools" },
        button("edit", "Rename", () => this.rename()),
        button("delete", "Delete", () => this.drop()),
      ),
    );
  }

  get updated() {
    return this.#summary.updated;
  }

  show(summary) {
    this.#summary = summary;
    setText(this.#title, summary.title || "New chat");
    const facts = [modelName(summary.model), workspaceTitle(summary.workspace)].filter(Boolean);
    setText(this.#model, facts.join(" · "));
    this.#link.title = [summary.title, summary.model, ...facts.slice(1)].join("\n");
    this.element.classList.toggle("is-running", summary.running);
    this.showAge();
  }

  showAge() {
    setText(this.#time, this.#summary.running ? "running" : formatAge(this.#summary.updated));
  }

  setCurrent(isCurrent) {
    this.element.classList.toggle("is-current", isCurrent);
    if (isCurrent) this.#link.setAttribute("aria-current", "page");
    else this.#link.removeAttribute("aria-current");
  }

  setWaiting(isWaiting) {
    this.element.classList.toggle("is-waiting", isWaiting);
  }

  rename() {
    const input = h("input", {
      type: "text",
      class: "session-rename",
      value: this.#summary.title,
      "aria-label": "New title",
      maxLength: 200,
    });
    let isOver = false;
    const end = async (keeps) => {
      if (isOver) return; // removing the field fires `blur`, which would end it a second time
      isOver = true;
      const title = input.value.trim();
      const hadFocus = document.activeElement === input;
      input.replaceWith(this.#link);
      if (hadFocus) this.#link.focus();
      if (keeps && title && title !== this.#summary.title) {
        const summary = await attempt(() => patch(`/api/sessions/${this.#id}`, { title }));
        if (summary) live.learn(summary);
      }
    };
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.isComposing || event.keyCode === 229) return; // the key belongs to the input method
      if (event.key === "Enter") end(true);
      else if (event.key === "Escape") end(false);
    });
    input.addEventListener("blur", () => end(true));
    this.#link.replaceWith(input);
    input.focus();
    input.select();
  }

  async drop() {
    const isSure = await confirmAction(
      `Delete “${this.#summary.title || "New chat"}”?`,
      "Its messages cannot be recovered.",
      "Delete",
    );
    if (isSure) await attempt(() => remove(`/api/sessions/${this.#id}`));
  }
}

function button(name, label, act) {
  return h(
    "button",
    { type: "button", class: "quiet icon-button", title: label, "aria-label": label, onclick: act },
    icon(name),
  );
}

customElements.define("tl-sessions", SessionList);
