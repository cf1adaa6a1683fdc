// The buttons with which a permission is answered, from the options that the item offers.
//
// The kind of an option determines its button, never its label: an agent could label an option that allows everything
// "Deny". Labels are shown only where the user chooses between options of one kind.

"use strict";

const { label } = require("./text");

/** @typedef {import("./items").Option} Option */
/** @typedef {{title: string, options: Option[], isDenial: boolean}} Choice */

/**
 * The order is the order of the buttons. The first button of a modal dialog is its default button (Enter, Space), so it
 * must be the one that denies.
 * @type {[import("./items").OptionKind, string][]}
 */
const BUTTONS = [
  ["reject_once", "Deny"],
  ["allow_once", "Allow"],
  ["allow_always", "Always Allow"],
  ["reject_always", "Always Deny"],
  ["other", "Other…"],
];

/** The denial of an item that offers no option for it: "no option" is a denial for the gateway. */
const PLAIN_DENIAL = { title: "Deny", options: [], isDenial: true };

/**
 * Return the buttons of a permission. The first one always denies.
 * @param {import("./items").Permission} ask
 * @returns {Choice[]}
 */
function choicesOf({ options, risk }) {
  const choices = BUTTONS.map(([kind, title]) => {
    // As on the page, a risky call cannot be allowed permanently.
    const fitting = kind === "allow_always" && risk ? [] : options.filter((option) => option.kind === kind);
    const shown = fitting.length > 1 && !title.endsWith("…") ? `${title}…` : title;
    return { title: shown, options: fitting, isDenial: kind === "reject_once" };
  }).filter((choice) => choice.options.length > 0);
  if (choices[0]?.isDenial) return choices;
  return [PLAIN_DENIAL, ...choices];
}

/** Return whether the user has to choose one of the options of a button. @param {Choice} choice */
function needsPick({ options, title }) {
  return options.length > 1 || title === "Other…";
}

/**
 * Return the body of the answer.
 * @param {Option | undefined} option
 */
function permissionAnswer(option) {
  return option ? { option: option.id } : { option: null, reason: "Denied in the editor." };
}

/** Return what "Always Allow" would allow, one line per option. @param {import("./items").Permission} ask */
function lastingTexts({ options, risk }) {
  if (risk) return [];
  return options
    .filter(({ kind }) => kind === "allow_always")
    .map(({ label: shown, description }) => [/^always allow$/i.test(shown) ? "" : shown, description])
    .map((parts) =>
      parts
        .filter(Boolean)
        .map((text) => label(text, 200))
        .join(": "),
    )
    .filter(Boolean);
}

module.exports = { choicesOf, needsPick, permissionAnswer, lastingTexts };
