// Reads server-sent events from a response, in Node and in web workers.
//
// EventSource is not used: Node has none, and it cannot send a header with the key.

"use strict";

const SILENCE = 45_000; // Milliseconds. The gateway sends a comment every 15 seconds, even without messages.
const LIMIT = 80 << 20; // Characters of one message. The gateway's inbox holds at most 32 Mi characters.

/** Splits text into messages, each of which has an optional `id` line, `data` lines and an empty line. */
class Frames {
  /** @type {(data: string, id: string) => void} */
  #received;
  #limit;
  #rest = "";
  #id = "";
  /** @type {string[]} */
  #data = [];
  #size = 0;

  /** @param {(data: string, id: string) => void} received */
  constructor(received, limit = LIMIT) {
    this.#received = received;
    this.#limit = limit;
  }

  /** @param {string} text */
  feed(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
    if (this.#size + this.#rest.length > this.#limit) throw new Error("The gateway sent a message that is too long.");
  }

  /** @param {string} line */
  #line(line) {
    if (line === "") this.#end();
    else if (line.startsWith("data:")) this.#add(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("id:")) this.#id = line.slice(3).trim();
  }

  /** @param {string} data */
  #add(data) {
    this.#data.push(data);
    this.#size += data.length;
  }

  #end() {
    if (this.#data.length === 0) return;
    const data = this.#data.join("\n");
    this.#data = [];
    this.#size = 0;
    this.#received(data, this.#id);
  }
}

/**
 * Read the events of a response until it ends, is silent for too long, or the signal is aborted.
 * @param {Response} response
 * @param {(data: string, id: string) => void} received
 * @param {{signal: AbortSignal, silence?: number}} options
 */
async function readEvents(response, received, { signal, silence = SILENCE }) {
  if (!response.body) throw new Error("The response has no body.");
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const frames = new Frames(received);
  const cancel = () => void reader.cancel().catch(() => {});
  signal.addEventListener("abort", cancel, { once: true });
  try {
    while (!signal.aborted) {
      const alarm = setTimeout(cancel, silence);
      const { done, value } = await reader.read().finally(() => clearTimeout(alarm));
      if (done) return;
      frames.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    signal.removeEventListener("abort", cancel);
    cancel();
  }
}

module.exports = { Frames, readEvents };
