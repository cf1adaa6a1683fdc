// The body of a permission card: the exact command or change, and the answers.
//
// "Always allow" is above the row of buttons. So a click at the position of a card's main button never gives a lasting
// permission.

import { answer, optionsOf } from "./inbox-items.js";
import { unifiedDiff } from "./diff-view.js";
import { h, isTyping } from "./dom.js";
import { icon } from "./icons.js";
import { longText } from "./long-text.js";
import { visible } from "./invisible-text.js";
import { plural } from "./format.js";

const KEYS = { allow_once: "y", allow_always: "a", reject_once: "n" };
const ORDER = ["allow_once", "reject_once", "other", "reject_always"];
const DANGERS = { reject_once: "danger-quiet", reject_always: "danger-quiet" };

export function permissionBody(item, card) {
  const { ask } = item;
  const { once, always } = sorted(ask);
  const keyed = new Map();
  const made = (option, make) => {
    const key = keyed.has(KEYS[option.kind]) ? undefined : KEYS[option.kind];
    if (key) keyed.set(key, option);
    return make(option, key, () => choose(option));
  };
  const plain = once.map((option) => made(option, (...facts) => button(ask, ...facts)));
  // The gateway sends the narrowest permission first. Reversed, the broadest is farthest from the buttons below.
  const lasting = always.map((option) => made(option, grant)).reverse();
  const buttons = [...plain, ...lasting];
  let isSent = false;

  async function choose(option) {
    if (isSent) return;
    isSent = true;
    buttons.forEach((one) => (one.disabled = true));
    isSent = await answer(item.id, { option: option.id });
    buttons.forEach((one) => (one.disabled = isSent));
  }

  card.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || isTyping(event)) return;
    const option = keyed.get(event.key.toLowerCase());
    if (!option) return;
    event.preventDefault();
    choose(option);
  });
  return [
    h("div", { class: "item-what" }, risk(ask), ...what(ask)),
    lasting.length
      ? h("div", { class: "item-always", role: "group", "aria-label": "Always allow, without asking again" }, lasting)
      : "",
    h("div", { class: "actions item-actions" }, plain),
  ];
}

/** Split the options into one-time answers and "Always allow". A risky call has no "Always allow". */
function sorted(ask) {
  const options = optionsOf(ask);
  const rank = ({ kind }) => ORDER.indexOf(kind);
  return {
    once: options.filter(({ kind }) => kind !== "allow_always").sort((one, other) => rank(one) - rank(other)),
    always: ask.risk ? [] : options.filter(({ kind }) => kind === "allow_always"),
  };
}

function risk({ risk: text }) {
  if (!text) return "";
  return h(
    "p",
    { class: "item-risk", role: "note", data: { test: "risk" } },
    icon("warn"),
    h("span", {}, h("strong", {}, "Risky: "), visible(text)),
  );
}

function what({ title, kind = "other", path, command, diff, detail, input, hidden }) {
  const parts = [];
  if (!command) parts.push(h("p", { class: "item-title" }, icon(kind), h("span", {}, visible(title))));
  if (command) parts.push(longText(command, { class: "command", label: "Command", data: { test: "command" } }));
  if (diff) parts.push(unifiedDiff(visible(path ?? ""), visible(diff)));
  else if (path && path !== "." && !command && !title.includes(path))
    parts.push(h("p", { class: "path" }, visible(path)));
  if (detail)
    parts.push(
      isJson(detail)
        ? longText(pretty(detail), { class: "output-text", label: "Details" })
        : longText(detail, { class: "item-detail", label: "Details" }),
    );
  if (hidden) parts.push(h("p", { class: "item-hidden", data: { test: "hidden" } }, hiddenNote(hidden)));
  if (input) parts.push(rawInput(input));
  return parts;
}

/** Return a note that says how many characters of a request are not shown. */
export const hiddenNote = (count) => `This request is too long to show in full: ${plural(count, "character")} hidden.`;

/** Create a collapsed section with the arguments of the call as the model sent them. */
export function rawInput(text) {
  return h(
    "details",
    { class: "raw-input", data: { test: "raw-input" } },
    h("summary", {}, "Raw input"),
    longText(isJson(text) ? pretty(text) : text, { class: "output-text", label: "Raw input" }),
  );
}

function button(ask, option, key, choose) {
  const isMain = option.kind === "allow_once" && !ask.risk;
  return h(
    "button",
    {
      type: "button",
      class: isMain ? "primary" : (DANGERS[option.kind] ?? ""),
      title: option.description ?? "",
      "aria-keyshortcuts": key ?? null,
      data: { test: `option-${option.id}` },
      onclick: choose,
    },
    visible(option.label || option.id),
    shortcut(key),
  );
}

/** Create a button that gives a lasting permission. The label "Always allow" is followed by the rule it would add. */
function grant(option, key, choose) {
  const label = option.label || option.id;
  const isBare = label === "Always allow" && option.description;
  return h(
    "button",
    {
      type: "button",
      class: "small",
      title: visible(option.description ?? ""),
      "aria-keyshortcuts": key ?? null,
      data: { test: `option-${option.id}` },
      onclick: choose,
    },
    h("span", {}, visible(label), isBare ? [": ", h("code", {}, visible(option.description))] : null),
    shortcut(key),
  );
}

const shortcut = (key) => (key ? h("kbd", { "aria-hidden": "true" }, key) : null);

function isJson(text) {
  return text.startsWith("{") || text.startsWith("[");
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
