// <tl-legs>: a table of requests, newest first. Rows are updated in place.

import { h, setText } from "./dom.js";
import { nextFrame } from "./frame-scheduler.js";
import { everySecond } from "./ticker.js";
import { formatCount, formatDuration, formatDateTime, now, promptTokens, formatTime } from "./format.js";

const MOST = 1000;
const FEW = 20; // If the gateway returns fewer requests than this, there are no older ones.
const EMPTY = "No requests yet. They appear here as soon as a client sends one.";
const COLUMNS = ["Time", "Client", "Model", "Route", "Status", "First byte", "Duration", "Tokens", "Calls"];

/** Fires `choose` with the id of a request, and `older` with the id of the last one to load those before it. */
class LegTable extends HTMLElement {
  #legs = new Map();
  #rows = new Map();
  #fresh = new Map();
  #words = [];
  #fits = () => true;
  #chosen = null;
  #body = h("tbody");
  #table = h(
    "table",
    { class: "legs" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        COLUMNS.map((name) => h("th", { scope: "col" }, name)),
      ),
    ),
    this.#body,
  );
  #none = h("p", { class: "muted none", hidden: true }, EMPTY);
  #more = h(
    "button",
    { type: "button", class: "quiet", hidden: true, onclick: () => this.#fire("older", [...this.#legs.keys()].at(-1)) },
    "Show older requests",
  );
  #apply = () => this.#takeFresh();

  connectedCallback() {
    this.append(h("div", { class: "legs-frame" }, this.#table), this.#none, this.#more);
    this.#body.addEventListener("click", (event) => this.#clicked(event));
    this.#body.addEventListener("keydown", (event) => this.#key(event));
    everySecond(() => this.#tick());
  }

  /** The filter text. A new request is listed only if its fields contain all words of this text. */
  set words(query) {
    this.#words = query.toLowerCase().split(/\s+/).filter(Boolean);
  }

  set fits(fits) {
    this.#fits = fits;
    for (const [id, row] of this.#rows) row.element.hidden = !fits(this.#legs.get(id));
    this.#count();
  }

  set legs(legs) {
    this.#legs = new Map();
    this.#rows.clear();
    this.#fresh.clear();
    this.#body.replaceChildren();
    this.addOlder(legs);
  }

  get chosen() {
    return this.#chosen;
  }

  set chosen(id) {
    this.#rows.get(this.#chosen)?.element.removeAttribute("aria-selected");
    this.#chosen = id;
    this.#rows.get(id)?.element.setAttribute("aria-selected", "true");
  }

  focusRow(id) {
    this.#rows.get(id)?.element.focus();
  }

  addOlder(legs) {
    for (const leg of legs) if (!this.#legs.has(leg.id)) this.#body.append(this.#row(leg));
    this.#more.hidden = legs.length < FEW || this.#legs.size >= MOST;
    this.#count();
  }

  /** Add a request that has started, or update one that has changed. */
  learn(leg) {
    this.#fresh.set(leg.id, leg);
    nextFrame(this.#apply);
  }

  #takeFresh() {
    for (const leg of this.#fresh.values()) {
      if (this.#legs.has(leg.id)) this.#row(leg);
      else if (this.#words.every((word) => textOf(leg).includes(word))) this.#prepend(leg);
    }
    this.#fresh.clear();
    this.#count();
  }

  #prepend(leg) {
    this.#body.prepend(this.#row(leg));
    this.#legs = new Map([[leg.id, leg], ...this.#legs]);
    if (this.#legs.size > MOST) this.#drop([...this.#legs.keys()].at(-1));
  }

  #drop(id) {
    this.#rows.get(id).element.remove();
    this.#rows.delete(id);
    this.#legs.delete(id);
  }

  #row(leg) {
    let row = this.#rows.get(leg.id);
    if (!row) {
      row = new Row();
      this.#rows.set(leg.id, row);
      if (leg.id === this.#chosen) row.element.setAttribute("aria-selected", "true");
    }
    this.#legs.set(leg.id, leg);
    row.show(leg);
    row.element.hidden = !this.#fits(leg);
    return row.element;
  }

  #count() {
    this.#none.hidden = this.#body.querySelector("tr:not([hidden])") !== null;
    setText(this.#none, this.#words.length || this.#legs.size ? "No requests match the filter." : EMPTY);
  }

  #tick() {
    for (const [id, leg] of this.#legs) if (leg.status === "running") this.#rows.get(id).showAge(leg);
  }

  #clicked(event) {
    const row = event.target.closest("tr");
    if (row && !getSelection().toString()) this.#fire("choose", row.dataset.leg);
  }

  #key(event) {
    const row = event.target.closest("tr");
    if (!row) return;
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (next) {
      let other = row[next];
      while (other?.hidden) other = other[next];
      other?.focus();
      if (other && this.#chosen) this.#fire("choose", other.dataset.leg);
    } else if (event.key === "Enter" || event.key === " ") this.#fire("choose", row.dataset.leg);
    else return;
    event.preventDefault();
  }

  #fire(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

class Row {
  #cells = COLUMNS.map((name) => h("td", { data: { column: name } }));
  element = h("tr", { tabIndex: 0, data: { test: "leg" } }, this.#cells);

  show(leg) {
    const [time, client, model, way, status, first, , tokens, calls] = this.#cells;
    this.element.dataset.leg = leg.id;
    this.element.dataset.status = leg.status;
    setText(time, formatTime(leg.at));
    time.title = formatDateTime(leg.at);
    fill(client, leg.client || "unknown", leg.title);
    fill(model, leg.model, "");
    setText(way, `${leg.frontend} → ${leg.backend || "?"}`);
    status.replaceChildren(...state(leg));
    setText(first, formatDuration(leg.first_byte));
    this.showAge(leg);
    setText(tokens, leg.usage ? `${formatCount(promptTokens(leg.usage))} / ${formatCount(leg.usage.output ?? 0)}` : "");
    if (leg.usage) tokens.title = `${promptTokens(leg.usage)} in, ${leg.usage.output ?? 0} out`;
    fill(calls, namesOf(leg.calls ?? []), "");
  }

  showAge(leg) {
    setText(
      this.#cells[6],
      leg.duration === null || leg.duration === undefined
        ? formatDuration(Math.max(0, Math.floor(now() - leg.at)) || 0.001).replace("1 ms", "")
        : formatDuration(leg.duration),
    );
  }
}

function fill(cell, text, below) {
  if (cell.title === `${text}\n${below}`) return;
  cell.title = `${text}\n${below}`;
  cell.replaceChildren(
    h("span", { class: "cell-words" }, text),
    below ? h("small", { class: "cell-below" }, below) : "",
  );
}

/** Create elements that show the status of a request, with tags for repairs and resumption. */
export function state({ status, kind, repairs, resumed }) {
  const labels = {
    running: "running",
    ok: "ok",
    failed: kind ? kind.replaceAll("_", " ") : "failed",
    cancelled: "cancelled",
    parked: "waiting for tools",
  };
  return [
    h("span", { class: `state is-${status}` }, labels[status] ?? status),
    repairs ? h("span", { class: "tag is-repair", title: "Repairs made by the gateway" }, `${repairs} repaired`) : "",
    resumed ? h("span", { class: "tag", title: "Continued a run that was waiting for tool results" }, "resumed") : "",
  ];
}

function namesOf(calls) {
  const counts = new Map();
  for (const name of calls) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => (count > 1 ? `${name} ×${count}` : name)).join(", ");
}

function textOf({ client, model, frontend, backend, status, kind, title, calls, message }) {
  return [client, model, frontend, backend, status, kind, title, message, ...(calls ?? [])].join(" ").toLowerCase();
}

customElements.define("tl-legs", LegTable);
