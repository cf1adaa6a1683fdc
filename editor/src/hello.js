// Finds out what listens at an address: a gateway that fits, an older one, another or a silent program, or nothing.

"use strict";

const { readText } = require("./api");
const { label } = require("./text");

const TIMEOUT = 5000;
const LIMIT = 64 << 10;
const NEEDED = ["workspaces", "embed"];

/**
 * @typedef {{kind: "tieline", version: string, features: string[], needsKey: boolean}} Found
 * @typedef {Found | {kind: "older", version: string} | {kind: "other", detail: string} | {kind: "silent"}
 *   | {kind: "none"}} Answer
 */

/**
 * Ask what listens at an address. Never reject.
 * @param {string} base
 * @param {{fetch?: typeof fetch, timeout?: number}} [options]
 * @returns {Promise<Answer>}
 */
async function sayHello(base, { fetch = globalThis.fetch, timeout = TIMEOUT } = {}) {
  const cut = new AbortController();
  const alarm = setTimeout(() => cut.abort(), timeout);
  try {
    const response = await fetch(`${base}/api/hello`, { redirect: "manual", cache: "no-store", signal: cut.signal });
    return classify(response.status, await readText(response, LIMIT).catch(() => ""));
  } catch {
    return cut.signal.aborted ? SILENT : NONE;
  } finally {
    clearTimeout(alarm);
  }
}

/** @type {Answer} */
const SILENT = { kind: "silent" };
/** @type {Answer} */
const NONE = { kind: "none" };

/**
 * @param {number} status
 * @param {string} text
 * @returns {Answer}
 */
function classify(status, text) {
  let hello = null;
  try {
    hello = JSON.parse(text);
  } catch {
    // Not JSON, and so not a gateway.
  }
  if (status === 200 && hello?.service === "tieline") {
    const version = label(hello.version, 40);
    const features = Array.isArray(hello.features) ? hello.features.map(String) : [];
    if (!NEEDED.every((one) => features.includes(one))) return { kind: "older", version };
    return { kind: "tieline", version, features, needsKey: hello.needs_key === true };
  }
  const said = typeof hello?.error?.message === "string" ? hello.error.message : "";
  return { kind: "other", detail: label(said, 300) || `It answered with status ${status}.` };
}

module.exports = { sayHello, classify };
