// Starts the gateway as a process of its own. Needs Node, and so does nothing in a web extension host.
//
// The process is independent of the editor: other windows may use it when this one closes. It ends by itself when no
// client has been connected for a while (`--exit-when-idle`), even if the editor is killed.

"use strict";

const { nodeModule } = require("./node");
const { lastLines } = require("./text");

const IDLE_SECONDS = 30;
const START_TIMEOUT = 30_000;
const POLL = 150;
const MOST_LOG = 64 << 10;

const INSTALL =
  "Install it with “uv tool install tieline” or “pipx install tieline”, " +
  "or name the program in the setting tieline.command.";

/** A start that failed. `message` is for the user, `log` has the last lines of the gateway's output. */
class StartError extends Error {
  /** @param {string} message @param {string} [log] */
  constructor(message, log = "") {
    super(message);
    this.log = log;
  }
}

/** Return the program and its first arguments from the setting. @param {unknown} setting @returns {string[]} */
function commandLine(setting) {
  const parts = (Array.isArray(setting) ? setting : [setting]).filter(
    (part) => typeof part === "string" && part.trim(),
  );
  return parts.length ? parts : ["tieline"];
}

/** @param {{port: number, host: string, config?: string}} options */
function serveArguments({ port, host, config }) {
  const named = config ? ["--config", config] : [];
  return ["serve", "--host", host, "--port", String(port), "--exit-when-idle", String(IDLE_SECONDS), ...named];
}

/**
 * Return the environment of a program: the editor's, without the variables that affect Electron programs.
 * @param {Record<string, string | undefined>} environment
 * @param {Record<string, string>} more
 */
function environmentFor(environment, more) {
  const kept = Object.entries(environment).filter(([name]) => !/^(ELECTRON_|VSCODE_|CHROME_)/.test(name));
  return { ...Object.fromEntries(kept), ...more };
}

/**
 * Return where to look for the program, in this order. An editor that was not started from a shell may lack the folder
 * in which uv and pipx install programs.
 * @param {string} program
 * @param {string} home
 * @param {string} separator
 */
function candidates(program, home, separator) {
  if (program !== "tieline" || !home) return [program];
  return [program, [home, ".local", "bin", "tieline"].join(separator)];
}

/**
 * @typedef {object} Start
 * @property {string[]} command the program and its first arguments
 * @property {number} port
 * @property {string} host
 * @property {string} key
 * @property {string} [config] a configuration file that the user trusts
 * @property {string} logFile
 * @property {() => Promise<import("./hello").Answer>} look asks what listens at the address
 */

/**
 * Start a gateway and wait until one answers: this one, or one that another window has started at the same moment.
 * Throw a StartError if there is none in the end.
 * @param {Start} start
 * @param {{timeout?: number}} [limits]
 * @returns {Promise<{hello: import("./hello").Found, isOurs: boolean, pid: number}>}
 */
async function startGateway({ command, port, host, key, config, logFile, look }, { timeout = START_TIMEOUT } = {}) {
  const fs = nodeModule("fs");
  if (!fs) throw new StartError("A web extension cannot start programs. Start “tieline serve” yourself.");
  const log = fs.openSync(logFile, "w", 0o600);
  let child;
  try {
    child = await spawnFirst(command, serveArguments({ port, host, config }), key, log);
  } finally {
    fs.closeSync(log);
  }
  const end = Date.now() + timeout;
  for (;;) {
    const ended = child.exitCode !== null || child.signalCode !== null;
    const hello = await look();
    if (hello.kind === "tieline") return { hello, isOurs: !ended, pid: child.pid ?? 0 };
    if (ended && hello.kind === "none")
      throw new StartError("The gateway could not be started.", lastLines(readLog(logFile), [key]));
    if (hello.kind === "older" || (ended && hello.kind === "other"))
      throw new StartError("Another program took the gateway's port.", lastLines(readLog(logFile), [key]));
    if (Date.now() > end) {
      child.kill();
      throw new StartError("The gateway did not answer in time.", lastLines(readLog(logFile), [key]));
    }
    await new Promise((resolve) => setTimeout(resolve, POLL));
  }
}

/**
 * Start the first program that exists. No shell is involved.
 * @param {string[]} command
 * @param {string[]} rest
 * @param {string} key
 * @param {number} log
 * @returns {Promise<import("child_process").ChildProcess>}
 */
async function spawnFirst([program, ...first], rest, key, log) {
  const { spawn } = nodeModule("child_process");
  const home = nodeModule("os").homedir();
  for (const path of candidates(program, home, nodeModule("path").sep)) {
    const child = spawn(path, [...first, ...rest], {
      // Not the open folder: Windows searches the working directory for programs, and a folder can contain any.
      cwd: home,
      env: environmentFor(process.env, { TIELINE_KEY: key }),
      stdio: ["ignore", log, log],
      detached: true,
      windowsHide: true,
    });
    const error = await new Promise((resolve) => {
      child.once("spawn", () => resolve(null));
      child.once("error", resolve);
    });
    if (error === null) {
      child.on("error", () => {});
      child.unref();
      return child;
    }
    if (error.code !== "ENOENT") throw new StartError(`The program “${path}” cannot be started (${error.code}).`);
  }
  throw new StartError(`The program “${program}” was not found. ${INSTALL}`);
}

/** @param {string} file */
function readLog(file) {
  try {
    return nodeModule("fs").readFileSync(file, "utf8").slice(-MOST_LOG);
  } catch {
    return "";
  }
}

module.exports = { StartError, startGateway, commandLine, serveArguments, environmentFor, candidates, INSTALL };
