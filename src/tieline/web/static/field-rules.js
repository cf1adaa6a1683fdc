// What an answer must be like, checked before it is sent; the gateway checks the same again.

/** What is wrong with a value, in words for the person; empty if nothing is. */
export function checkField(field, value) {
  if (value === null || value === "" || (Array.isArray(value) && value.length === 0))
    return field.required ? "An answer is needed." : "";
  switch (field.kind ?? "text") {
    case "number":
      return checkNumber(field, value);
    case "choice":
      return field.many ? range(field, value.length, (count) => `${count} of them`) : "";
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
  if (field.pattern && !fits(field.pattern, value)) return `This must look like ${field.pattern}`;
  if (field.format === "email" && !/^\S+@\S+$/.test(value)) return "This must be an e-mail address.";
  if ((field.format === "uri" || field.format === "url") && !/^[a-z][a-z0-9+.-]*:/i.test(value))
    return "This must be an address.";
  return range(field, [...value].length, (count) => `${count} characters`);
}

/** A pattern that this browser cannot read is left to the gateway. */
function fits(pattern, value) {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true;
  }
}

function range({ minimum = null, maximum = null }, size, words) {
  if (minimum !== null && size < minimum) return `At least ${words(minimum)}.`;
  if (maximum !== null && size > maximum) return `At most ${words(maximum)}.`;
  return "";
}
