// The connection to the gateway: finds one or starts one, checks the key, and tries again when it is lost.
//
//   state       meaning                                    left by
//   off         not wanted, or stopped by the user         connect()
//   searching   asking what listens at the address         the answer
//   starting    a gateway is starting                      it answers, or fails
//   connected   the key is right                           lost(), a missed heartbeat
//   waiting     no gateway; looks again after a pause      the next look
//   locked      the key is missing or wrong                connect(), after a new key
//   failed      the user has to do something; still looks  the next look, connect()
//
// Each `connect` begins a new run and ends the earlier one.

"use strict";

const { decide } = require("./decisions");
const { ApiError } = require("./api");
const { StartError } = require("./gateway-process");

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;
const HEARTBEAT = 20_000;
const STABLE = 5000; // Milliseconds after which a connection counts as stable.
const KEY_GRACE = 1500; // Another window that starts a gateway at this moment stores its key within this time.
const STOP_TIMEOUT = 15_000;

const WHERE = "If another editor has started it, run “Tieline: Copy the Gateway's Key” there.";

/** @typedef {"off" | "searching" | "starting" | "connected" | "waiting" | "locked" | "failed"} State */
/** @typedef {import("./hello").Found} Found */

/**
 * @typedef {object} Environment
 * @property {() => ReturnType<import("./address").parseAddress>} address throws if the setting is invalid
 * @property {(base: string) => Promise<import("./hello").Answer>} look
 * @property {(key: string) => Promise<Found>} start starts a gateway with this key; throws StartError
 * @property {() => string} cannotStart why no gateway may be started; empty if one may
 * @property {{get(origin: string): Promise<string>, create(origin: string): Promise<string>,
 *   set(origin: string, key: string): Promise<void>}} keys
 * @property {(base: string, key: string) => import("./api").GatewayApi} api
 * @property {(text: string) => void} log
 * @property {(length: number) => Promise<void>} pause
 * @property {() => number} now
 */

class Connection {
  #environment;
  /** @type {State} */
  #state = "off";
  #reason = "";
  #run = 0;
  /** @type {import("./api").GatewayApi | null} */
  #api = null;
  /** @type {Found | null} */
  #hello = null;
  #since = 0;
  #wait = 0;
  #startProblem = "";
  /** @type {number[]} */
  #starts = [];
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /** @param {Environment} environment */
  constructor(environment) {
    this.#environment = environment;
  }

  get state() {
    return this.#state;
  }

  /** The reason for the state, for the user; empty if there is none. */
  get reason() {
    return this.#reason;
  }

  /** The gateway's client while connected, else null. */
  get api() {
    return this.#state === "connected" ? this.#api : null;
  }

  get version() {
    return this.#hello?.version ?? "";
  }

  /** Whether the gateway was started by an editor, and so may be stopped by one. */
  get canStop() {
    return this.#hello?.features.includes("stop") ?? false;
  }

  /** Call `listener` after every change. Return a function that removes it. @param {() => void} listener */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Look for the gateway, and forget earlier failures. With `isAsked`, the user wants one to be started. */
  connect({ isAsked = false } = {}) {
    this.#startProblem = "";
    this.#starts = [];
    this.#wait = 0;
    if (isAsked) this.#hello = null;
    this.#begin();
  }

  /** Report that requests fail. The gateway may be gone, or it was restarted and knows nothing of this window. */
  lost() {
    if (this.#state !== "connected") return;
    const isStable = this.#environment.now() - this.#since >= STABLE;
    this.#wait = isStable ? 0 : Math.min(Math.max(this.#wait * 2, FIRST_PAUSE), LONGEST_PAUSE);
    this.#begin();
  }

  /** Disconnect, and do not look for the gateway again. */
  disconnect(reason = "") {
    this.#run += 1;
    this.#set("off", reason);
  }

  /** Stop a gateway that an editor has started. Throw an Error if it is not such a gateway, or does not stop. */
  async stop() {
    const api = this.api;
    if (!api) throw new Error("Tieline is not connected to a gateway.");
    if (!this.canStop)
      throw new Error("This gateway was not started by the editor. Stop or restart it where it was started.");
    const base = api.base;
    // Disconnected first: otherwise the end of the gateway counts as a loss, and another one is started.
    this.disconnect("The gateway was stopped.");
    try {
      await api.post("/api/stop", {});
    } catch (error) {
      this.connect();
      throw error;
    }
    const end = this.#environment.now() + STOP_TIMEOUT;
    while ((await this.#environment.look(base)).kind !== "none") {
      if (this.#environment.now() > end) throw new Error("The gateway did not stop in time.");
      await this.#environment.pause(150);
    }
  }

  /** Stop the gateway and start it again. */
  async restart() {
    if (this.api) await this.stop();
    this.connect({ isAsked: true });
  }

  #begin() {
    this.#run += 1;
    this.#set("searching", "");
    void this.#look(this.#run);
  }

  /** @param {number} run */
  async #look(run) {
    const { pause, log } = this.#environment;
    if (this.#wait) await pause(this.#wait);
    for (let wait = FIRST_PAUSE; run === this.#run; wait = Math.min(wait * 2, LONGEST_PAUSE)) {
      try {
        if (await this.#attempt(run)) return;
      } catch (error) {
        if (run !== this.#run) return;
        const reason = error instanceof Error ? error.message : "Unexpected error.";
        if (this.#reason !== reason) log(reason);
        this.#set("failed", reason);
      }
      if (run !== this.#run) return;
      await pause(wait);
    }
  }

  /** Look once. Return whether the run ends here. @param {number} run */
  async #attempt(run) {
    const { look, cannotStart, now, log } = this.#environment;
    const { base } = this.#environment.address();
    const answer = await look(base);
    if (run !== this.#run) return true;
    const situation = {
      cannotStart: this.#startProblem || cannotStart(),
      wasForeign: this.#hello !== null && !this.canStop,
      starts: this.#starts,
      now: now(),
    };
    const decision = decide(answer, base, situation);
    switch (decision.action) {
      case "use":
        return this.#use(run, decision.hello);
      case "start":
        return this.#start(run);
      case "wait":
        this.#set(this.#startProblem ? "failed" : "waiting", decision.reason);
        return false;
      case "fail":
        if (this.#reason !== decision.reason) log(decision.reason);
        this.#set("failed", decision.reason);
        return false;
    }
  }

  /** @param {number} run */
  async #start(run) {
    const { keys, start, now, log } = this.#environment;
    const { origin } = this.#environment.address();
    this.#set("starting", "");
    this.#starts = [...this.#starts.slice(-9), now()];
    const key = await keys.create(origin);
    try {
      const hello = await start(key);
      if (run !== this.#run) return true;
      return await this.#use(run, hello);
    } catch (error) {
      if (!(error instanceof StartError)) throw error;
      if (run !== this.#run) return true;
      this.#startProblem = error.message;
      log(error.log ? `${error.message} Its output ends with:\n${error.log}` : error.message);
      this.#set("failed", error.log ? `${error.message} “Tieline: Show Log” says more.` : error.message);
      return false;
    }
  }

  /** Use a gateway, if its key is right. @param {number} run @param {Found} hello */
  async #use(run, hello) {
    const { base, origin } = this.#environment.address();
    let refusal = "";
    for (let tries = 0, used = ""; tries < 3; tries += 1) {
      const key = hello.needsKey ? await this.#environment.keys.get(origin) : "";
      if (tries === 0 || key !== used) refusal = await this.#try(run, base, key, hello);
      used = key;
      if (run !== this.#run || refusal === "") return true;
      if (tries < 2) await this.#environment.pause(KEY_GRACE / 2);
      if (run !== this.#run) return true;
    }
    this.#hello = hello;
    this.#set("locked", refusal);
    return true;
  }

  /**
   * Connect with a key. Return why the key is not accepted; an empty string if it is.
   * @param {number} run @param {string} base @param {string} key @param {Found} hello
   */
  async #try(run, base, key, hello) {
    if (hello.needsKey && !key) return `The gateway needs its key. ${WHERE}`;
    const api = this.#environment.api(base, key);
    try {
      await api.get("/api/workspaces");
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return `The gateway refuses the stored key. ${WHERE}`;
      throw error;
    }
    if (run !== this.#run) return "";
    this.#api = api;
    this.#hello = hello;
    this.#since = this.#environment.now();
    this.#set("connected", "");
    void this.#beat(run, base);
    return "";
  }

  /** @param {number} run @param {string} base */
  async #beat(run, base) {
    const { pause, look } = this.#environment;
    while (run === this.#run) {
      await pause(HEARTBEAT);
      if (run === this.#run && (await look(base)).kind !== "tieline" && run === this.#run) this.lost();
    }
  }

  /** @param {State} state @param {string} reason */
  #set(state, reason) {
    if (state === this.#state && reason === this.#reason && state !== "connected") return;
    this.#state = state;
    this.#reason = reason;
    for (const listener of this.#listeners) listener();
  }
}

module.exports = { Connection };
