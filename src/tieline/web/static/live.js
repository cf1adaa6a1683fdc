// What the page knows of the gateway: the state fetched once, kept current by the stream, each message taken once.

import { getState, locked } from "./api.js";
import { readStream } from "./stream.js";
import { Tabs } from "./tabs.js";

const FIRST_PAUSE = 300;
const LONGEST_PAUSE = 5000;
const GRACE = 500; // What another tab told may still be on its way.

/** Listen with `on`: state, reset, session, gone, inbox, events, block, turn, leg, and link ("live" or "lost"). */
class Live {
  state = null;
  sessions = new Map();
  inbox = { version: -1, items: [] };
  /** The number of the last message that was taken. */
  seq = 0;

  #listeners = new Map();
  #held = [];
  #tabs = null;
  #loaded = null;
  #loads = 0;

  on(type, listener) {
    if (!this.#listeners.has(type)) this.#listeners.set(type, new Set());
    this.#listeners.get(type).add(listener);
    return () => this.#listeners.get(type).delete(listener);
  }

  /** Fetch the state, then follow the stream for as long as the page is open. */
  start() {
    this.#tabs = new Tabs(
      (signal) => this.#follow(signal),
      (heard) => this.#hear(heard),
    );
    this.#loaded = this.#load();
    return this.#loaded;
  }

  /** Take an ask out at once; the stream will say so too. */
  decided(id) {
    this.#setInbox({ version: this.inbox.version, items: this.inbox.items.filter((item) => item.id !== id) });
  }

  /** Take in a summary that came as the answer to a call. */
  learn(summary) {
    this.sessions.set(summary.id, summary);
    this.#emit("session", summary, this.seq);
  }

  /** What can be chosen may be other things now; nobody tells when it is only an agent that did. */
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
        return;
      } catch {
        this.#emit("link", "lost");
        await pause(wait);
      }
    }
  }

  /** Begin anew from this state; what came while it was fetched and is newer is taken after it. */
  #adopt(state) {
    const isFirst = this.state === null;
    this.state = state;
    this.seq = state.seq;
    this.sessions = new Map(state.sessions.map((summary) => [summary.id, summary]));
    this.inbox = { version: -1, items: [] };
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
      try {
        await readStream({
          from: this.seq,
          signal,
          opened: () => {
            wait = FIRST_PAUSE;
            this.#setLink("live", true);
          },
          received: (seq, message) => this.#receive(seq, message),
        });
      } catch (error) {
        if (error.status === 401) await locked();
      }
      if (signal.aborted) return;
      this.#setLink("lost", true);
      await pause(wait);
      wait = Math.min(wait * 2, LONGEST_PAUSE);
      await this.#checkRestart();
    }
  }

  /** A gateway that was restarted counts from the beginning again: then nothing we hold is worth keeping. */
  async #checkRestart() {
    try {
      const state = await getState();
      if (state.token === this.state.token && state.seq >= this.seq) return;
      this.#adopt(state);
      this.#tabs.tell({ type: "reset" });
    } catch {
      // Still away; the next round of the loop tries again.
    }
  }

  #setLink(link, isOurs) {
    this.#emit("link", link);
    if (isOurs) this.#tabs.tell({ type: "link", link, from: this.seq });
  }

  #receive(seq, message) {
    this.#tabs.tell({ type: "message", seq, message });
    this.#take(seq, message);
  }

  #hear(heard) {
    if (heard.type === "message") {
      // Messages are numbered without gaps; one that is missing was told by a tab that is gone.
      if (this.#held === null && heard.seq > this.seq + 1) this.#reload();
      this.#take(heard.seq, heard.message);
    } else if (heard.type === "reset") this.#reload();
    else if (heard.type === "link") {
      if (heard.link === "live") setTimeout(() => this.#catchUp(heard.from), GRACE);
      this.#emit("link", heard.link);
    }
  }

  /** The tab that reads now began behind something: if we have not heard that by now, we never will. */
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
    this.#apply(message);
  }

  #apply(message) {
    switch (message.type) {
      case "session":
        this.sessions.set(message.summary.id, message.summary);
        return this.#emit("session", message.summary, this.seq);
      case "gone":
        this.sessions.delete(message.session);
        return this.#emit("gone", message.session);
      case "inbox":
        return this.#setInbox(message);
      case "state":
        return void this.#refresh();
      default:
        return this.#emit(message.type, message, this.seq);
    }
  }

  #setInbox({ version, items }) {
    if (version < this.inbox.version) return;
    this.inbox = { version, items };
    this.#emit("inbox", items);
  }

  /** Models or backends are others now; sessions and inbox have messages of their own. */
  async #refresh() {
    try {
      const { models, backends, tools, address } = await getState();
      Object.assign(this.state, { models, backends, tools, address });
      this.#emit("state", this.state);
    } catch {
      // If the gateway is away, the stream will notice and everything is fetched again.
    }
  }

  #emit(type, ...facts) {
    for (const listener of this.#listeners.get(type) ?? []) listener(...facts);
  }
}

const pause = (length) => new Promise((resolve) => setTimeout(resolve, length));

export const live = new Live();
