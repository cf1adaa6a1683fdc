// Inbox items as the gateway sends them: checks their form and adds the defaults that it omits.

"use strict";

const { label } = require("./text");

/**
 * @typedef {"allow_once" | "allow_always" | "reject_once" | "reject_always" | "other"} OptionKind
 * @typedef {{id: string, label: string, kind: OptionKind, description: string}} Option
 * @typedef {{name: string, kind: "yes_no" | "choice" | "text" | "number" | "file", title: string, description: string,
 *   required: boolean, default: unknown, options: Option[], many: boolean, is_open: boolean, is_whole: boolean,
 *   minimum: number | null, maximum: number | null, pattern: string, format: string}} Field
 * @typedef {{content: string, status: string, priority: string}} Step
 * @typedef {{type: "permission", title: string, tool: string, kind: string, path: string, command: string,
 *   diff: string, detail: string, input: string, hidden: number, risk: string, options: Option[]}} Permission
 * @typedef {{type: "plan_review", title: string, plan: string, steps: Step[], detail: string, hidden: number,
 *   options: Option[]}} PlanReview
 * @typedef {{type: "form", message: string, fields: Field[], url: string}} Question
 * @typedef {{id: string, workspace: string, client: string, model: string, session: string,
 *   ask: Permission | PlanReview | Question}} Item
 */

const MOST_ITEMS = 1000; // of one workspace; the gateway holds fewer
const MOST_OPTIONS = 200;
const MOST_FIELDS = 50;
const MOST_STEPS = 500;
const OPTION_KINDS = ["allow_once", "allow_always", "reject_once", "reject_always", "other"];
const FIELD_KINDS = ["yes_no", "choice", "text", "number", "file"];

/** The options of a permission for which the gateway sends none. */
const DEFAULT_OPTIONS = [
  { id: "allow", label: "Allow once", kind: "allow_once" },
  { id: "always", label: "Always allow", kind: "allow_always" },
  { id: "deny", label: "Deny", kind: "reject_once" },
];

/** @param {unknown} value */
const text = (value) => (typeof value === "string" ? value : "");
/** @param {unknown} value */
const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);
/** @param {unknown} value @returns {any[]} */
const list = (value) => (Array.isArray(value) ? value : []);

/**
 * Return the items of a listing. Items of an unknown form are left out: only the gateway's page can show them.
 * @param {unknown} items
 * @param {string} workspace
 * @returns {Item[]}
 */
function readItems(items, workspace) {
  const read = list(items)
    .slice(0, MOST_ITEMS)
    .map((item) => readItem(item, workspace));
  return /** @type {Item[]} */ (read.filter((item) => item !== null));
}

/**
 * @param {any} item
 * @param {string} workspace
 * @returns {Item | null}
 */
function readItem(item, workspace) {
  const ask = readAsk(item?.ask);
  if (!text(item?.id) || ask === null) return null;
  const origin = item.origin ?? {};
  return {
    id: item.id,
    workspace,
    client: label(text(origin.client) || text(origin.frontend), 60),
    model: label(origin.model, 80),
    session: text(origin.session),
    ask,
  };
}

/** @param {any} ask @returns {Item["ask"] | null} */
function readAsk(ask) {
  switch (ask?.type) {
    case "permission":
      return {
        type: "permission",
        title: text(ask.title),
        tool: text(ask.tool),
        kind: text(ask.kind) || "other",
        path: text(ask.path),
        command: text(ask.command),
        diff: text(ask.diff),
        detail: text(ask.detail),
        input: text(ask.input),
        hidden: number(ask.hidden) ?? 0,
        risk: text(ask.risk),
        options: readOptions(ask.options ?? DEFAULT_OPTIONS),
      };
    case "plan_review":
      return {
        type: "plan_review",
        title: text(ask.title),
        plan: text(ask.plan),
        steps: readSteps(ask.steps),
        detail: text(ask.detail),
        hidden: number(ask.hidden) ?? 0,
        options: readOptions(ask.options),
      };
    case "form":
      return {
        type: "form",
        message: text(ask.message),
        fields: list(ask.fields).slice(0, MOST_FIELDS).map(readField),
        url: text(ask.url),
      };
    default:
      return null;
  }
}

/** @param {unknown} options @returns {Option[]} */
function readOptions(options) {
  return list(options)
    .slice(0, MOST_OPTIONS)
    .filter((option) => typeof option?.id === "string")
    .map(({ id, label: shown, kind, description }) => ({
      id,
      label: text(shown),
      kind: OPTION_KINDS.includes(kind) ? kind : "other",
      description: text(description),
    }));
}

/** @param {unknown} steps @returns {Step[]} */
function readSteps(steps) {
  return list(steps)
    .slice(0, MOST_STEPS)
    .map((step) => ({
      content: text(step?.content),
      status: text(step?.status) || "pending",
      priority: text(step?.priority) || "medium",
    }));
}

/** @param {any} field @returns {Field} */
function readField(field) {
  return {
    name: text(field?.name),
    kind: FIELD_KINDS.includes(field?.kind) ? field.kind : "text",
    title: text(field?.title),
    description: text(field?.description),
    required: field?.required === true,
    default: field?.default ?? null,
    options: readOptions(field?.options),
    many: field?.many === true,
    is_open: field?.is_open === true,
    is_whole: field?.is_whole === true,
    minimum: number(field?.minimum),
    maximum: number(field?.maximum),
    pattern: text(field?.pattern),
    format: text(field?.format),
  };
}

/** Return one line that describes an item. @param {Item} item */
function headline({ ask }, most = 120) {
  if (ask.type === "permission") return label(ask.title || ask.command || ask.tool, most);
  return label(ask.type === "plan_review" ? `Plan: ${ask.title}` : ask.message, most);
}

/** Return the client and the model from which an item comes. @param {Item} item */
function originText({ client, model }) {
  return [client, model].filter(Boolean).join(" · ") || "A client";
}

module.exports = { readItems, readSteps, headline, originText, MOST_ITEMS };
