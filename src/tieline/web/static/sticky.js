// Keeps a scroller at its end while things are added, and lets go as soon as the person scrolls up.

const NEAR = 24;

export class Sticky {
  #scroller;
  #changed;
  #last = 0;
  isHeld = true;

  constructor(scroller, changed = () => {}) {
    this.#scroller = scroller;
    this.#changed = changed;
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    // A wheel turned upwards means "let go" before the first pixel has moved.
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && this.#hold(this.#room < NEAR), { passive: true });
  }

  /** Go to the end if held there. */
  follow() {
    if (!this.isHeld) return;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#last = this.#scroller.scrollTop;
  }

  /** Go to the end and stay. */
  hold() {
    this.#hold(true);
    this.follow();
  }

  release() {
    this.#hold(false);
  }

  get #room() {
    return this.#scroller.scrollHeight - this.#scroller.clientHeight;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#scroller;
    const wentUp = scrollTop < this.#last - 1;
    this.#last = scrollTop;
    const isNear = scrollHeight - scrollTop - clientHeight < NEAR;
    if (isNear) this.#hold(true);
    else if (wentUp) this.#hold(false);
  }

  #hold(isHeld) {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    this.#changed(isHeld);
  }
}
