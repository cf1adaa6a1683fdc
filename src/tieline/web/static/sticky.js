// Keeps a scroller at its end while things are added, and lets go as soon as the person scrolls up.
//
// To ask where a scroller is makes the browser lay out the page, so it is asked once in a frame, when all changes are made.

import { afterFrame } from "./frames.js";

const NEAR = 24;

export class Sticky {
  #scroller;
  #changed;
  #last = 0;
  /** Where the end was when it was last asked for. */
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
    // A wheel turned upwards means "let go" before the first pixel has moved.
    scroller.addEventListener("wheel", (event) => event.deltaY < 0 && this.#hold(this.#room < NEAR), { passive: true });
  }

  /** Go to the end if held there. */
  follow() {
    this.#scrolled();
    if (!this.isHeld) return;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
    this.#last = this.#end = this.#scroller.scrollTop;
  }

  /** Go to the end and stay. */
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
    // What was added in this frame does not count: nobody has seen yet that the end is further down.
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
