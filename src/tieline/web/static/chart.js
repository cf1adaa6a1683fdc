// <tl-chart>: latency and tokens of recent requests over time, drawn as SVG.

import { h } from "./dom.js";
import { afterFrame } from "./frame-scheduler.js";
import { everySecond } from "./ticker.js";
import { formatCount, formatDuration, formatTime, now, plural, promptTokens } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST = 400;
const HEIGHT = 96;
const LEFT = 44;
const BOTTOM = 16;
const BUCKETS = 60;
const LEAST_SPAN = 300; // seconds
const REDRAW = 5;

class Chart extends HTMLElement {
  #legs = new Map();
  #latency = panel("Latency", ["first byte", "is-first"], ["duration", "is-whole"]);
  #tokens = panel("Tokens", ["in", "is-first"], ["out", "is-whole"]);
  #width = 0;
  #ticks = 0;
  #draw = () => this.#drawAll();

  connectedCallback() {
    this.append(this.#latency.element, this.#tokens.element);
    new ResizeObserver(() => {
      const width = this.#latency.svg.clientWidth;
      if (width !== this.#width) this.#redraw();
      this.#width = width;
    }).observe(this);
    // The time axis moves even without new requests.
    everySecond(() => (this.#ticks += 1) % REDRAW === 0 && document.visibilityState === "visible" && this.#redraw());
  }

  set legs(legs) {
    this.#legs = new Map([...legs].reverse().map((leg) => [leg.id, leg]));
    this.#redraw();
  }

  learn(leg) {
    this.#legs.set(leg.id, leg);
    if (this.#legs.size > MOST) this.#legs.delete(this.#legs.keys().next().value);
    if (leg.status !== "running") this.#redraw();
  }

  #redraw() {
    afterFrame(this.#draw);
  }

  #drawAll() {
    const legs = [...this.#legs.values()];
    const end = now();
    const begin = Math.min(end - LEAST_SPAN, ...legs.map(({ at }) => at));
    const x = (at, width) => LEFT + ((at - begin) / (end - begin)) * (width - LEFT - 4);
    this.#drawLatency(legs, x, begin, end);
    this.#drawTokens(legs, begin, end);
  }

  #drawLatency(legs, x, begin, end) {
    const { svg, summary } = this.#latency;
    const width = svg.clientWidth;
    const y = logScale(0.05, 120);
    const marks = [0.1, 1, 10, 60].map((at) => gridLine(width, y(at), formatDuration(at).replace(/\.0 s/, " s")));
    const dots = legs.flatMap((leg) => [
      dot(leg, leg.duration, "is-whole", x(leg.at, width), y),
      dot(leg, leg.first_byte, "is-first", x(leg.at, width), y),
    ]);
    svg.replaceChildren(...marks, ...timeLabels(width, begin, end), ...dots.filter(Boolean));
    const done = legs.filter((leg) => leg.duration !== null && leg.duration !== undefined);
    const first = formatDuration(median(done.map((leg) => leg.first_byte ?? leg.duration)));
    const whole = formatDuration(median(done.map((leg) => leg.duration)));
    summary.textContent = done.length ? `median ${first} to first byte, ${whole} in total` : "";
    svg.setAttribute("aria-label", `Latency of ${plural(done.length, "request")}: ${summary.textContent}`);
  }

  #drawTokens(legs, begin, end) {
    const { svg, summary } = this.#tokens;
    const width = svg.clientWidth;
    const sums = Array.from({ length: BUCKETS }, () => [0, 0]);
    for (const { at, usage } of legs) {
      if (!usage) continue;
      const bucket = sums[Math.min(BUCKETS - 1, Math.floor(((at - begin) / (end - begin)) * BUCKETS))];
      bucket[0] += promptTokens(usage);
      bucket[1] += usage.output ?? 0;
    }
    const top = niceTop(Math.max(1, ...sums.map(([input, output]) => input + output)));
    const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - 8);
    const step = (width - LEFT - 4) / BUCKETS;
    const bars = sums.flatMap(([input, output], at) => [
      bar(at, step, y(input), y(0), "is-first"),
      bar(at, step, y(input + output), y(input), "is-whole"),
    ]);
    svg.replaceChildren(
      gridLine(width, y(0), "0"),
      gridLine(width, y(top / 2), formatCount(top / 2)),
      gridLine(width, y(top), formatCount(top)),
      ...timeLabels(width, begin, end),
      ...bars.filter(Boolean),
    );
    const [input, output] = sums.reduce((sum, [one, other]) => [sum[0] + one, sum[1] + other], [0, 0]);
    summary.textContent = `${formatCount(input)} in, ${formatCount(output)} out`;
    svg.setAttribute("aria-label", `Tokens over time: ${summary.textContent}`);
  }
}

function panel(title, ...legend) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("role", "img");
  svg.setAttribute("height", HEIGHT);
  const summary = h("span", { class: "chart-summary" });
  const keys = legend.map(([label, name]) => h("span", { class: `chart-key ${name}` }, label));
  return {
    svg,
    summary,
    element: h("figure", { class: "chart" }, h("figcaption", {}, h("strong", {}, title), keys, summary), svg),
  };
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Return a function from seconds to a y coordinate. It is logarithmic: answers take from milliseconds to minutes. */
function logScale(least, most) {
  const room = HEIGHT - BOTTOM - 8;
  return (value) =>
    HEIGHT - BOTTOM - (Math.log(Math.min(most, Math.max(least, value)) / least) / Math.log(most / least)) * room;
}

function dot(leg, value, name, x, y) {
  if (value === null || value === undefined) return null;
  const failed = leg.status === "failed" ? " is-failed" : "";
  const first = formatDuration(leg.first_byte);
  return draw(
    "circle",
    { cx: x.toFixed(1), cy: y(value).toFixed(1), r: 2.4, class: `chart-dot ${name}${failed}` },
    draw("title", {}, `${leg.model}: ${first} to first byte, ${formatDuration(leg.duration)} in total`),
  );
}

function bar(at, step, top, bottom, name) {
  if (bottom - top < 0.3) return null;
  return draw("rect", {
    x: (LEFT + at * step).toFixed(1),
    y: top.toFixed(1),
    width: Math.max(1, step - 1.5).toFixed(1),
    height: (bottom - top).toFixed(1),
    class: `chart-bar ${name}`,
  });
}

function gridLine(width, y, label) {
  return draw(
    "g",
    {},
    draw("line", { x1: LEFT, x2: width, y1: y, y2: y, class: "chart-line" }),
    draw("text", { x: LEFT - 6, y: y + 3.5, "text-anchor": "end" }, label),
  );
}

function timeLabels(width, begin, end) {
  const at = (when, x, anchor) =>
    draw("text", { x, y: HEIGHT - 3, "text-anchor": anchor }, formatTime(when).replace(/:\d\d(?=\D*$)/, ""));
  return [at(begin, LEFT, "start"), at((begin + end) / 2, (LEFT + width) / 2, "middle"), at(end, width - 2, "end")];
}

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.floor(sorted.length / 2)];
}

/** Round a number up to 1, 2 or 5 times a power of ten. */
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}

customElements.define("tl-chart", Chart);
