// <tl-meter>: shows how full the context window of a conversation is, and the number of tokens used so far.

import { h, setText } from "./dom.js";
import { formatCount } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const AROUND = 2 * Math.PI * 7;
const NEARLY = 0.85;

class ContextMeter extends HTMLElement {
  #words = h("span", { class: "meter-words" });
  #arc = circle("meter-arc");
  #ring = ring(this.#arc);

  connectedCallback() {
    if (!this.#words.isConnected) this.append(this.#ring, this.#words);
    this.dataset.test = "meter";
    this.setAttribute("role", "img");
  }

  set usage(usage) {
    const { input = 0, output = 0, context, window: room } = usage ?? {};
    const share = context && room ? Math.min(1, context / room) : null;
    this.hidden = input + output === 0;
    this.#ring.toggleAttribute("hidden", share === null);
    this.#arc.setAttribute("stroke-dasharray", `${(share ?? 0) * AROUND} ${AROUND}`);
    this.classList.toggle("is-full", share > NEARLY);
    const total = `${formatCount(input + output)} tokens`;
    setText(this.#words, share === null ? total : `${formatCount(context)} / ${formatCount(room)}`);
    const used = `${input.toLocaleString()} tokens in and ${output.toLocaleString()} out so far`;
    this.title = share === null ? used : `${fill(share, context, room)}; ${used}`;
    this.setAttribute("aria-label", this.title);
  }
}

function fill(share, context, room) {
  const tokens = `${context.toLocaleString()} of ${room.toLocaleString()} tokens`;
  return `The context window is ${Math.round(share * 100)}% full (${tokens})`;
}

function circle(name) {
  const element = document.createElementNS(SVG, "circle");
  for (const [key, value] of [
    ["cx", 9],
    ["cy", 9],
    ["r", 7],
    ["class", name],
  ])
    element.setAttribute(key, value);
  return element;
}

function ring(arc) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 18 18");
  svg.setAttribute("class", "meter-ring");
  svg.setAttribute("aria-hidden", "true");
  svg.append(circle("meter-track"), arc);
  return svg;
}

customElements.define("tl-meter", ContextMeter);
