// The gateway's keys, in the editor's secret storage, one for each address. Windows share them.

"use strict";

const { randomKey } = require("./node");

const SETTLE = 200; // Milliseconds after which two windows that create a key at the same time both see the last one.

class Keys {
  #secrets;
  #pause;
  /** Keys that could not be stored, kept for as long as the window is open. @type {Map<string, string>} */
  #unsaved = new Map();

  /**
   * @param {Pick<import("vscode").SecretStorage, "get" | "store" | "delete">} secrets
   * @param {(length: number) => Promise<void>} pause
   */
  constructor(secrets, pause) {
    this.#secrets = secrets;
    this.#pause = pause;
  }

  /** Return the key of an address; an empty string if there is none. @param {string} origin */
  async get(origin) {
    return (await this.#secrets.get(name(origin))) ?? this.#unsaved.get(origin) ?? "";
  }

  /** @param {string} origin @param {string} key */
  async set(origin, key) {
    this.#unsaved.delete(origin);
    if (key) await this.#secrets.store(name(origin), key);
    else await this.#secrets.delete(name(origin));
  }

  /** Return the key of an address. Create it if there is none. @param {string} origin */
  async create(origin) {
    const known = await this.get(origin);
    if (known) return known;
    const key = randomKey();
    try {
      await this.set(origin, key);
    } catch {
      // Without secret storage, the key is valid for this window only.
      this.#unsaved.set(origin, key);
    }
    await this.#pause(SETTLE);
    return this.get(origin);
  }
}

/** @param {string} origin */
const name = (origin) => `tieline.key ${origin}`;

module.exports = { Keys };
