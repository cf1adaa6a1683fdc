// Lets the user change how much may happen in a folder without asking.

"use strict";

const vscode = require("vscode");
const { AUTONOMIES } = require("./settings");
const { AUTONOMY_HELP } = require("./status-bar");
const { label } = require("./text");

/** @type {Record<string, string>} */
const TITLES = { ask: "Ask First", edits: "Allow Edits", all: "Allow Everything" };

/** @param {import("./workspaces").Workspaces} workspaces */
async function changeAutonomy(workspaces) {
  const { current } = workspaces;
  if (!current?.name) return void vscode.window.showInformationMessage("Tieline does not work in this folder now.");
  const rows = AUTONOMIES.map((autonomy) => ({
    label: TITLES[autonomy],
    description: autonomy === current.autonomy ? "current" : "",
    detail: AUTONOMY_HELP[autonomy],
    autonomy,
  }));
  const picked = await vscode.window.showQuickPick(rows, { title: `Autonomy in ${label(current.folder.name, 60)}` });
  if (!picked || picked.autonomy === current.autonomy) return;
  if (picked.autonomy !== "ask" && !(await isConfirmed(picked.autonomy, current.folder.name))) return;
  try {
    await workspaces.setAutonomy(current, picked.autonomy);
  } catch (error) {
    const message = error instanceof Error ? error.message : "";
    void vscode.window.showErrorMessage(`The autonomy was not changed: ${label(message, 300)}`);
  }
}

/** @param {string} autonomy @param {string} folder */
async function isConfirmed(autonomy, folder) {
  // "Keep Asking" is first, and so the default of the dialog.
  const [keep, change] = ["Keep Asking", TITLES[autonomy]];
  const scope = `This applies to all clients that work in ${label(folder, 60)}, until you change it.`;
  const detail = `${AUTONOMY_HELP[autonomy]} ${scope}`;
  const chosen = await vscode.window.showWarningMessage(`${change}?`, { modal: true, detail }, keep, change);
  return chosen === change;
}

module.exports = { changeAutonomy };
