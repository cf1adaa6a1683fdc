// Makes text from models, agents and the gateway harmless before it is shown in the editor.
//
// The editor interprets some plain text: notifications and quick inputs turn `[text](command:…)` into links that run
// commands, and labels turn `$(name)` into icons. `label` breaks both. Documents and the details of a modal dialog are
// shown as they are, so `visible` is enough for them.

"use strict";

// Control characters except tabs and line ends; characters without width, or that are not shown where unsupported;
// characters that change the writing direction; uncommon line separators; the blank Braille pattern.
const HIDDEN = /(?!\t|\n|\r\n)[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800]/gu;

/**
 * Return the text with every invisible character written as its code point.
 * @param {unknown} text
 */
function visible(text) {
  return String(text ?? "").replace(HIDDEN, (one) => {
    const number = (one.codePointAt(0) ?? 0).toString(16);
    return number.length > 4 ? `\\u{${number}}` : `\\u${number.padStart(4, "0")}`;
  });
}

/**
 * Return at most `most` characters of the text. If it is longer, it ends with "…".
 * @param {string} text
 * @param {number} most
 */
function shorten(text, most) {
  if (text.length <= most) return text;
  const end = most - 1;
  const isSplit = /[\ud800-\udbff]/.test(text[end - 1]);
  return `${text.slice(0, isSplit ? end - 1 : end)}…`;
}

/**
 * Return one line for a notification, a quick pick, a button or the status bar. It contains no link and no icon.
 * @param {unknown} text
 */
function label(text, most = 160) {
  // Shorten first, so that a very long text takes no time.
  const line = visible(String(text ?? "").slice(0, most * 4))
    .replace(/\s+/g, " ")
    .trim();
  return shorten(line.replaceAll("](", "] (").replaceAll("$(", "$ ("), most);
}

/**
 * Return a number and its noun, such as "2 items".
 * @param {number} count
 * @param {string} noun
 */
function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/**
 * Return the last lines of a text, without any of the secrets.
 * @param {string} text
 * @param {string[]} secrets
 */
function lastLines(text, secrets = [], most = 20) {
  let shown = text.slice(-8000);
  for (const secret of secrets) if (secret.length >= 8) shown = shown.replaceAll(secret, "***");
  return visible(shown.trimEnd().split("\n").slice(-most).join("\n"));
}

module.exports = { visible, shorten, label, plural, lastLines };
