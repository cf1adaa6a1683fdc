// Keeps a scrollable element at its end while content is added, until the user scrolls up.
//
// Reading the scroll position forces a layout, so it is read once per frame, after all changes.

import { afterFrame } from "./frame-scheduler.js";

const NEAR = 24;

export class StickToEnd {
  #scroller;
  #changed;
  #last = 0;
  /** The scroll position of the end when it was last read. */
  #end = 0;
  #hasMoved = false;
  #look = () => this.#scrolled();
  isHeld = true;

  constructor(scroller, changed = () => {}) {
    this.#scroller = scroller;
    this.#changed = changed;
    const moved = () => {
      this.#hasMoved = true;
      afterFrame(this.#look);
    };
    scroller.addEventListener("scroll", moved, { passive: true });
    // Turning the wheel upwards stops following at once, before the first pixel has moved.
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && this.#hold(this.#room < NEAR), { passive: true });
  }

  /** Scroll to the end, unless the user has scrolled up. */
  follow() {
    this.#scrolled();
    if (!this.isHeld) return;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#last = this.#end = this.#scroller.scrollTop;
  }

  /** Scroll to the end and follow it from now on. */
  hold() {
    this.#hasMoved = false;
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
    if (!this.#hasMoved) return;
    this.#hasMoved = false;
    const { scrollTop } = this.#scroller;
    const by = scrollTop - this.#last;
    // Content added in this frame does not count, because the user has not seen it yet.
    const end = Math.min(this.#end, this.#room);
    this.#last = scrollTop;
    this.#end = this.#room;
    if (by > 1 && scrollTop > end - NEAR) this.#hold(true);
    else if (by < -1) this.#hold(scrollTop > this.#end - NEAR);
  }

  #hold(isHeld) {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    this.#changed(isHeld);
  }
}
