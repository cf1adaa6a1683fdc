// Watches the inbox of every workspace of this window, and sends answers.

"use strict";

const { ApiError } = require("./api");
const { readItems } = require("./items");

/** @typedef {"accepted" | "late" | "refused"} Outcome */

class Inbox {
  #connection;
  #workspaces;
  #queue;
  #log;
  /** @type {Map<string, AbortController>} */
  #watches = new Map();
  /** @type {import("./api").GatewayApi | null} */
  #api = null;

  /**
   * @param {import("./connection").Connection} connection
   * @param {import("./workspaces").Workspaces} workspaces
   * @param {import("./queue").ItemQueue} queue
   * @param {(text: string) => void} log
   */
  constructor(connection, workspaces, queue, log) {
    this.#connection = connection;
    this.#workspaces = workspaces;
    this.#queue = queue;
    this.#log = log;
  }

  /** Watch the registered workspaces, and no others. */
  sync() {
    const { api } = this.#connection;
    const names = api ? this.#workspaces.registered.map(({ name }) => name) : [];
    if (api !== this.#api) this.close();
    this.#api = api;
    for (const [name, watch] of this.#watches) if (!names.includes(name)) this.#stop(name, watch);
    // Items of a lost gateway stay until it is back: a dialog must not close because of a short interruption.
    if (api) this.#queue.keep(names);
    if (api) for (const name of names) if (!this.#watches.has(name)) void this.#watch(api, name);
  }

  /** End all watches. */
  close() {
    for (const [name, watch] of this.#watches) this.#stop(name, watch);
  }

  /**
   * Send an answer.
   * @param {import("./items").Item} item
   * @param {unknown} body
   * @returns {Promise<{outcome: Outcome, message: string, param: string | null}>}
   */
  async answer(item, body) {
    const { api } = this.#connection;
    if (!api) return { outcome: "refused", message: "The gateway is not connected. Nothing was decided.", param: null };
    if (!this.#queue.answering(item.id)) return LATE;
    try {
      await api.post(`/api/inbox/${encodeURIComponent(item.id)}`, body, { workspace: item.workspace });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        this.#queue.settle(item.id);
        return LATE;
      }
      this.#queue.refused(item.id);
      const { message, param = null } = /** @type {ApiError} */ (error);
      return { outcome: "refused", message, param };
    }
    this.#queue.settle(item.id);
    return { outcome: "accepted", message: "", param: null };
  }

  /** @param {import("./api").GatewayApi} api @param {string} name */
  async #watch(api, name) {
    const watch = new AbortController();
    this.#watches.set(name, watch);
    try {
      await api.watch("/api/inbox/watch", {
        workspace: name,
        signal: watch.signal,
        received: (data) => this.#queue.update(name, readItems(JSON.parse(data).items, name)),
      });
    } catch (error) {
      if (!watch.signal.aborted) this.#log(`The inbox of ${name} cannot be watched: ${error}`);
    }
    if (watch.signal.aborted) return;
    this.#stop(name, watch);
    this.#connection.lost();
  }

  /** @param {string} name @param {AbortController} watch */
  #stop(name, watch) {
    watch.abort();
    if (this.#watches.get(name) === watch) this.#watches.delete(name);
  }
}

/** @type {{outcome: Outcome, message: string, param: string | null}} */
const LATE = { outcome: "late", message: "This was already answered, or it has expired.", param: null };

module.exports = { Inbox };
