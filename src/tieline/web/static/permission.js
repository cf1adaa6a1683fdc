// The body of a permission: exactly what would run or change, and the ways to answer.

import { answer, optionsOf } from "./asks.js";
import { unifiedDiff } from "./diff-view.js";
import { h, isTyping } from "./dom.js";
import { icon } from "./icons.js";
import { visible } from "./visible.js";

const KEYS = { allow_once: "y", allow_always: "a", reject_once: "n" };
const TONES = { allow_once: "primary", allow_always: "", reject_once: "danger-quiet", reject_always: "danger-quiet" };

export function permissionBody(item, card) {
  const { ask } = item;
  const options = optionsOf(ask);
  const [plain, more] = sorted(options);
  const act = (option) => () => choose(option);
  const buttons = [
    ...plain.map((option) => button(option, act(option))),
    ...more.map((option) => wider(option, act(option))),
  ];
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
    const option = options.find(({ kind }) => KEYS[kind] === event.key.toLowerCase());
    if (!option) return;
    event.preventDefault();
    choose(option);
  });
  const rules = buttons.slice(plain.length);
  return [
    h("div", { class: "ask-what" }, ...what(ask)),
    h("div", { class: "actions ask-actions" }, buttons.slice(0, plain.length)),
    always(options),
    rules.length ? h("div", { class: "ask-more" }, rules) : "",
  ];
}

/** The usual answers, and the other ways to say "always": there may be several rules to choose from. */
function sorted(options) {
  const rules = options.filter(({ kind }) => kind === "allow_always").slice(1);
  return [options.filter((option) => !rules.includes(option)), rules];
}

function wider(option, choose) {
  return h(
    "button",
    { type: "button", class: "small", data: { test: `option-${option.id}` }, onclick: choose },
    `${option.label || option.id}: `,
    h("code", {}, visible(option.description || option.id)),
  );
}

function what({ title, kind = "other", path, command, diff, detail }) {
  const parts = [];
  if (!command) parts.push(h("p", { class: "ask-title" }, icon(kind), h("span", {}, visible(title))));
  if (command)
    parts.push(
      h("pre", { class: "command", tabIndex: 0, "aria-label": "Command", data: { test: "command" } }, visible(command)),
    );
  if (diff) parts.push(unifiedDiff(visible(path ?? ""), visible(diff)));
  else if (path && path !== "." && !command && !title.includes(path))
    parts.push(h("p", { class: "path" }, visible(path)));
  if (detail)
    parts.push(
      isJson(detail)
        ? h("pre", { class: "output-text" }, visible(pretty(detail)))
        : h("p", { class: "muted ask-detail" }, visible(detail)),
    );
  return parts;
}

function button(option, choose) {
  const key = KEYS[option.kind];
  const words = option.label || option.id;
  return h(
    "button",
    {
      type: "button",
      class: TONES[option.kind] ?? "",
      title: option.description ?? "",
      "aria-keyshortcuts": key ?? null,
      data: { test: `option-${option.id}` },
      onclick: choose,
    },
    words,
    key ? h("kbd", { "aria-hidden": "true" }, key) : null,
  );
}

/** What "always" would mean from now on. */
function always(options) {
  const rule = options.find(({ kind }) => kind === "allow_always")?.description;
  return rule ? h("p", { class: "ask-rule muted" }, "Always allow means: ", h("code", {}, visible(rule))) : "";
}

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
