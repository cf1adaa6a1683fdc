// Asks the user for a permission in a modal dialog. The full text is in the dialog, or in a document if it is long.

"use strict";

const vscode = require("vscode");
const { choicesOf, lastingTexts, needsPick, permissionAnswer } = require("./choices");
const { splitDiff } = require("./diff");
const { ITEM_SCHEME, documentName } = require("./documents");
const { headline, originText } = require("./items");
const { label, plural, visible } = require("./text");

const MOST_CHARACTERS = 1500;
const MOST_LINES = 20;

/** @typedef {import("./items").Item & {ask: import("./items").Permission}} PermissionItem */

/**
 * Return what a permission is about: the parts that a dialog shows above the rest, the text that may be long, and both
 * sides of its change, if it has one.
 * @param {import("./items").Permission} ask
 */
function describe(ask) {
  const head = [];
  if (ask.risk) head.push(`⚠ Risky: ${label(ask.risk, 300)}`);
  if (ask.hidden) head.push(`The request is too long to show in full: ${plural(ask.hidden, "character")} hidden.`);
  if (ask.path && ask.path !== "." && !ask.command) head.push(`Path: ${label(ask.path, 300)}`);
  const change = ask.diff ? splitDiff(ask.diff) : null;
  const parts = [ask.command, change ? "" : ask.diff, ask.detail].filter(Boolean);
  if (parts.length === 0 && !change) parts.push(ask.input);
  const text = parts.join("\n\n");
  const lines = text.split("\n").length;
  return { head, text, lines, isLong: text.length > MOST_CHARACTERS || lines > MOST_LINES, change };
}

/**
 * Return the detail of the dialog.
 * @param {ReturnType<typeof describe>} about
 * @param {string[]} lasting
 */
function dialogDetail({ head, text, lines, isLong, change }, lasting) {
  const parts = [...head];
  if (isLong) {
    parts.push(
      `The full text (${plural(text.length, "character")} in ${plural(lines, "line")}) is too long for this dialog. ` +
        "It is open in the editor. Choose Cancel to read it first: nothing is decided then, and “Decide…” at the top " +
        "of the editor brings this dialog back.",
    );
  } else if (text) parts.push(spaced(visible(text)));
  if (change) parts.push(`The change (+${change.added} −${change.removed}) is open in the diff editor.`);
  if (lasting.length) parts.push(`“Always Allow” means: ${lasting.slice(0, 5).join(" · ")}`);
  return parts.join("\n\n");
}

/** Return a text whose spaces a dialog does not collapse. @param {string} text */
const spaced = (text) => text.replaceAll("\t", "\u00a0".repeat(4)).replace(/^ | (?= )/gm, "\u00a0");

/** The modal dialog of a permission. */
class PermissionDialog {
  #documents;

  /** @param {import("./documents").Documents} documents */
  constructor(documents) {
    this.#documents = documents;
  }

  /**
   * Ask the user. Return the body of the answer, or null if nothing was decided.
   * @param {PermissionItem} item
   * @param {AbortSignal} gone
   */
  async ask(item, gone) {
    const about = describe(item.ask);
    await this.#showDocuments(item, about);
    if (gone.aborted) return null;
    // The first button is the default of a modal dialog, so Enter denies. No button is the "close affordance": the
    // editor then adds "Cancel", and Escape, Cancel and closing the window return undefined, which decides nothing.
    const choices = choicesOf(item.ask);
    const chosen = await vscode.window.showWarningMessage(
      `${originText(item)} asks for permission: ${headline(item, 200)}`,
      { modal: true, detail: dialogDetail(about, lastingTexts(item.ask)) },
      ...choices.map((choice) => ({ title: choice.title, choice })),
    );
    if (!chosen) return null;
    const { choice } = chosen;
    if (!needsPick(choice)) return permissionAnswer(choice.options[0]);
    const option = await pickOption(choice, gone);
    return option ? permissionAnswer(option) : null;
  }

  /** @param {PermissionItem} item @param {ReturnType<typeof describe>} about */
  async #showDocuments(item, { text, isLong, change }) {
    const { ask, id } = item;
    if (change) {
      const name = documentName(ask.path || "change");
      const before = this.#documents.put(ITEM_SCHEME, id, `before/${name}`, change.before);
      const after = this.#documents.put(ITEM_SCHEME, id, `after/${name}`, change.after);
      await this.#documents.compare(before, after, `${ask.path || "Change"} (asks for permission)`);
    }
    if (isLong) {
      const name = ask.command ? "Command" : ask.diff && !change ? "Change.diff" : "Request";
      await this.#documents.show(this.#documents.put(ITEM_SCHEME, id, name, text));
    }
  }
}

/** Let the user choose one of several options. @param {import("./choices").Choice} choice @param {AbortSignal} gone */
async function pickOption({ title, options }, gone) {
  const cancel = new vscode.CancellationTokenSource();
  gone.addEventListener("abort", () => cancel.cancel(), { once: true });
  const picked = await vscode.window.showQuickPick(
    options.map((option) => ({
      label: label(option.label || option.id, 120),
      detail: option.description ? label(option.description, 300) : undefined,
      option,
    })),
    { title: `${title.replace("…", "")}: which one?`, placeHolder: "Escape decides nothing", ignoreFocusOut: true },
    cancel.token,
  );
  cancel.dispose();
  return picked?.option;
}

module.exports = { PermissionDialog, describe, dialogDetail, pickOption };
