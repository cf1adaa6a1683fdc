// Reads the gateway's stream of server-sent events from any position.
//
// EventSource is not used: it cannot start at a given position, so events between fetching the state and opening the
// stream would be lost, and it cannot send the header that contains the pass.

import { accessHeaders } from "./api.js";

const SILENCE = 60_000; // Milliseconds. The gateway sends a comment more often than that, even without messages.

/** Read the stream after message `from` until the connection ends. Call `received(number, message)` for each.
 *
 * The number is null if the message has none: then it is about the gateway to which this page is connected. */
export async function readStream({ from, signal, opened, received }) {
  const cut = new AbortController();
  const whole = AbortSignal.any ? AbortSignal.any([signal, cut.signal]) : signal;
  const headers = { accept: "text/event-stream", "last-event-id": String(from), ...accessHeaders() };
  const response = await fetch("/api/stream", { headers, signal: whole, cache: "no-store" });
  if (!response.ok) throw Object.assign(new Error("no stream"), { status: response.status });
  opened();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const frames = new Frames(received);
  let alarm = 0;
  try {
    for (;;) {
      alarm = setTimeout(() => cut.abort(), SILENCE);
      const { done, value } = await reader.read();
      clearTimeout(alarm);
      if (done) return;
      frames.feed(value);
    }
  } finally {
    clearTimeout(alarm);
  }
}

/** Splits text into messages, each of which has an `id` line (or none), `data` lines and an empty line. */
class Frames {
  #received;
  #rest = "";
  #id = null;
  #data = [];

  constructor(received) {
    this.#received = received;
  }

  feed(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #line(line) {
    if (line === "") return this.#end();
    if (line.startsWith("data:")) this.#data.push(line.slice(line[5] === " " ? 6 : 5));
    else if (line.startsWith("id:")) this.#id = Number(line.slice(3));
    return undefined;
  }

  #end() {
    if (this.#data.length === 0) return;
    const message = JSON.parse(this.#data.join("\n"));
    const id = this.#id;
    this.#data = [];
    this.#id = null;
    this.#received(id, message);
  }
}
