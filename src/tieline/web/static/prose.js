// The words of an answer: finished blocks as the server rendered them, and behind them the tail as plain text.
//
// Blocks stand in groups of a few. A group that is off the screen is skipped when the page is laid out and painted, so
// an answer of 200 kB costs hardly more than what of it can be seen.

import { h } from "./dom.js";
import { nodesOf } from "./html.js";
import { Tail } from "./tail.js";

const GROUP = 16;

export class Prose {
  element = h("div", { class: "prose", data: { test: "prose" } });
  #tail = new Tail();
  #blocks = [];
  #html = [];
  /** How much of the text the blocks hold, in characters as the server counts them. */
  #until = 0;
  /** How much of what is still to come a block has shown already. */
  #ahead = 0;

  constructor(part) {
    this.element.append(this.#tail.element);
    if (part.html !== undefined) this.#load(part);
    else if (part.text) this.add(part.text);
  }

  /** What the tail holds and no block does yet. */
  add(text) {
    if (this.#ahead > 0) {
      const rest = after(text, this.#ahead);
      this.#ahead = Math.max(0, this.#ahead - lengthOf(text));
      text = rest;
    }
    if (text) this.#tail.add(text);
  }

  /** A block is finished; the text up to `until` is in it and those before. */
  block(at, html, until) {
    this.#replace(at, html);
    if (until <= this.#until) return;
    const held = this.#tail.text;
    const length = until - this.#until;
    this.#ahead = Math.max(0, length - lengthOf(held));
    this.#until = until;
    this.#tail.set(after(held, length));
  }

  /** The part is complete. With its HTML it is final; without, the blocks that are missing still come. */
  end(part) {
    if (part.html === undefined) {
      this.#ahead = 0;
      this.#tail.set(after(part.text ?? "", this.#until));
      return;
    }
    this.#tail.set("");
    this.#ahead = 0;
    if (part.html !== this.#html.join("")) this.#fill(part.html);
  }

  /** A part that was fetched: all of it rendered, or, while it is being written, as much as `until` says. */
  #load(part) {
    this.#fill(part.html);
    if (part.until === undefined) {
      this.#until = lengthOf(part.text ?? "");
      return;
    }
    this.#until = part.until;
    // The blocks of before arrived as one piece; those to come have their own numbers.
    this.#blocks.length = this.#html.length = Math.max(part.blocks ?? 1, 1);
    this.#tail.set(after(part.text ?? "", part.until));
  }

  /** Everything anew, as one piece. */
  #fill(html) {
    this.element.replaceChildren(this.#tail.element);
    this.#blocks = [];
    this.#html = [];
    this.#replace(0, html);
  }

  #replace(at, html) {
    const nodes = nodesOf(html);
    const old = this.#blocks[at];
    if (old?.length) {
      old[0].before(...nodes);
      old.forEach((node) => node.remove());
    } else this.#append(nodes);
    this.#blocks[at] = nodes;
    this.#html[at] = html;
  }

  #append(nodes) {
    for (let at = 0; at < nodes.length;) {
      let group = this.#tail.element.previousElementSibling;
      if (!group || group.childNodes.length >= GROUP) {
        // A class and not a rule about the last child: that would make the browser look at every group again.
        group?.classList.remove("is-last");
        group = h("div", { class: "blocks is-last" });
        this.#tail.element.before(group);
      }
      const room = GROUP - group.childNodes.length;
      group.append(...nodes.slice(at, at + room));
      at += room;
    }
  }
}

// The server counts characters, JavaScript counts halves of some of them.
const HALVES = /[\ud800-\udbff][\udc00-\udfff]/;

function lengthOf(text) {
  return HALVES.test(text) ? [...text].length : text.length;
}

function after(text, length) {
  return HALVES.test(text) ? [...text].slice(length).join("") : text.slice(length);
}
