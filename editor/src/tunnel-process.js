// Runs `tieline tunnel --json`, which makes models reachable for Cursor's servers. Needs Node.
//
//   state     meaning
//   closed    no process
//   opening   the process runs, but has no public address yet
//   open      the address and the key are known

"use strict";

const { INSTALL, candidates, environmentFor } = require("./gateway-process");
const { nodeModule } = require("./node");
const { label, lastLines } = require("./text");

const MOST_LINE = 1 << 20;
const MOST_MODELS = 200;
const MOST_OUTPUT = 64 << 10;

/** @typedef {{url: string, key: string, models: string[]}} OpenTunnel */
/** @typedef {{opened(tunnel: OpenTunnel): void, requested(model: string, status: number): void,
 *   closed(reason: string): void}} Listener */

/** Splits output into lines of JSON. Lines that are not JSON are ignored. */
class JsonLines {
  #rest = "";
  #received;

  /** @param {(value: any) => void} received */
  constructor(received) {
    this.#received = received;
  }

  /** @param {string} text */
  feed(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = (lines.pop() ?? "").slice(-MOST_LINE);
    for (const line of lines) {
      try {
        this.#received(JSON.parse(line));
      } catch {
        // Not an event.
      }
    }
  }
}

class TunnelProcess {
  /** @type {import("child_process").ChildProcess | null} */
  #child = null;
  /** @type {"closed" | "opening" | "open"} */
  state = "closed";
  /** @type {OpenTunnel | null} */
  tunnel = null;
  #listener;

  /** @param {Listener} listener */
  constructor(listener) {
    this.#listener = listener;
  }

  /** Start the program, unless it runs already. @param {string[]} command @param {string | undefined} config */
  start(command, config) {
    if (this.state !== "closed") return;
    this.state = "opening";
    const args = ["tunnel", "--json", ...(config ? ["--config", config] : [])];
    const home = nodeModule("os").homedir();
    this.#spawn(candidates(command[0], home, nodeModule("path").sep), [...command.slice(1), ...args], home);
  }

  /** Stop the program. */
  stop() {
    this.#child?.kill();
    if (this.#child === null) this.#close("");
  }

  /** @param {string[]} programs @param {string[]} args @param {string} home */
  #spawn([program, ...others], args, home) {
    const child = nodeModule("child_process").spawn(program, args, {
      cwd: home,
      env: environmentFor(process.env, {}),
      stdio: ["ignore", "pipe", "pipe"],
      windowsHide: true,
    });
    this.#child = child;
    let errors = "";
    let reason = "";
    const lines = new JsonLines((event) => {
      if (event?.event === "closed") reason = label(event.reason, 300);
      else this.#on(event);
    });
    child.stdout.setEncoding("utf8").on("data", (/** @type {string} */ text) => lines.feed(text));
    child.stderr.setEncoding("utf8").on("data", (/** @type {string} */ text) => {
      errors = (errors + text).slice(-MOST_OUTPUT);
    });
    child.once("error", (/** @type {NodeJS.ErrnoException} */ error) => {
      if (error.code === "ENOENT" && others.length) return this.#spawn(others, args, home);
      const isMissing = error.code === "ENOENT";
      const problem = isMissing ? `was not found. ${INSTALL}` : `cannot be started (${error.code}).`;
      this.#close(`The program “${program}” ${problem}`);
    });
    child.once("close", (/** @type {number | null} */ code) => {
      if (this.#child !== child) return;
      const failure = code ? lastLines(errors, [this.tunnel?.key ?? ""], 12) : "";
      this.#close(reason || failure);
    });
  }

  /** @param {any} event */
  #on(event) {
    if (event?.event === "open" && typeof event.url === "string" && typeof event.key === "string") {
      const models = Array.isArray(event.models) ? event.models.slice(0, MOST_MODELS).map(String) : [];
      this.state = "open";
      this.tunnel = { url: event.url, key: event.key, models };
      this.#listener.opened(this.tunnel);
    } else if (event?.event === "request") this.#listener.requested(label(event.model, 100), Number(event.status));
  }

  /** @param {string} reason */
  #close(reason) {
    if (this.state === "closed") return;
    this.#child = null;
    this.state = "closed";
    this.tunnel = null;
    this.#listener.closed(reason);
  }
}

module.exports = { TunnelProcess, JsonLines };
