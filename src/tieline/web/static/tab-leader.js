// Shares one stream between all tabs of a browser: the tab that was visible last, the leader, reads the stream and
// passes the messages to the others.
//
// A browser opens at most six connections to a gateway, and a stream occupies one while its tab is open, so six tabs
// with a stream each would block all other requests. The visible tab leads, because browsers suspend hidden tabs. Where
// locks are not available (plain HTTP from another machine), every tab reads its own stream.

import { ownWorkspace } from "./embed.js";

const NAME = ownWorkspace === null ? "tieline-stream" : `tieline-stream:${ownWorkspace}`; // one stream per workspace
const LINGER = 2000; // Milliseconds for which the old leader continues to read, so that no message is missed.

/** Calls `lead(signal)` when this tab is to read the stream, and `received(message)` for messages from the leader. */
export class TabLeader {
  #channel = null;
  #lead;
  #waiting = null;
  #isLeading = false;

  constructor(lead, received) {
    this.#lead = lead;
    if (!navigator.locks || !globalThis.BroadcastChannel) {
      lead(new AbortController().signal);
      return;
    }
    this.#channel = new BroadcastChannel(NAME);
    this.#channel.onmessage = (event) => received(event.data);
    document.addEventListener("visibilitychange", () => this.#seen());
    if (document.visibilityState === "visible") this.#take();
    else this.#wait();
  }

  /** Send a message to the other tabs. */
  broadcast(message) {
    this.#channel?.postMessage(message);
  }

  #seen() {
    if (document.visibilityState !== "visible" || this.#isLeading) return;
    this.#waiting?.abort();
    this.#take();
  }

  #take() {
    this.#request({ steal: true });
  }

  #wait() {
    this.#waiting = new AbortController();
    this.#request({ signal: this.#waiting.signal });
  }

  #request(options) {
    const reading = new AbortController();
    let had = false;
    const hold = () => {
      had = this.#isLeading = true;
      this.#lead(reading.signal);
      return new Promise(() => {});
    };
    navigator.locks.request(NAME, options, hold).catch(({ name }) => {
      if (!had && name === "SecurityError") hold(); // the browser denies locks, as it may in a frame of another site
      else if (had) this.#lost(reading);
      // Otherwise this tab stopped waiting for the lock in order to take it at once.
    });
  }

  #lost(reading) {
    this.#isLeading = false;
    setTimeout(() => reading.abort(), LINGER);
    this.#wait();
  }
}
