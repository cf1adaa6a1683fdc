// Checks the answer to a question before it is sent. The gateway checks it again.

import { plural } from "./format.js";

/** Return a message that says what is wrong with a value; an empty string if it is valid. */
export function checkField(field, value) {
  if (value === null || value === "" || (Array.isArray(value) && value.length === 0))
    return field.required ? "Please answer this question." : "";
  switch (field.kind ?? "text") {
    case "number":
      return checkNumber(field, value);
    case "choice":
      return field.many ? range(field, value.length, (count) => plural(count, "choice")) : "";
    case "text":
    case "file":
      return checkText(field, value);
    default:
      return "";
  }
}

function checkNumber(field, value) {
  if (Number.isNaN(value)) return "This must be a number.";
  if (field.is_whole && !Number.isInteger(value)) return "This must be a whole number.";
  return range(field, value, String);
}

function checkText(field, value) {
  if (field.pattern && !matches(field.pattern, value)) return `This must match the pattern ${field.pattern}`;
  if (field.format === "email" && !/^\S+@\S+$/.test(value)) return "This must be an email address.";
  if ((field.format === "uri" || field.format === "url") && !/^[a-z][a-z0-9+.-]*:/i.test(value))
    return "This must be a web address.";
  return range(field, [...value].length, (count) => plural(count, "character"));
}

/** Return whether a value matches a pattern. A pattern that the browser does not support matches every value. */
function matches(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function range({ minimum = null, maximum = null }, size, format) {
  if (minimum !== null && size < minimum) return `At least ${format(minimum)}.`;
  if (maximum !== null && size > maximum) return `At most ${format(maximum)}.`;
  return "";
}
