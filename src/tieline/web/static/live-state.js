// The state of the gateway: fetched once, then kept up to date by the stream. Each stream message is applied once.

import { getState, locked } from "./api.js";
import { readStream } from "./stream.js";
import { TabLeader } from "./tab-leader.js";

const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 5000;
const NO_ITEMS = { version: -1, source: "", items: [] };
const GRACE = 500; // Milliseconds in which messages from another tab may still arrive.

/** Emits state, reset, session, gone, inbox, events, block, turn, leg, and link ("live" or "lost"); see `on`. */
class Live {
  state = null;
  sessions = new Map();
  inbox = NO_ITEMS;
  /** The number of the last stream message that was applied. */
  seq = 0;

  #listeners = new Map();
  #held = [];
  #tabs = null;
  #loaded = null;
  #loads = 0;
  /** The number of the last message that this tab has read from the stream. */
  #received = 0;

  on(type, listener) {
    if (!this.#listeners.has(type)) this.#listeners.set(type, new Set());
    this.#listeners.get(type).add(listener);
    return () => this.#listeners.get(type).delete(listener);
  }

  /** Fetch the state, then follow the stream for as long as the page is open. */
  start() {
    this.#loaded = this.#load(); // before the stream, which is read from the position of this state
    this.#tabs = new TabLeader(
      (signal) => this.#follow(signal),
      (sent) => this.#onBroadcast(sent),
    );
    return this.#loaded;
  }

  /** Remove an answered inbox item at once, before the stream confirms it. */
  decided(id) {
    this.#setInbox({ ...this.inbox, items: this.inbox.items.filter((item) => item.id !== id) });
  }

  /** Apply a session summary that was returned by a request. */
  learn(summary) {
    this.sessions.set(summary.id, summary);
    this.#emit("session", summary, this.seq);
  }

  /** Fetch models and backends again, after a change that the stream does not announce. */
  refresh() {
    return this.#refresh();
  }

  async #load() {
    this.#loads += 1;
    const mine = this.#loads;
    for (let wait = FIRST_PAUSE; ; wait = Math.min(wait * 2, LONGEST_PAUSE)) {
      try {
        const state = await getState();
        if (mine === this.#loads) this.#adopt(state);
        else await this.#loaded; // this state is outdated: a newer one is being fetched
        return;
      } catch {
        this.#emit("link", "lost");
        await pause(wait);
      }
    }
  }

  /** Replace the state, then apply the newer stream messages that arrived while it was fetched. */
  #adopt(state) {
    const isFirst = this.state === null;
    this.state = state;
    this.seq = state.seq;
    this.sessions = new Map(state.sessions.map((summary) => [summary.id, summary]));
    this.inbox = NO_ITEMS;
    const held = this.#held ?? [];
    this.#held = null;
    this.#emit("state", state);
    this.#setInbox(state.inbox);
    if (!isFirst) this.#emit("reset");
    for (const { seq, message } of held) this.#take(seq, message);
  }

  async #follow(signal) {
    let wait = FIRST_PAUSE;
    while (!signal.aborted) {
      await this.#loaded;
      this.#received = this.seq;
      try {
        await readStream({
          from: this.seq,
          signal,
          opened: () => {
            wait = FIRST_PAUSE;
            this.#setLink("live");
          },
          received: (seq, message) => this.#receive(seq, message),
        });
      } catch (error) {
        if (error.status === 401) await locked();
      }
      if (signal.aborted) return;
      this.#setLink("lost");
      await pause(wait);
      wait = Math.min(wait * 2, LONGEST_PAUSE);
      await this.#checkRestart();
    }
  }

  /** Replace the state if the gateway was restarted. */
  async #checkRestart() {
    try {
      const state = await getState();
      if (state.token === this.state.token && state.seq >= this.seq) return;
      this.#adopt(state);
      this.#tabs.broadcast({ type: "reset" });
    } catch {
      // The gateway is still unreachable. The caller tries again.
    }
  }

  #setLink(link) {
    this.#emit("link", link);
    this.#tabs.broadcast({ type: "link", link, from: this.seq });
  }

  #receive(seq, message) {
    this.#tabs.broadcast({ type: "message", seq, after: this.#received, message });
    this.#received = seq ?? this.#received;
    this.#take(seq, message);
  }

  /** Handle a message from the tab that reads the stream. */
  #onBroadcast(sent) {
    if (sent.type === "message") {
      // The message before this one is missing here: it was lost when the tab that read it was closed.
      if (this.#held === null && sent.after > this.seq) this.#reload();
      this.#take(sent.seq, sent.message);
    } else if (sent.type === "reset") this.#reload();
    else if (sent.type === "link") {
      if (sent.link === "live") setTimeout(() => this.#catchUp(sent.from), GRACE);
      this.#emit("link", sent.link);
    }
  }

  /** Reload if this tab missed messages before number `from`, at which the new leader started to read. */
  #catchUp(from) {
    if (this.#held === null && this.seq < from) this.#reload();
  }

  #reload() {
    this.#held ??= [];
    this.#loaded = this.#load();
  }

  #take(seq, message) {
    if (message.type === "reset") {
      this.#reload();
      return;
    }
    if (this.#held !== null) {
      this.#held.push({ seq, message });
      return;
    }
    if (seq !== null && seq <= this.seq) return;
    if (seq !== null) this.seq = seq;
    this.#apply(message, seq ?? Infinity);
  }

  /** Apply a message. A message without a number is never included in the fetched state. */
  #apply(message, seq) {
    switch (message.type) {
      case "session":
        this.sessions.set(message.summary.id, message.summary);
        return this.#emit("session", message.summary, seq);
      case "gone":
        this.sessions.delete(message.session);
        return this.#emit("gone", message.session);
      case "inbox":
        return this.#setInbox(message);
      case "state":
        return void this.#refresh();
      default:
        return this.#emit(message.type, message, seq);
    }
  }

  /** Versions of different replicas (`source`) cannot be compared: the last one wins. */
  #setInbox({ version, source = "", items }) {
    if (source === this.inbox.source && version < this.inbox.version) return;
    this.inbox = { version, source, items };
    this.#emit("inbox", items);
  }

  /** Fetch models and backends again. Sessions and the inbox are updated by their own stream messages. */
  async #refresh() {
    try {
      const { models, backends, tools, examples, address } = await getState();
      Object.assign(this.state, { models, backends, tools, examples, address });
      this.#emit("state", this.state);
    } catch {
      // If the gateway is unreachable, the stream ends as well, and everything is fetched again.
    }
  }

  #emit(type, ...facts) {
    for (const listener of this.#listeners.get(type) ?? []) listener(...facts);
  }
}

const pause = (length) => new Promise((resolve) => setTimeout(resolve, length));

export const live = new Live();
