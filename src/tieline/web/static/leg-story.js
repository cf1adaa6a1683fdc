// The events of a request as a story: deltas joined to parts, repairs where they happened, times on the left.

import { h } from "./dom.js";
import { picture } from "./picture.js";
import { amount, label, promptTokens } from "./words.js";

const MOST_TEXT = 20_000;

/** Entries in order, from events with times ({at, event}) or without. */
export function storyOf(events) {
  const entries = [];
  const open = new Map();
  for (const { at = null, event } of events) {
    if (event.type === "part_delta") open.get(event.index)?.chunks.push(event.text);
    else if (event.type === "part_start") {
      open.set(event.index, { at, part: event.part, chunks: [], isCut: true });
      entries.push(open.get(event.index));
    } else if (event.type === "part_end") {
      const begun = open.get(event.index);
      if (begun) Object.assign(begun, { until: at, part: event.part, isCut: false });
      else entries.push({ at, part: event.part });
      open.delete(event.index);
    } else entries.push({ at, event });
  }
  // What was cut off is part of the story.
  for (const begun of open.values()) begun.part = withText(begun.part, begun.chunks.join(""));
  return h("ol", { class: "story" }, entries.map(entry));
}

/** A message of the request. */
export function messageOf({ role, parts = [] }) {
  return h("li", { class: "entry", data: { role } }, h("span", { class: "entry-at" }, role), h("div", { class: "entry-what" }, parts.map(partView)));
}

function withText(part, text) {
  return part.type === "tool_call" ? { ...part, arguments: text } : { ...part, text };
}

function entry({ at, until, part, event, isCut }) {
  const isRepair = event?.type === "note";
  const what = part ? partView(part) : eventView(event);
  if (isCut) what.append(h("span", { class: "tag" }, "cut off"));
  return h("li", { class: `entry${isRepair ? " is-note" : ""}`, data: { test: isRepair ? "note" : "entry" } }, h("span", { class: "entry-at", title: until && until !== at ? `${at} to ${until} ms` : "" }, at === null ? "" : `${Math.round(at)} ms`), h("div", { class: "entry-what" }, what));
}

function partView(part) {
  switch (part.type) {
    case "text":
      return block(part.refusal ? "refusal" : "text", long(part.text ?? ""));
    case "thinking":
      return block("thinking", part.redacted ? "(hidden by its maker)" : long(part.text ?? ""), "is-quiet");
    case "tool_call":
      return block("call", h("div", {}, h("strong", {}, part.name), h("pre", {}, pretty(part.arguments ?? "")), h("small", { class: "muted" }, part.id)));
    case "tool_result":
      return block(part.is_error ? "error result" : "result", h("div", {}, (part.content ?? []).map((one) => (one.type === "text" ? long(one.text ?? "") : picture(one))), h("small", { class: "muted" }, part.call_id)));
    case "image":
      return block("picture", picture(part));
    default:
      return block(part.type, part.name ?? part.kind ?? "");
  }
}

function eventView(event) {
  switch (event.type) {
    case "started":
      return block("started", h("span", {}, event.model));
    case "usage":
      return block("usage", `${amount(promptTokens(event))} in, ${amount(event.output ?? 0)} out${event.cache_read ? `, ${amount(event.cache_read)} from the cache` : ""}`);
    case "note":
      return block(event.kind, event.message);
    case "activity":
      return block(event.kind, `${event.title} (${label(event.status ?? "pending").toLowerCase()})`);
    case "plan":
      return block("plan", (event.entries ?? []).map(({ content, status }) => `${content} (${label(status ?? "pending").toLowerCase()})`).join("; "));
    case "finished":
      return block("finished", label(event.reason).toLowerCase());
    case "failed":
      return block("failed", `${label(event.kind)}: ${event.message}`, "is-bad");
    default:
      return block(event.type, "");
  }
}

function block(name, what, tone = "") {
  return h("div", { class: `said-part ${tone}` }, h("span", { class: "part-name" }, name), what instanceof Node ? what : h("span", { class: "part-text" }, what));
}

function long(text) {
  if (text.length <= 600) return h("div", { class: "part-text" }, text);
  return h("details", { class: "part-long" }, h("summary", {}, `${text.slice(0, 240).trimEnd()}…`), h("div", { class: "part-text" }, text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}… (${amount(text.length)} characters)` : text));
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
