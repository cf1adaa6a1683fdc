// Sends requests to the gateway. The key is sent only in a header. Redirects are refused, so no other server gets it.

"use strict";

const { readEvents } = require("./sse");

const TIMEOUT = 15_000;
const LIMIT = 16 << 20; // Bytes of a response.

/** An error that the gateway reported; `status` is 0 if it did not answer. */
class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {{param?: string | null, code?: string | null}} [more]
   */
  constructor(status, message, { param = null, code = null } = {}) {
    super(message);
    this.status = status;
    this.param = param; // the field that caused it
    this.code = code;
  }
}

/** @typedef {{workspace?: string, body?: unknown, signal?: AbortSignal, headers?: Record<string, string>}} Options */

/** A client of one gateway. */
class GatewayApi {
  #key;
  #fetch;
  #timeout;
  #token = "";

  /** @param {{base: string, key?: string, fetch?: typeof fetch, timeout?: number}} options */
  constructor({ base, key = "", fetch = globalThis.fetch, timeout = TIMEOUT }) {
    this.base = base;
    this.#key = key;
    this.#fetch = fetch;
    this.#timeout = timeout;
  }

  get hasKey() {
    return this.#key !== "";
  }

  /** @param {string} path @param {Options} [options] */
  get(path, options) {
    return this.#call("GET", path, options);
  }

  /** @param {string} path @param {unknown} body @param {Options} [options] */
  post(path, body, options) {
    return this.#call("POST", path, { ...options, body });
  }

  /** @param {string} path @param {unknown} body @param {Options} [options] */
  patch(path, body, options) {
    return this.#call("PATCH", path, { ...options, body });
  }

  /**
   * Read a stream of server-sent events until it ends.
   * @param {string} path
   * @param {Options & {signal: AbortSignal, opened?: () => void, received: (data: string, id: string) => void}} options
   */
  async watch(path, { signal, opened, received, ...options }) {
    const cut = new AbortController();
    const alarm = setTimeout(() => cut.abort(), this.#timeout);
    const stop = () => cut.abort();
    signal.addEventListener("abort", stop, { once: true });
    try {
      if (signal.aborted) return;
      const headers = { accept: "text/event-stream" };
      const response = await this.#send("GET", path, { ...options, headers: { ...headers, ...options.headers } }, cut);
      clearTimeout(alarm);
      if (!response.ok) throw await readError(response);
      opened?.();
      await readEvents(response, received, { signal });
    } finally {
      clearTimeout(alarm);
      signal.removeEventListener("abort", stop);
      cut.abort();
    }
  }

  /** @param {string} method @param {string} path @param {Options} [options] @returns {Promise<any>} */
  async #call(method, path, options = {}) {
    const cut = new AbortController();
    const alarm = setTimeout(() => cut.abort(), this.#timeout);
    const stop = () => cut.abort();
    options.signal?.addEventListener("abort", stop, { once: true });
    try {
      const token = this.#token;
      let response = await this.#send(method, path, options, cut);
      if (response.status === 403 && method !== "GET" && (await this.#renewToken(token, cut)))
        response = await this.#send(method, path, options, cut);
      if (!response.ok) throw await readError(response);
      const text = await readText(response, LIMIT);
      return text ? JSON.parse(text) : null;
    } catch (error) {
      if (error instanceof ApiError) throw error;
      if (error instanceof SyntaxError) throw new ApiError(0, "The gateway's answer is not JSON.");
      throw new ApiError(0, "Cannot reach the gateway.");
    } finally {
      clearTimeout(alarm);
      options.signal?.removeEventListener("abort", stop);
    }
  }

  /**
   * Fetch the token that a gateway without a key demands of web pages, and so of a web extension host.
   * Return whether it differs from the one that was refused.
   * @param {string} refused
   * @param {AbortController} cut
   */
  async #renewToken(refused, cut) {
    const response = await this.#send("GET", "/api/state", {}, cut);
    if (!response.ok) return false;
    const { token = "" } = JSON.parse(await readText(response, LIMIT));
    this.#token = token;
    return token !== refused;
  }

  /** @param {string} method @param {string} path @param {Options} options @param {AbortController} cut */
  #send(method, path, { workspace, body, headers: more }, cut) {
    /** @type {Record<string, string>} */
    const headers = { accept: "application/json", ...more };
    if (this.#key) headers.authorization = `Bearer ${this.#key}`;
    if (workspace) headers["x-tieline-workspace"] = workspace;
    if (body !== undefined) headers["content-type"] = "application/json";
    if (method !== "GET" && this.#token) headers["x-tieline-token"] = this.#token;
    return this.#fetch(this.base + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      redirect: "error",
      signal: cut.signal,
    });
  }
}

/**
 * Return the text of a response. Reject if it is longer than `limit` bytes.
 * @param {Response} response
 * @param {number} limit
 */
async function readText(response, limit) {
  if (!response.body) return "";
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > limit) {
      void reader.cancel().catch(() => {});
      throw new ApiError(0, "The answer is too long.");
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** @param {Response} response */
async function readError(response) {
  const text = await readText(response, 1 << 20).catch(() => "");
  try {
    const { error } = JSON.parse(text);
    if (typeof error.message === "string") return new ApiError(response.status, error.message, error);
  } catch {
    // Not the gateway's own error: a proxy, for example, has answered.
  }
  return new ApiError(response.status, `The gateway answered with status ${response.status}.`);
}

module.exports = { ApiError, GatewayApi, readText };
