// The Traffic page: connects the filter, the chart, the table and the details of one request.

import { get } from "./api.js";
import { setTitle } from "./notifications.js";
import "./chart.js";
import { listenForCodeCopies } from "./clipboard.js";
import { h } from "./dom.js";
import "./inbox.js";
import "./leg-detail.js";
import "./leg-table.js";
import { live } from "./live-state.js";
import "./key-dialog.js";
import { attempt } from "./notices.js";
import { goToInboxItems, listenForKeys } from "./shortcuts.js";
import "./top-bar.js";

const PAUSE = 200;
const STATES = [
  ["all", "All", () => true],
  ["running", "Running", (leg) => leg.status === "running" || leg.status === "parked"],
  ["failed", "Failed", (leg) => leg.status === "failed"],
  ["repaired", "Repaired", (leg) => leg.repairs > 0],
];
const [table, chart, detail, filter, states] = ["tl-legs", "tl-chart", "tl-leg", "#filter", ".states"].map((name) =>
  document.querySelector(name),
);
let timer = 0;
let asked = 0;
/** The requests that have changed since the list was requested, by id: the response may contain an older state of
 * them. Null if no response is expected. */
let changed = null;

/** Fetch the requests that match the filter, newest first. */
async function load() {
  const mine = (asked += 1);
  changed = new Map();
  const query = filter.value.trim();
  const found = await attempt(() => get(`/api/traffic?query=${encodeURIComponent(query)}`));
  if (mine !== asked) return;
  const newer = changed;
  changed = null;
  if (!found) return;
  table.words = query;
  table.legs = found.legs;
  chart.legs = found.legs;
  newer.forEach(learn);
}

function learn(leg) {
  changed?.set(leg.id, leg);
  table.learn(leg);
  chart.learn(leg);
}

async function loadOlder(before) {
  const mine = asked;
  const query = encodeURIComponent(filter.value.trim());
  const found = await attempt(() => get(`/api/traffic?before=${encodeURIComponent(before)}&query=${query}`));
  if (found && mine === asked) table.addOlder(found.legs);
}

function show() {
  const id = location.hash.slice(1);
  if (id) detail.open(id);
  else detail.close();
  table.chosen = id || null;
}

function choose(id) {
  history.pushState(null, "", id ? `#${id}` : "/traffic");
  show();
}

function listen() {
  states.append(
    ...STATES.map(([id, label, fits], at) =>
      h(
        "label",
        {},
        h("input", { type: "radio", name: "state", value: id, checked: at === 0, onchange: () => (table.fits = fits) }),
        h("span", {}, label),
      ),
    ),
  );
  filter.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(load, PAUSE);
  });
  table.addEventListener("older", (event) => loadOlder(event.detail));
  table.addEventListener("choose", (event) => choose(event.detail));
  detail.addEventListener("close", () => {
    const { chosen } = table;
    choose(null);
    table.focusRow(chosen);
  });
  live.on("leg", ({ leg }) => {
    learn(leg);
    detail.learn(leg);
  });
  live.on("reset", load);
  addEventListener("hashchange", show);
  addEventListener("popstate", show);
  listenForCodeCopies(document.body);
  listenForKeys({
    escape: () => detail.hidden || choose(null),
    items: () => goToInboxItems(null),
    write: () => filter.focus(),
  });
}

setTitle("Traffic");
listen();
await live.start();
await load();
show();
document.body.classList.remove("is-loading");
