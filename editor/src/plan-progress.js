// Follows the plans of page sessions in the gateway's stream, from their review to the end of the turn.

"use strict";

const MOST_SESSIONS = 20;
const PAUSE = 2000;
const MOST_FAILURES = 30;

class PlanProgress {
  #connection;
  #changed;
  #pause;
  /** The followed sessions of each workspace. @type {Map<string, Set<string>>} */
  #sessions = new Map();
  /** @type {Map<string, AbortController>} */
  #streams = new Map();

  /**
   * @param {import("./connection").Connection} connection
   * @param {(session: string, entries: unknown) => void} changed called with the steps of a session's plan
   * @param {(length: number) => Promise<void>} pause
   */
  constructor(connection, changed, pause) {
    this.#connection = connection;
    this.#changed = changed;
    this.#pause = pause;
  }

  /** Follow a session until its turn ends. @param {string} workspace @param {string} session */
  follow(workspace, session) {
    const sessions = this.#sessions.get(workspace) ?? new Set();
    this.#sessions.set(workspace, sessions.add(session));
    if (sessions.size > MOST_SESSIONS) sessions.delete([...sessions][0]);
    if (!this.#streams.has(workspace)) void this.#read(workspace, sessions);
  }

  dispose() {
    for (const stream of this.#streams.values()) stream.abort();
    this.#sessions.clear();
  }

  /** @param {string} workspace @param {Set<string>} sessions */
  async #read(workspace, sessions) {
    const cut = new AbortController();
    this.#streams.set(workspace, cut);
    let [last, failures] = ["", 0];
    while (!cut.signal.aborted && sessions.size > 0 && failures < MOST_FAILURES) {
      try {
        /** @type {Record<string, string>} */
        const headers = last ? { "last-event-id": last } : {};
        await this.#connection.api?.watch("/api/stream", {
          workspace,
          headers,
          signal: cut.signal,
          received: (data, id) => {
            [last, failures] = [id, 0];
            this.#receive(JSON.parse(data), sessions);
            if (sessions.size === 0) cut.abort();
          },
        });
      } catch {
        // The gateway is restarting; the steps are not worth a message.
      }
      failures += 1;
      if (!cut.signal.aborted) await this.#pause(PAUSE);
    }
    this.#streams.delete(workspace);
    sessions.clear();
  }

  /** @param {any} message @param {Set<string>} sessions */
  #receive(message, sessions) {
    if (!sessions.has(message?.session)) return;
    if (message.type === "events" && Array.isArray(message.events)) {
      for (const event of message.events) if (event?.type === "plan") this.#changed(message.session, event.entries);
    } else if (message.type === "turn" && message.turn?.role !== "user") {
      if (message.turn?.plan) this.#changed(message.session, message.turn.plan.entries);
      sessions.delete(message.session);
    } else if (message.type === "gone") sessions.delete(message.session);
  }
}

module.exports = { PlanProgress };
