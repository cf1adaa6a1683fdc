// Writes a plan as text, with the status of its steps.

"use strict";

const { label, plural } = require("./text");

/** @type {Record<string, string>} */
const MARKS = { pending: "[ ]", in_progress: "[>]", completed: "[x]", failed: "[-]" };

/**
 * @typedef {object} PlanState
 * @property {import("./items").Item & {ask: import("./items").PlanReview}} item
 * @property {import("./items").Step[]} steps
 * @property {string} decision what was decided; empty while the plan waits
 */

/** Return the text of a plan's document. @param {PlanState} plan @param {string} origin */
function planText({ item, steps, decision }, origin) {
  const { ask } = item;
  const parts = [`# ${label(ask.title, 200) || "A plan"}`, `${decision || "Waits for your decision."} (${origin})`];
  if (steps.length) {
    const { done, total } = progressOf(steps);
    const lines = steps.map(({ content, status, priority }) => {
      const urgent = priority === "high" ? " (high priority)" : "";
      return `- ${MARKS[status] ?? MARKS.pending} ${label(content, 400)}${urgent}`;
    });
    parts.push(`## Steps: ${done} of ${total} done`, lines.join("\n"));
  }
  if (ask.plan) parts.push("## Plan", ask.plan);
  if (ask.detail) parts.push("## Details", ask.detail);
  if (ask.hidden) parts.push(`The plan is too long to show in full: ${plural(ask.hidden, "character")} hidden.`);
  return `${parts.join("\n\n")}\n`;
}

/** @param {import("./items").Step[]} steps */
function progressOf(steps) {
  const done = steps.filter(({ status }) => status === "completed" || status === "failed").length;
  return { done, total: steps.length };
}

/**
 * Return the options with which a plan can be approved; empty if the plan has none, and a plain answer approves it.
 * @param {import("./items").PlanReview} ask
 */
function approvals({ options }) {
  return options.filter(({ kind }) => kind === "allow_once" || kind === "allow_always");
}

module.exports = { planText, progressOf, approvals };
