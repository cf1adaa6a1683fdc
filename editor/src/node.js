// Access to Node's modules, which a web extension host does not have.

"use strict";

/**
 * Return a module of Node, or null in a web extension host.
 * @template {"child_process" | "crypto" | "fs" | "os" | "path"} Name
 * @param {Name} name
 * @returns {any}
 */
function nodeModule(name) {
  if (typeof process !== "object" || !process.versions?.node) return null;
  try {
    return require(name);
  } catch {
    return null;
  }
}

/** Return a random string of 43 characters. */
function randomKey() {
  const bytes = new Uint8Array(32);
  const crypto = globalThis.crypto ?? nodeModule("crypto").webcrypto;
  crypto.getRandomValues(bytes);
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

module.exports = { nodeModule, randomKey };
