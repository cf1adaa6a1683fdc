// Asks a question of an agent: one quick pick, input box or open dialog for each field, with a way back.
//
// Escape closes the form and decides nothing. Only the button "Decline" declines.

"use strict";

const vscode = require("vscode");
const { checkField, hint, readTyped } = require("./fields");
const { headline, originText } = require("./items");
const { askFile, askText, pick } = require("./inputs");
const { label, shorten, visible } = require("./text");

/** @typedef {import("./items").Field} Field */
/** @typedef {import("./items").Item & {ask: import("./items").Question}} QuestionItem */
/** @typedef {import("./inputs").Result} Result */

const LONG_MESSAGE = 200;
const OTHER = "Something else…";
const SKIP = "Skip";

class QuestionDialog {
  #documents;
  #workspaces;

  /**
   * @param {{put: Function, show: Function}} documents
   * @param {import("./workspaces").Workspaces} workspaces
   */
  constructor(documents, workspaces) {
    this.#documents = documents;
    this.#workspaces = workspaces;
  }

  /**
   * Ask the user. Return the body of the answer, or null if nothing was decided.
   * @param {QuestionItem} item
   * @param {AbortSignal} gone
   * @param {{message: string, param: string | null}} [refusal] why the gateway refused the last answer
   */
  async ask(item, gone, refusal) {
    const { fields, message, url } = item.ask;
    if (!refusal && message.length > LONG_MESSAGE)
      await this.#documents.show(this.#documents.put("tieline", item.id, "Question", message));
    if (url) return this.#visit(item, gone);
    if (fields.length === 0) return this.#confirm(item, gone);
    return this.#fill(item, gone, refusal);
  }

  /** @param {QuestionItem} item @param {AbortSignal} gone @param {{message: string, param: string | null}} [refusal] */
  async #fill(item, gone, refusal) {
    const { fields } = item.ask;
    /** @type {Record<string, unknown>} */
    const values = (refusal && this.#kept.get(item.id)) || {};
    const wrong = fields.findIndex(({ name }) => refusal?.param === `values.${name}`);
    let at = Math.max(0, wrong);
    let problem = wrong >= 0 ? (refusal?.message ?? "") : "";
    while (at < fields.length) {
      const field = fields[at];
      const result = await this.#field(item, field, { at, value: values[field.name] ?? field.default, problem, gone });
      problem = "";
      if (gone.aborted || result.kind === "cancel") return null;
      if (result.kind === "decline") return DECLINED;
      if (result.kind === "back") at = Math.max(0, at - 1);
      else {
        values[field.name] = result.value;
        at += 1;
      }
    }
    this.#kept.clear();
    this.#kept.set(item.id, values);
    const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined);
    return { action: "accept", values: Object.fromEntries(given) };
  }

  /** The values of the last form, by the item's id, for the case that they are refused. @type {Map<string, any>} */
  #kept = new Map();

  /**
   * @param {QuestionItem} item
   * @param {Field} field
   * @param {{at: number, value: unknown, problem: string, gone: AbortSignal}} state
   * @returns {Promise<Result>}
   */
  async #field(item, field, { at, value, problem, gone }) {
    const total = item.ask.fields.length;
    const about = label([field.description, hint(field)].filter(Boolean).join(" · "), 300);
    const question =
      field.title && field.title !== item.ask.message ? `${headline(item)} — ${field.title}` : headline(item);
    const frame = {
      title: label(question, LONG_MESSAGE),
      about: problem ? `${label(problem, 200)} ${about}` : about,
      step: at + 1,
      total,
      problem: label(problem, 200),
      gone,
    };
    switch (field.kind) {
      case "yes_no":
        return this.#yesNo(field, value, frame);
      case "choice":
        return this.#choice(field, value, frame);
      case "file":
        return askFile(field, this.#workspaces.named(item.workspace), frame);
      default:
        return askText(frame, String(value ?? ""), (typed) => {
          const read = readTyped(field, typed);
          return { value: read, problem: checkField(field, read) };
        });
    }
  }

  /** @param {Field} field @param {unknown} value @param {import("./inputs").Frame} frame @returns {Promise<Result>} */
  async #yesNo(field, value, frame) {
    const rows = [
      { label: "Yes", value: true },
      { label: "No", value: false },
      ...(field.required ? [] : [{ label: SKIP, value: null }]),
    ];
    return pick(frame, rows, { active: rows.filter((row) => row.value === value && value !== null) });
  }

  /** @param {Field} field @param {unknown} value @param {import("./inputs").Frame} frame @returns {Promise<Result>} */
  async #choice(field, value, frame) {
    const wanted = /** @type {unknown[]} */ (Array.isArray(value) ? value : [value]);
    const rows = field.options.map((option) => ({
      label: label(option.label || option.id, 200),
      detail: option.description ? label(option.description, 300) : undefined,
      value: /** @type {unknown} */ (option.id),
    }));
    if (field.is_open) rows.push({ label: OTHER, detail: undefined, value: OTHER_VALUE });
    if (!field.required && !field.many) rows.push({ label: SKIP, detail: undefined, value: null });
    const active = rows.filter((row) => row.value !== null && wanted.includes(row.value));
    const check = (/** @type {unknown[]} */ chosen) => checkField(field, field.many ? chosen : (chosen[0] ?? null));
    const result = await pick(frame, rows, { active, isMany: field.many, check });
    if (result.kind !== "value") return result;
    const chosen = field.many ? /** @type {unknown[]} */ (result.value) : [result.value];
    if (!chosen.includes(OTHER_VALUE))
      return { kind: "value", value: field.many && !chosen.length ? null : result.value };
    const typed = await askText({ ...frame, title: `${frame.title} — ${OTHER}`, hasBack: true }, "", (text) => ({
      value: text.trim(),
      problem: text.trim() ? "" : "Please enter your own answer, or go back.",
    }));
    if (typed.kind === "back") return this.#choice(field, value, frame);
    if (typed.kind !== "value" || !field.many) return typed;
    return { kind: "value", value: [...chosen.filter((one) => one !== OTHER_VALUE), typed.value] };
  }

  /** Ask the user to visit a web page. @param {QuestionItem} item @param {AbortSignal} gone */
  async #visit(item, gone) {
    const url = readUrl(item.ask.url);
    for (;;) {
      const rows = [
        ...(url
          ? [{ label: `$(link-external) Open ${label(url.host, 80)}`, detail: label(url.href, 400), value: "open" }]
          : []),
        { label: "$(check) Done", detail: "I have visited the page", value: "done" },
      ];
      const result = await pick({ ...plainFrame(item, gone), about: "Open the page, then confirm." }, rows, {});
      if (result.kind === "decline") return DECLINED;
      if (result.kind !== "value") return null;
      if (result.value === "done") return { action: "accept", values: {} };
      if (url) await vscode.env.openExternal(vscode.Uri.parse(url.href, true));
    }
  }

  /** Ask a question without fields. @param {QuestionItem} item @param {AbortSignal} gone */
  async #confirm(item, gone) {
    const rows = [
      { label: "$(check) Confirm", value: true },
      { label: "$(close) Decline", value: false },
    ];
    const result = await pick(plainFrame(item, gone), rows, {});
    if (result.kind === "decline" || (result.kind === "value" && result.value === false)) return DECLINED;
    return result.kind === "value" ? { action: "accept", values: {} } : null;
  }
}

const DECLINED = { action: "decline", values: {} };
const OTHER_VALUE = Symbol("other");

/** @param {QuestionItem} item @param {AbortSignal} gone */
function plainFrame(item, gone) {
  const about = shorten(visible(originText(item)), 100);
  return { title: headline(item, LONG_MESSAGE), about, step: 1, total: 1, problem: "", gone };
}

/** Return a web address that may be opened, or null. @param {string} text */
function readUrl(text) {
  try {
    const url = new URL(text);
    return url.protocol === "http:" || url.protocol === "https:" ? url : null;
  } catch {
    return null;
  }
}

module.exports = { QuestionDialog, readUrl };
