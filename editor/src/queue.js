// The inbox items of this window, and the state of each.
//
//   state      event                          next state
//   waiting    a notification shows it        announced
//   announced, the user opens it              open (one item at a time)
//   waiting
//   open       closed without an answer       announced
//   open       an answer is being sent        answering
//   answering  accepted, or no longer there   gone
//   answering  refused, or gateway lost       announced
//   any        missing from the next listing  gone
//
// An item that is gone is removed, and its signal is aborted, so that its dialog closes. Only the gateway adds and
// removes items: nothing here decides one.

"use strict";

/** @typedef {import("./items").Item} Item */
/** @typedef {"waiting" | "announced" | "open" | "answering"} State */
/** @typedef {{item: Item, state: State, gone: AbortController}} Entry */

const MOST_SETTLED = 500;

class ItemQueue {
  /** @type {Map<string, Entry>} */
  #entries = new Map();
  /** @type {Set<() => void>} */
  #listeners = new Set();
  /**
   * Items that were answered here. A listing that was sent before the answer may arrive after it.
   * @type {Set<string>}
   */
  #settled = new Set();

  /** Call `listener` after every change. Return a function that removes it. @param {() => void} listener */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The items that wait for an answer, in order of arrival. */
  get items() {
    return [...this.#entries.values()].filter(({ state }) => state !== "answering").map(({ item }) => item);
  }

  /** The item whose dialog is open, or null. */
  get opened() {
    for (const { item, state } of this.#entries.values()) if (state === "open") return item;
    return null;
  }

  /** @param {string} id */
  get(id) {
    return this.#entries.get(id)?.item ?? null;
  }

  /** @param {string} id */
  state(id) {
    return this.#entries.get(id)?.state ?? "gone";
  }

  /** Return the signal that is aborted when the item is gone. @param {string} id */
  signal(id) {
    return this.#entries.get(id)?.gone.signal ?? AbortSignal.abort();
  }

  /**
   * Replace the items of one workspace.
   * @param {string} workspace
   * @param {Item[]} items
   */
  update(workspace, items) {
    const kept = new Set(items.map(({ id }) => id));
    for (const [id, { item }] of this.#entries) if (item.workspace === workspace && !kept.has(id)) this.#remove(id);
    for (const item of items) {
      if (this.#settled.has(item.id)) continue;
      const known = this.#entries.get(item.id);
      if (known) known.item = item;
      else this.#entries.set(item.id, { item, state: "waiting", gone: new AbortController() });
    }
    this.#emit();
  }

  /** Remove all items of workspaces that are not in `workspaces`. @param {string[]} workspaces */
  keep(workspaces) {
    for (const [id, { item }] of this.#entries) if (!workspaces.includes(item.workspace)) this.#remove(id);
    this.#emit();
  }

  /** Return the next item that no notification has shown, and mark it as announced; null if there is none. */
  announce() {
    for (const entry of this.#entries.values()) {
      if (entry.state !== "waiting") continue;
      entry.state = "announced";
      return entry.item;
    }
    return null;
  }

  /** Open an item. Return false if another one is open, or if this one is gone or being answered. @param {string} id */
  open(id) {
    const entry = this.#entries.get(id);
    if (!entry || this.opened || entry.state === "answering") return false;
    return this.#change(id, "open");
  }

  /** Close the dialog of an item that was not answered. @param {string} id */
  close(id) {
    if (this.state(id) === "open") this.#change(id, "announced");
  }

  /** Mark an item as being answered. Return false if it is gone or is being answered already. @param {string} id */
  answering(id) {
    const state = this.state(id);
    if (state === "gone" || state === "answering") return false;
    return this.#change(id, "answering");
  }

  /** Mark an answer as refused: the item waits again. @param {string} id */
  refused(id) {
    if (this.state(id) === "answering") this.#change(id, "announced");
  }

  /** Remove an item that was answered here, before the next listing confirms it. @param {string} id */
  settle(id) {
    this.#settled.add(id);
    if (this.#settled.size > MOST_SETTLED) this.#settled.delete([...this.#settled][0]);
    this.#remove(id);
    this.#emit();
  }

  /** @param {string} id @param {State} state */
  #change(id, state) {
    const entry = this.#entries.get(id);
    if (!entry) return false;
    entry.state = state;
    this.#emit();
    return true;
  }

  /** @param {string} id */
  #remove(id) {
    const entry = this.#entries.get(id);
    this.#entries.delete(id);
    entry?.gone.abort();
  }

  #emit() {
    for (const listener of this.#listeners) listener();
  }
}

module.exports = { ItemQueue };
