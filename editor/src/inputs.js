// The editor's input controls as promises, with the buttons "Back" and "Decline", closed when an item is gone.

"use strict";

const vscode = require("vscode");
const { checkField } = require("./fields");
const { relativePath } = require("./paths");

/**
 * @typedef {{kind: "value", value: unknown} | {kind: "back"} | {kind: "cancel"} | {kind: "decline"}} Result
 * @typedef {{title: string, about: string, step: number, total: number, problem: string, gone: AbortSignal,
 *   hasBack?: boolean}} Frame
 */

/** @template {vscode.QuickPickItem} Row @typedef {Row & {value: unknown}} ValueRow */

/**
 * Let the user choose one row, or several.
 * @param {Frame} frame
 * @param {ValueRow<vscode.QuickPickItem>[]} rows
 * @param {{active?: ValueRow<vscode.QuickPickItem>[], isMany?: boolean, check?: (chosen: unknown[]) => string}} options
 * @returns {Promise<Result>}
 */
function pick(frame, rows, { active = [], isMany = false, check = () => "" }) {
  /** @type {vscode.QuickPick<ValueRow<vscode.QuickPickItem>>} */
  const control = vscode.window.createQuickPick();
  control.items = rows;
  control.placeholder = frame.about;
  control.canSelectMany = isMany;
  control.matchOnDetail = true;
  if (isMany) control.selectedItems = active;
  else if (active.length) control.activeItems = active;
  return run(control, frame, (finish) => {
    control.onDidAccept(() => {
      const chosen = control.selectedItems.map(({ value }) => value);
      const problem = check(chosen);
      if (problem) control.title = `${frame.title} — ${problem}`;
      else if (isMany || chosen.length) finish({ kind: "value", value: isMany ? chosen : chosen[0] });
    });
  });
}

/**
 * Let the user type a text. `read` returns the value and what is wrong with it.
 * @param {Frame} frame
 * @param {string} text
 * @param {(typed: string) => {value: unknown, problem: string}} read
 * @returns {Promise<Result>}
 */
function askText(frame, text, read) {
  const control = vscode.window.createInputBox();
  control.value = text;
  control.prompt = frame.about;
  control.validationMessage = frame.problem || undefined;
  return run(control, frame, (finish) => {
    control.onDidChangeValue((typed) => {
      // While the user is typing, an empty field is not yet a mistake.
      control.validationMessage = (typed && read(typed).problem) || undefined;
    });
    control.onDidAccept(() => {
      const { value, problem } = read(control.value);
      if (problem) control.validationMessage = problem;
      else finish({ kind: "value", value });
    });
  });
}

/**
 * Let the user choose a file of the workspace in the open dialog.
 * @param {import("./items").Field} field
 * @param {import("./workspaces").Workspace | null} workspace
 * @param {Frame} frame
 * @returns {Promise<Result>}
 */
async function askFile(field, workspace, frame) {
  if (!workspace)
    return askText(frame, String(field.default ?? ""), (typed) => {
      const value = typed.trim() || null;
      return { value, problem: checkField(field, value) };
    });
  if (!field.required || frame.total > 1) {
    // The open dialog has neither Back nor Skip nor Decline: this step offers them.
    const rows = [
      { label: "$(folder-opened) Choose a File…", value: "choose" },
      ...(field.required ? [] : [{ label: "Skip", value: null }]),
    ];
    const result = await pick(frame, rows, {});
    if (result.kind !== "value" || result.value === null) return result;
  }
  const { uri } = workspace.folder;
  for (;;) {
    const chosen = await vscode.window.showOpenDialog({
      title: frame.title,
      defaultUri: uri,
      canSelectMany: false,
      openLabel: "Choose",
    });
    if (!chosen?.length || frame.gone.aborted) return frame.total > 1 ? { kind: "back" } : { kind: "cancel" };
    const path = relativePath(uri, chosen[0]);
    if (path !== null) return { kind: "value", value: path };
    await vscode.window.showWarningMessage("Please choose a file in the folder of this workspace.", { modal: true });
  }
}

/**
 * Show a control until it is accepted, left with a button, hidden by the user, or the item is gone.
 * @param {vscode.QuickPick<any> | vscode.InputBox} control
 * @param {Frame} frame
 * @param {(finish: (result: Result) => void) => void} connect
 * @returns {Promise<Result>}
 */
function run(control, { title, step, total, gone, hasBack = step > 1 }, connect) {
  const decline = { iconPath: new vscode.ThemeIcon("circle-slash"), tooltip: "Decline" };
  const back = vscode.QuickInputButtons.Back;
  control.title = title;
  control.ignoreFocusOut = true;
  control.buttons = hasBack ? [back, decline] : [decline];
  if (total > 1) [control.step, control.totalSteps] = [step, total];
  return new Promise((resolve) => {
    const close = () => finish({ kind: "cancel" });
    const finish = (/** @type {Result} */ result) => {
      gone.removeEventListener("abort", close);
      resolve(result);
      control.dispose();
    };
    control.onDidTriggerButton((button) => finish(button === back ? { kind: "back" } : { kind: "decline" }));
    control.onDidHide(close);
    connect(finish);
    if (gone.aborted) return close();
    gone.addEventListener("abort", close, { once: true });
    control.show();
  });
}

module.exports = { pick, askText, askFile };
