// A long list of elements in chunks of twenty. The browser skips the layout of a chunk that is outside the screen.
//
// In every frame, the browser checks the position of each element that it may skip. With two thousand messages this
// would be noticeably slow, but with a hundred chunks it is not.

const SIZE = 20;

/** Manages the children of `parent`. The elements must have `fill()` and `guessedHeight`. */
export class ChunkedList {
  #parent;

  constructor(parent) {
    this.#parent = parent;
    parent.addEventListener("contentvisibilityautostatechange", (event) => {
      if (!event.skipped && event.target.parentNode === parent)
        for (const element of event.target.children) element.fill();
    });
  }

  get last() {
    return this.#parent.lastElementChild?.lastElementChild ?? null;
  }

  /** Set the elements of the list, in this order. Those that are already in place are not moved. */
  set(elements) {
    const before = [...this.#parent.children].flatMap((chunk) => [...chunk.children]);
    let same = 0;
    while (same < before.length && before[same] === elements[same]) same += 1;
    for (const element of before.slice(same)) element.remove();
    for (const chunk of [...this.#parent.children]) if (chunk.childElementCount === 0) chunk.remove();
    for (const element of elements.slice(same)) this.append(element);
  }

  append(element) {
    let chunk = this.#parent.lastElementChild;
    if (!chunk || chunk.childElementCount >= SIZE) {
      chunk = newChunk();
      this.#parent.append(chunk);
    }
    chunk.append(element);
    guess(chunk);
  }

  /** Insert elements before all others. */
  prepend(elements) {
    const chunks = [];
    for (let at = 0; at < elements.length; at += SIZE) {
      const chunk = newChunk();
      chunk.append(...elements.slice(at, at + SIZE));
      guess(chunk);
      chunks.push(chunk);
    }
    this.#parent.prepend(...chunks);
  }
}

function newChunk() {
  const chunk = document.createElement("div");
  chunk.className = "chunk";
  return chunk;
}

function guess(chunk) {
  const height = [...chunk.children].reduce((sum, element) => sum + element.guessedHeight, 0);
  chunk.style.containIntrinsicSize = `auto ${height}px`;
}
