// <tl-chat>: the messages of one conversation. An element is updated only when its message changes.
//
// An event may arrive twice, in the fetched conversation and in the stream, but must be applied only once. A fetched
// conversation therefore has the number of the last stream message that it includes, and stream messages that arrive
// while it loads are held back.

import { get, post } from "./api.js";
import { belongsTo } from "./inbox-items.js";
import "./inbox-card.js";
import { arrange, h } from "./dom.js";
import { editMessage } from "./message-editor.js";
import { afterFrame } from "./frame-scheduler.js";
import { live } from "./live-state.js";
import { announce, attempt } from "./notices.js";
import { StickToEnd } from "./stick-to-end.js";
import { ChunkedList } from "./chunked-list.js";
import "./turn.js";

const AT_ONCE = 24;
const FETCHED = 100; // Number of messages fetched first, so that a long conversation opens as fast as a short one.
const EARLIER = 300; // Number of earlier messages fetched at a time.
const SLICE = 8; // Milliseconds for which elements are built without a break.

class Chat extends HTMLElement {
  session = null;
  #turns = new Map();
  #branches = {};
  #held = null;
  /** Stream messages up to this number are included in the fetched conversation. */
  #since = 0;
  #loads = 0;
  /** The id of the unknown message for which the conversation was last fetched again. */
  #sought = null;
  #list = h("div", { class: "turns", role: "feed", "aria-label": "Conversation", data: { test: "turns" } });
  #row = new ChunkedList(this.#list);
  #waiting = h("div", { class: "waiting", "aria-label": "Waiting for you", role: "region" });
  #cards = new Map();
  #sticky = null;
  #stick = () => this.#sticky.follow();

  connectedCallback() {
    this.append(this.#list, this.#waiting);
    const scroller = this.closest(".scroller");
    this.#sticky = new StickToEnd(scroller, (isHeld) => scroller.classList.toggle("is-loose", !isHeld));
    new ResizeObserver(this.#stick).observe(this);
    new ResizeObserver(this.#stick).observe(scroller);
    this.addEventListener("turn-edit", (event) => this.#edit(event.detail.turn));
    this.addEventListener("turn-retry", () => this.#redo("retry", {}));
    this.addEventListener("turn-branch", (event) => this.#redo("branch", { message: event.detail.message }));
    live.on("events", (message, seq) => this.#onStreamMessage(message, seq));
    live.on("block", (message, seq) => this.#onStreamMessage(message, seq));
    live.on("turn", (message, seq) => this.#onStreamMessage(message, seq));
    live.on("session", (summary) => summary.id === this.session && this.#place());
    live.on("inbox", () => this.#showItems());
    live.on("reset", () => live.sessions.has(this.session) && this.#load());
  }

  get isRunning() {
    return Boolean(live.sessions.get(this.session)?.running);
  }

  get isEmpty() {
    return this.#turns.size === 0;
  }

  /** Show a conversation, or an empty one if `session` is null. */
  async open(session) {
    this.session = session;
    this.#clear();
    this.#showItems();
    if (session) await this.#load();
  }

  toEnd() {
    this.#sticky.hold();
  }

  /** Send a message to a session. If that session is shown, show the message; stream messages are held until then. */
  async send(session, message) {
    const isShown = () => session === this.session;
    const parent = isShown() ? (this.#last?.id ?? null) : null;
    if (isShown()) this.#held ??= [];
    try {
      const { user, assistant } = await post(`/api/sessions/${session}/send`, { ...message, parent });
      if (isShown()) this.#begin(user, assistant);
    } finally {
      if (isShown()) this.#release();
    }
  }

  stop() {
    return attempt(() => post(`/api/sessions/${this.session}/stop`));
  }

  /** The card of the first inbox item of this conversation. */
  get firstItem() {
    return this.#waiting.firstElementChild;
  }

  get #last() {
    return this.#row.last?.turn;
  }

  #clear() {
    this.#turns.clear();
    this.#branches = {};
    this.#held = null;
    this.#since = 0;
    this.#row.set([]);
    this.#sticky.hold();
  }

  async #load() {
    const { session } = this;
    this.#loads += 1;
    const mine = this.#loads;
    this.#held ??= [];
    const detail = await attempt(() => get(`/api/sessions/${session}?last=${FETCHED}`));
    if (session !== this.session || mine !== this.#loads) return;
    if (detail) this.#show(detail);
    this.#since = detail?.seq ?? live.seq;
    this.#release();
    const first = this.#turns.keys().next().value;
    if (detail?.more && first === detail.messages[0]?.id) await this.#loadEarlier(first, mine);
  }

  #show({ messages, branches }) {
    const before = this.#turns;
    const shown = new Map(messages.map((turn) => [turn.id, this.#known(turn, before.get(turn.id))]));
    this.#turns = new Map([...earlier(before, messages[0]?.id), ...shown]);
    this.#branches = { ...this.#branches, ...branches };
    this.#row.set([...this.#turns.values()]);
    this.#fill();
    this.#place();
    this.#sticky.follow();
  }

  /** Load all messages before the message `first`, in several steps, so that the page stays responsive. */
  async #loadEarlier(first, mine) {
    for (let before = first; before; ) {
      const path = `/api/sessions/${this.session}?before=${encodeURIComponent(before)}&last=${EARLIER}`;
      const detail = await attempt(() => get(path));
      if (!detail || mine !== this.#loads) return;
      this.#prepend(detail);
      before = detail.more ? detail.messages[0].id : null;
    }
    this.#fill();
  }

  #prepend({ messages, branches }) {
    const older = new Map(messages.map((turn) => [turn.id, newTurn(turn)]));
    this.#turns = new Map([...older, ...this.#turns]);
    this.#branches = { ...branches, ...this.#branches };
    this.#row.prepend([...older.values()]);
    this.#place();
    this.#sticky.follow();
  }

  /** Return an element for a turn: the existing `element` if the turn is unchanged, else a new one. */
  #known(turn, element) {
    if (element && !element.isLive && turn.ending) return element;
    if (element && turn.role === "user") return element;
    return newTurn(turn);
  }

  /** Build the last elements of the conversation now, and the others from bottom to top when the browser is idle. */
  #fill() {
    const waiting = [...this.#turns.values()].filter((turn) => !turn.isFilled);
    waiting.splice(-AT_ONCE).forEach((turn) => turn.fill());
    const mine = this.#loads;
    const more = () => {
      const until = performance.now() + SLICE;
      while (waiting.length && performance.now() < until) waiting.pop().fill();
      if (waiting.length && mine === this.#loads) whenIdle(more);
    };
    if (waiting.length) whenIdle(more);
  }

  #begin(user, assistant) {
    if (!this.#turns.has(user.id)) this.#append(user);
    if (!this.#turns.has(assistant)) this.#append(blank(assistant, user.id));
    this.#place();
    this.#sticky.hold();
  }

  #append(turn) {
    const element = newTurn(turn);
    this.#turns.set(turn.id, element);
    this.#row.append(element);
    element.fill();
    return element;
  }

  #onStreamMessage(message, seq) {
    if (message.session !== this.session) return;
    if (this.#held) this.#held.push({ message, seq });
    else if (seq > this.#since) this.#take(message);
  }

  #release() {
    const held = this.#held ?? [];
    this.#held = null;
    for (const { message, seq } of held) this.#onStreamMessage(message, seq);
  }

  #take(message) {
    if (message.type === "turn") this.#complete(message.turn);
    else {
      const turn = this.#turns.get(message.message) ?? this.#unknown(message.message);
      if (!turn) return this.#hold(message);
      if (message.type === "block") turn.block(message);
      else turn.receive(message.events);
    }
    afterFrame(this.#stick);
    return undefined;
  }

  /** Append an element for an answer that was requested in another tab. Return null if the branch may have changed. */
  #unknown(id) {
    if (this.#last?.role !== "user" && this.#sought !== id) {
      this.#sought = id;
      return null;
    }
    const turn = this.#append(blank(id, this.#last?.id ?? null));
    this.#place();
    return turn;
  }

  #complete(turn) {
    const element = this.#turns.get(turn.id);
    if (element) element.complete(turn);
    else if ((turn.parent ?? null) === (this.#last?.id ?? null)) this.#append(turn);
    else return this.#hold({ type: "turn", session: this.session, turn });
    this.#place();
    if (turn.role === "assistant") announce("Answer complete.");
    return undefined;
  }

  /** Hold back a message that does not fit the branch shown, and fetch the conversation again. */
  #hold(message) {
    this.#held = [{ message, seq: live.seq }];
    this.#load();
  }

  /** Send a request that changes the branch shown, then load the conversation again. Return whether it succeeded. */
  async #redo(verb, body) {
    const { session } = this;
    this.#held ??= [];
    const done = await attempt(() => post(`/api/sessions/${session}/${verb}`, body));
    if (session === this.session) await this.#load();
    return done !== undefined;
  }

  #edit(turn) {
    editMessage(turn, (text) => this.#redo("edit", { message: turn.turn.id, text }));
  }

  #place() {
    const { isRunning } = this;
    const last = this.#last?.id;
    for (const [id, turn] of this.#turns) {
      const siblings = this.#branches[id] ?? [];
      const facts = `${id === last}${isRunning}${siblings.join()}`;
      if (turn.facts === facts) continue;
      turn.facts = facts;
      turn.place({ isLast: id === last, isRunning, siblings });
    }
    this.#list.setAttribute("aria-busy", String(isRunning));
  }

  #showItems() {
    const items = live.inbox.items.filter((item) => belongsTo(item, live.sessions.get(this.session)));
    for (const id of this.#cards.keys()) if (!items.some((item) => item.id === id)) this.#cards.delete(id);
    const hadFocus = this.#waiting.contains(document.activeElement);
    arrange(
      this.#waiting,
      items.map((item) => this.#card(item)),
    );
    this.#waiting.hidden = items.length === 0;
    this.classList.toggle("has-inbox-items", items.length > 0);
    this.#sticky.follow(); // At once: a removed card moves all content, which must not count as scrolling by the user.
    if (hadFocus && !this.#waiting.contains(document.activeElement)) {
      if (this.firstItem) this.firstItem.focus();
      else document.querySelector("tl-composer")?.focus();
    }
    afterFrame(this.#stick);
  }

  #card(item) {
    let card = this.#cards.get(item.id);
    if (card) card.update(item);
    else {
      card = document.createElement("tl-inbox-item");
      card.item = item;
      this.#cards.set(item.id, card);
    }
    return card;
  }
}

/** Return the turns before the one with this id. They never change, because each message has only one parent. */
function earlier(turns, id) {
  const all = [...turns];
  const at = all.findIndex(([known]) => known === id);
  return at < 0 ? [] : all.slice(0, at);
}

function newTurn(turn) {
  const element = document.createElement("tl-turn");
  element.set(turn);
  return element;
}

const blank = (id, parent) => ({
  id,
  parent,
  role: "assistant",
  at: Date.now() / 1000,
  model: null,
  parts: [],
  activities: [],
  plan: null,
  usage: null,
  ending: null,
});

const whenIdle = (work) =>
  globalThis.requestIdleCallback ? requestIdleCallback(work, { timeout: 200 }) : setTimeout(work, 16);

customElements.define("tl-chat", Chat);
