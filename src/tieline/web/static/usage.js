// <tl-usage>: the usage in a range of days, as a bar for each day and a table of sums.

import { get, accessHeaders } from "./api.js";
import { h, setText } from "./dom.js";
import { formatCount, plural } from "./format.js";
import { attempt } from "./notices.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 150;
const LEFT = 52;
const BOTTOM = 18;
const DAY = 86_400_000;
const RANGES = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
];
const GROUPS = [
  ["key", "key"],
  ["model", "model"],
  ["client", "client"],
  ["day", "day"],
];
const MEASURES = {
  tokens: { label: "Tokens", value: tokensOf, format: formatCount },
  cost: { label: "Cost", value: (row) => row.cost ?? 0, format: formatCost },
  requests: { label: "Requests", value: (row) => row.requests, format: formatCount },
};
const COLUMNS = [
  ["Requests", (row) => formatCount(row.requests)],
  ["Input", (row) => formatCount(row.input + row.cache_write)],
  ["Cached", (row) => formatCount(row.cache_read)],
  ["Output", (row) => formatCount(row.output)],
  ["Cost", (row) => costText(row)],
];

class UsageView extends HTMLElement {
  #days = [];
  #loads = 0;
  #range = choice("Range", RANGES, "30", () => this.load());
  #group = choice("Group by", GROUPS, "key", () => this.load());
  #measure = choice(
    "Chart",
    Object.entries(MEASURES).map(([name, { label }]) => [name, label.toLowerCase()]),
    "tokens",
    () => this.#draw(),
  );
  #summary = h("span", { class: "chart-summary" });
  #title = h("strong", {}, "Tokens");
  #svg = document.createElementNS(SVG, "svg");
  #table = h("table", { class: "usage-table", id: "usage-table", tabIndex: -1, data: { test: "usage-table" } });
  /** Why the table is empty. */
  #nothing = h("p", { class: "muted", role: "status", hidden: true, data: { test: "no-usage" } });
  #note = h("p", { class: "muted form-hint" });

  connectedCallback() {
    this.#svg.setAttribute("role", "img");
    this.#svg.setAttribute("height", HEIGHT);
    const csv = h("button", { type: "button", data: { test: "csv" }, onclick: () => this.#download() }, "Download CSV");
    const controls = [this.#range, this.#group, this.#measure].map(({ element }) => element);
    this.append(
      h("div", { class: "usage-controls" }, controls, csv),
      h(
        "figure",
        { class: "chart", data: { test: "usage-chart" } },
        h("figcaption", {}, this.#title, this.#summary),
        this.#svg,
      ),
      this.#nothing,
      h("div", { class: "usage-frame" }, this.#table),
      this.#note,
    );
    new ResizeObserver(() => this.#draw()).observe(this);
  }

  async load() {
    const mine = (this.#loads += 1);
    const group = this.#group.input.value;
    let [days, rows, problem] = [[], [], ""];
    try {
      days = (await get(`/api/usage?by=day&${this.#query}`)).rows;
      rows = group === "day" ? days : (await get(`/api/usage?by=${group}&${this.#query}`)).rows;
    } catch (error) {
      [days, problem] = [[], error.message];
    }
    if (mine !== this.#loads) return;
    setText(this.#nothing, problem || "No usage recorded in this period.");
    this.#days = days;
    this.#fill(group, rows);
    this.#draw();
  }

  get #first() {
    return new Date(Date.now() - (Number(this.#range.input.value) - 1) * DAY).toISOString().slice(0, 10);
  }

  get #query() {
    return `since=${this.#first}`;
  }

  #fill(group, rows) {
    const total = (row) => MEASURES.cost.value(row) * 1e12 + tokensOf(row);
    const sorted = group === "day" ? [...rows].reverse() : [...rows].sort((one, other) => total(other) - total(one));
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }, group[0].toUpperCase() + group.slice(1)),
      COLUMNS.map(([label]) => h("th", { scope: "col", class: "number" }, label)),
    );
    const body = sorted.map((row) =>
      h(
        "tr",
        { data: { test: "usage-row" } },
        h("th", { scope: "row" }, row[group] || (group === "key" ? "(no named key)" : "–")),
        COLUMNS.map(([label, text]) => h("td", { class: "number", data: { column: label } }, text(row))),
      ),
    );
    this.#table.replaceChildren(h("thead", {}, head), h("tbody", {}, body));
    this.#table.hidden = rows.length === 0;
    this.#nothing.hidden = rows.length > 0;
    const estimated = rows.reduce((sum, row) => sum + row.estimated, 0);
    const unpriced = rows.reduce((sum, row) => sum + row.unpriced, 0);
    const notes = [
      unpriced && `The cost of ${plural(unpriced, "request")} is unknown, because the model has no price.`,
      estimated && `The tokens of ${plural(estimated, "request")} are estimates.`,
    ];
    setText(this.#note, notes.filter(Boolean).join(" "));
  }

  #draw() {
    const { label, value, format } = MEASURES[this.#measure.input.value];
    const width = this.#svg.clientWidth;
    if (!width) return;
    const byDay = new Map(this.#days.map((row) => [row.day, row]));
    const count = Number(this.#range.input.value);
    const begin = Date.parse(this.#first);
    const days = Array.from({ length: count }, (_, at) => new Date(begin + at * DAY).toISOString().slice(0, 10));
    const values = days.map((day) => (byDay.has(day) ? value(byDay.get(day)) : 0));
    const top = niceTop(Math.max(...values));
    const room = HEIGHT - BOTTOM - 10;
    const y = (amount) => HEIGHT - BOTTOM - (amount / top) * room;
    const step = (width - LEFT - 4) / count;
    const bars = days.map((day, at) => {
      if (!values[at]) return null;
      const [above, x] = [y(values[at]), LEFT + at * step];
      return draw(
        "rect",
        {
          x: x.toFixed(1),
          y: above.toFixed(1),
          width: Math.max(1, step - 2).toFixed(1),
          height: Math.max(1, HEIGHT - BOTTOM - above).toFixed(1),
          class: "chart-bar is-whole",
        },
        draw("title", {}, `${day}: ${format(values[at])}`),
      );
    });
    this.#svg.replaceChildren(
      ...[0, top / 2, top].map((at) => gridLine(width, y(at), format(at))),
      draw("text", { x: LEFT, y: HEIGHT - 3, "text-anchor": "start" }, days[0]),
      draw("text", { x: width - 2, y: HEIGHT - 3, "text-anchor": "end" }, days.at(-1)),
      ...bars.filter(Boolean),
    );
    const sum = values.reduce((one, other) => one + other, 0);
    setText(this.#title, `${label} per day`);
    setText(this.#summary, `${format(sum)} in ${count} days`);
    this.#svg.setAttribute("aria-label", `${label} per day: ${this.#summary.textContent}. The table has the numbers.`);
  }

  async #download() {
    const group = this.#group.input.value;
    const by = group === "day" ? "by=day" : `by=day&by=${group}`;
    await attempt(async () => {
      const response = await fetch(`/api/usage?${by}&${this.#query}&format=csv`, { headers: accessHeaders() });
      if (!response.ok) throw new Error("The CSV file could not be downloaded.");
      const url = URL.createObjectURL(await response.blob());
      h("a", { href: url, download: "usage.csv" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
    });
  }
}

function choice(label, options, value, changed) {
  const input = h(
    "select",
    { data: { test: `usage-${label.toLowerCase().replaceAll(" ", "-")}` }, onchange: changed },
    options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)),
  );
  return { input, element: h("label", {}, h("span", {}, label), input) };
}

function tokensOf(row) {
  return row.input + row.output + row.cache_read + row.cache_write;
}

function formatCost(cost) {
  return cost && cost < 0.01 ? `$${cost.toPrecision(2)}` : `$${cost.toFixed(2)}`;
}

/** Return the cost of a row. A + means that the cost of some requests is unknown. */
function costText(row) {
  if (row.cost === null) return "unknown";
  return `${formatCost(row.cost)}${row.unpriced ? "+" : ""}`;
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function gridLine(width, y, label) {
  return draw(
    "g",
    {},
    draw("line", { x1: LEFT, x2: width, y1: y, y2: y, class: "chart-line" }),
    draw("text", { x: LEFT - 6, y: y + 3.5, "text-anchor": "end" }, label),
  );
}

/** Round a number up to 1, 2 or 5 times a power of ten. Return 1 for zero. */
function niceTop(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value);
}

customElements.define("tl-usage", UsageView);
