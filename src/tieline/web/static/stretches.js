// A long row of elements in stretches of twenty: a stretch that is off the screen is skipped as a whole.
//
// The browser asks of everything that it may skip where it is, in every frame. Of two thousand messages that would be
// felt; of a hundred stretches it is not.

const SIZE = 20;

/** Elements must have `fill()` and `guessedHeight`. */
export class Stretches {
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

  /** Hold these, in this order; those that stand at the beginning already are left alone. */
  set(elements) {
    const before = [...this.#parent.children].flatMap((stretch) => [...stretch.children]);
    let same = 0;
    while (same < before.length && before[same] === elements[same]) same += 1;
    for (const element of before.slice(same)) element.remove();
    for (const stretch of [...this.#parent.children]) if (stretch.childElementCount === 0) stretch.remove();
    for (const element of elements.slice(same)) this.append(element);
  }

  append(element) {
    let stretch = this.#parent.lastElementChild;
    if (!stretch || stretch.childElementCount >= SIZE) {
      stretch = newStretch();
      this.#parent.append(stretch);
    }
    stretch.append(element);
    guess(stretch);
  }

  /** Put these before all others. */
  prepend(elements) {
    const stretches = [];
    for (let at = 0; at < elements.length; at += SIZE) {
      const stretch = newStretch();
      stretch.append(...elements.slice(at, at + SIZE));
      guess(stretch);
      stretches.push(stretch);
    }
    this.#parent.prepend(...stretches);
  }
}

function newStretch() {
  const stretch = document.createElement("div");
  stretch.className = "stretch";
  return stretch;
}

function guess(stretch) {
  const height = [...stretch.children].reduce((sum, element) => sum + element.guessedHeight, 0);
  stretch.style.containIntrinsicSize = `auto ${height}px`;
}
