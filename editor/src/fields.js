// Checks the answer to a question before it is sent. The gateway checks it again.
//
// Patterns come from models, and a hostile one could keep the extension host busy forever. So only the gateway, which
// limits the time of a match, checks them.

"use strict";

const { plural } = require("./text");

/** @typedef {import("./items").Field} Field */

/**
 * Return what is wrong with a value; an empty string if it is valid.
 * @param {Field} field
 * @param {unknown} value
 */
function checkField(field, value) {
  if (value === null || value === undefined || value === "" || (Array.isArray(value) && value.length === 0))
    return field.required ? "Please answer this question." : "";
  switch (field.kind) {
    case "number":
      return checkNumber(field, Number(value));
    case "choice":
      return Array.isArray(value) ? range(field, value.length, (count) => plural(count, "choice")) : "";
    case "text":
    case "file":
      return checkText(field, String(value));
    default:
      return "";
  }
}

/** @param {Field} field @param {number} value */
function checkNumber(field, value) {
  if (!Number.isFinite(value)) return "This must be a number.";
  if (field.is_whole && !Number.isInteger(value)) return "This must be a whole number.";
  return range(field, value, String);
}

/** @param {Field} field @param {string} value */
function checkText(field, value) {
  if (field.format === "email" && !/^\S+@\S+$/.test(value)) return "This must be an email address.";
  if ((field.format === "uri" || field.format === "url") && !/^[a-z][a-z0-9+.-]*:/i.test(value))
    return "This must be a web address.";
  if (field.format === "date" && !/^\d{4}-\d\d-\d\d$/.test(value)) return "This must be a date such as 2026-01-31.";
  return range(field, [...value].length, (count) => plural(count, "character"));
}

/** @param {Field} field @param {number} size @param {(size: number) => string} format */
function range({ minimum, maximum }, size, format) {
  if (minimum !== null && size < minimum) return `At least ${format(minimum)}.`;
  if (maximum !== null && size > maximum) return `At most ${format(maximum)}.`;
  return "";
}

/**
 * Return the value that a text means for a field: null if it is empty, NaN if a number is expected and it is none.
 * @param {Field} field
 * @param {string} typed
 */
function readTyped(field, typed) {
  const text = typed.trim();
  if (text === "") return null;
  if (field.kind !== "number") return text;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
}

/** Return the constraints of a field in words, for the user. @param {Field} field */
function hint(field) {
  const parts = [];
  if (field.kind === "number") parts.push(field.is_whole ? "a whole number" : "a number");
  const unit =
    field.kind === "text" || field.kind === "file" ? " characters" : field.kind === "choice" ? " choices" : "";
  if (field.minimum !== null) parts.push(`at least ${field.minimum}${unit}`);
  if (field.maximum !== null) parts.push(`at most ${field.maximum}${unit}`);
  if (field.format) parts.push(field.format);
  if (field.pattern) parts.push(`pattern ${field.pattern}`);
  if (!field.required) parts.push("optional");
  return parts.join(", ");
}

module.exports = { checkField, readTyped, hint };
