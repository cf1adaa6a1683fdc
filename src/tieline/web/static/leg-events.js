// Lists the events of a request: deltas are joined to parts, and each entry has its time on the left.

import { h } from "./dom.js";
import { imageView } from "./image-view.js";
import { formatCount, formatUsage, humanize } from "./format.js";

const MAX_TEXT = 20_000;

/** Create the list. Each element of `events` is {at, event}, or {event} if the time is not known.
 *
 * If the answer is over (`isOver`), parts without an end are marked as cut off. */
export function eventList(events, isOver) {
  const entries = [];
  const open = new Map();
  const states = new Map();
  for (const { at = null, event } of events) {
    if (event.type === "part_delta") open.get(event.index)?.chunks.push(event.text);
    else if (event.type === "part_start") {
      open.set(event.index, { at, part: event.part, chunks: [], isCut: isOver });
      entries.push(open.get(event.index));
    } else if (event.type === "part_end") {
      const begun = open.get(event.index);
      if (begun) Object.assign(begun, { until: at, part: event.part, isCut: false });
      else entries.push({ at, part: event.part });
      open.delete(event.index);
    } else if (event.type !== "activity" || isNews(states, event)) entries.push({ at, event });
  }
  // Of parts without an end, show the text that has arrived.
  for (const begun of open.values()) begun.part = withText(begun.part, begun.chunks.join(""));
  return h("ol", { class: "story" }, entries.map(entry));
}

/** Return whether the status of an activity has changed. Updates of its output alone are not listed. */
function isNews(states, { id, status = "pending" }) {
  const before = states.get(id);
  states.set(id, status);
  return before !== status;
}

/** Create an entry for a message of the request. */
export function messageEntry({ role, parts = [] }) {
  return h(
    "li",
    { class: "entry", data: { role } },
    h("span", { class: "entry-at" }, role),
    h("div", { class: "entry-what" }, parts.map(partView)),
  );
}

function withText(part, text) {
  return part.type === "tool_call" ? { ...part, arguments: text } : { ...part, text };
}

function entry({ at, until, part, event, isCut }) {
  const isRepair = event?.type === "note";
  const what = part ? partView(part) : eventView(event);
  if (isCut) what.append(h("span", { class: "tag" }, "cut off"));
  return h(
    "li",
    { class: `entry${isRepair ? " is-note" : ""}`, data: { test: isRepair ? "note" : "entry" } },
    h(
      "span",
      { class: "entry-at", title: until && until !== at ? `${at} to ${until} ms` : "" },
      at === null ? "" : `${Math.round(at)} ms`,
    ),
    h("div", { class: "entry-what" }, what),
  );
}

const PARTS = {
  text: ({ text = "", refusal }) => block(refusal ? "refusal" : "text", foldedText(text)),
  thinking: ({ text = "", redacted }) =>
    block("thinking", h("div", { class: "muted" }, redacted ? "(hidden by the provider)" : foldedText(text))),
  tool_call: ({ id, name, arguments: text = "" }) =>
    block("call", h("strong", {}, name), h("pre", {}, pretty(text)), small(id)),
  tool_result: ({ call_id: id, content = [], is_error: isError }) =>
    block(isError ? "error result" : "result", ...content.map(contentView), small(id)),
  image: (part) => block("image", imageView(part)),
};

function partView(part) {
  return part.type in PARTS ? PARTS[part.type](part) : block(part.type, part.name ?? part.kind ?? "");
}

const contentView = (part) => (part.type === "text" ? foldedText(part.text ?? "") : imageView(part));
const small = (text) => h("small", { class: "muted" }, text);
const lower = (word) => humanize(word).toLowerCase();

const EVENTS = {
  started: ({ model }) => block("started", model),
  usage: (usage) => block("usage", spent(usage)),
  note: ({ kind, message }) => block(kind, message),
  activity: ({ kind, title, status = "pending" }) => block(kind, `${title} (${lower(status)})`),
  plan: ({ entries = [] }) =>
    block("plan", entries.map(({ content, status = "pending" }) => `${content} (${lower(status)})`).join("; ")),
  finished: ({ reason }) => block("finished", lower(reason)),
  failed: ({ kind, message }) => block("failed", h("span", { class: "is-bad" }, `${humanize(kind)}: ${message}`)),
};

function eventView(event) {
  return event.type in EVENTS ? EVENTS[event.type](event) : block(event.type, "");
}

function spent(usage) {
  const cached = usage.cache_read ? `, ${formatCount(usage.cache_read)} from the cache` : "";
  return `${formatUsage(usage)}${cached}`;
}

function block(name, ...what) {
  return h(
    "div",
    { class: "said-part" },
    h("span", { class: "part-name" }, name),
    h("div", { class: "part-text" }, what),
  );
}

function foldedText(text) {
  if (text.length <= 600) return h("div", { class: "part-text" }, text);
  return h(
    "details",
    { class: "part-long" },
    h("summary", {}, `${text.slice(0, 240).trimEnd()}…`),
    h(
      "div",
      { class: "part-text" },
      text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}… (${formatCount(text.length)} characters)` : text,
    ),
  );
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
