// The text of an answer: finished blocks as HTML from the server, followed by the unfinished tail as plain text.
//
// Blocks are grouped. The browser neither lays out nor paints groups outside the screen, so an answer of 200 kB costs
// little more than its visible part.

import { h } from "./dom.js";
import { htmlToNodes } from "./server-html.js";
import { Tail } from "./tail.js";

const GROUP = 16;

export class Prose {
  element = h("div", { class: "prose", data: { test: "prose" } });
  #tail = new Tail();
  #blocks = [];
  #html = [];
  /** The length of the text in the blocks, in code points, as the server counts. */
  #until = 0;
  /** The length of the text that blocks already show, but that has not arrived as deltas yet. */
  #ahead = 0;

  constructor(part) {
    this.element.append(this.#tail.element);
    if (part.html !== undefined) this.#load(part);
    else if (part.text) this.add(part.text);
  }

  /** Append text that is not part of a block yet. */
  add(text) {
    if (this.#ahead > 0) {
      const rest = after(text, this.#ahead);
      this.#ahead = Math.max(0, this.#ahead - lengthOf(text));
      text = rest;
    }
    if (text) this.#tail.add(text);
  }

  /** Add the finished block with index `at`. Together with those before, it contains the text up to `until`. */
  block(at, html, until) {
    this.#replace(at, html);
    if (until <= this.#until) return;
    const held = this.#tail.text;
    const length = until - this.#until;
    this.#ahead = Math.max(0, length - lengthOf(held));
    this.#until = until;
    this.#tail.set(after(held, length));
  }

  /** Show the complete part. If it has no HTML, the missing blocks still follow. */
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

  /** Show a part with HTML: the complete text, or the text up to `until` if the part is still in progress. */
  #load(part) {
    this.#fill(part.html);
    if (part.until === undefined) {
      this.#until = lengthOf(part.text ?? "");
      return;
    }
    this.#until = part.until;
    // The earlier blocks arrived as one. The numbers of later blocks count them separately.
    this.#blocks.length = this.#html.length = Math.max(part.blocks ?? 1, 1);
    this.#tail.set(after(part.text ?? "", part.until));
  }

  /** Replace everything by one block. */
  #fill(html) {
    this.element.replaceChildren(this.#tail.element);
    this.#blocks = [];
    this.#html = [];
    this.#replace(0, html);
  }

  #replace(at, html) {
    const nodes = htmlToNodes(html);
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
        // A class is used because :last-child would make the browser check every group again.
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

// The server counts code points, but JavaScript counts UTF-16 code units.
const HALVES = /[\ud800-\udbff][\udc00-\udfff]/;

function lengthOf(text) {
  return HALVES.test(text) ? [...text].length : text.length;
}

function after(text, length) {
  return HALVES.test(text) ? [...text].slice(length).join("") : text.slice(length);
}
