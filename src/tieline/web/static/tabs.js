// One stream for all tabs of a browser: the tab that was looked at last reads it and passes it on to the others.
//
// A browser opens only six connections to a gateway, and a stream takes one for as long as its tab is open: with six
// tabs nothing else would get through. The tab that is visible leads because browsers put hidden ones to sleep. Where
// locks are missing (plain HTTP off this machine) every tab reads for itself.

const NAME = "tieline-stream";
const LINGER = 2000; // The old leader reads on for a moment, so that somebody is always listening.

/** Calls `lead(signal)` when this tab is to read the stream, and `hear(message)` with what another tab tells. */
export class Tabs {
  #channel = null;
  #lead;
  #waiting = null;
  #isLeading = false;

  constructor(lead, hear) {
    this.#lead = lead;
    if (!navigator.locks || !globalThis.BroadcastChannel) {
      lead(new AbortController().signal);
      return;
    }
    this.#channel = new BroadcastChannel(NAME);
    this.#channel.onmessage = (event) => hear(event.data);
    document.addEventListener("visibilitychange", () => this.#seen());
    if (document.visibilityState === "visible") this.#take();
    else this.#wait();
  }

  /** Pass something on to the other tabs. */
  tell(message) {
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
    navigator.locks.request(NAME, options, hold).catch(() => {
      if (!had) return; // gave up waiting in order to take it
      this.#isLeading = false;
      setTimeout(() => reading.abort(), LINGER);
      this.#wait();
    });
  }
}
