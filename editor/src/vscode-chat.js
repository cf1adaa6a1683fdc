// "Use in VS Code's Chat": shows the settings of a custom endpoint. The user adds them; nothing is written here.

"use strict";

const vscode = require("vscode");
const { TEXT_SCHEME } = require("./documents");
const { settings } = require("./settings");
const { label } = require("./text");

const MOST_MODELS = 500;
const AGENT = "acp/";
const MANAGE = "workbench.action.chat.manageLanguageModels";

/**
 * Return the settings for a coding agent with the address of a workspace, because an agent works in a folder. Other
 * models keep the plain address: it is valid in all windows, whichever folders are open.
 * @param {string} text
 * @param {{address: string, workspace: string, model: string}} target
 */
function forWorkspace(text, { address, workspace, model }) {
  if (!workspace || !model.startsWith(AGENT)) return text;
  return text.replaceAll(`${address}/v1`, `${address}/workspaces/${workspace}/v1`);
}

/**
 * @param {import("./connection").Connection} connection
 * @param {import("./workspaces").Workspaces} workspaces
 * @param {import("./keys").Keys} keys
 * @param {import("./documents").Documents} documents
 */
async function useInVsCode({ api }, { current }, keys, documents) {
  if (!api) return void vscode.window.showInformationMessage("Connect Tieline to a gateway first.");
  const listed = await api.get("/v1/models");
  const models = [...(listed?.data ?? [])].slice(0, MOST_MODELS).map((one) => String(one?.id));
  const model = await vscode.window.showQuickPick(models, { title: "Model for VS Code's chat" });
  if (model === undefined) return;
  const page = await api.get(`/api/connect?model=${encodeURIComponent(model)}`);
  const snippet = page?.snippets?.find((/** @type {any} */ one) => one?.id === "vscode");
  if (!snippet) return void vscode.window.showErrorMessage("This gateway has no settings for VS Code.");
  const address = String(page.address);
  const text = forWorkspace(String(snippet.text), { address, workspace: current?.name ?? "", model });
  const folder = current?.name && model.startsWith(AGENT) ? `// This agent works in ${label(current.path, 200)}\n` : "";
  const head = `// ${label(snippet.about, 600)}\n// Nothing has been changed. Copy what you need.\n${folder}`;
  await documents.show(documents.put(TEXT_SCHEME, "vscode", "chatLanguageModels.jsonc", head + text), {
    isFocused: true,
  });
  await offer(text, await keys.get(settings.address.origin));
}

/** @param {string} text @param {string} key */
async function offer(text, key) {
  const known = await vscode.commands.getCommands(true);
  const buttons = ["Copy Settings", ...(key ? ["Copy Key"] : []), ...(known.includes(MANAGE) ? ["Manage Models"] : [])];
  for (;;) {
    const chosen = await vscode.window.showInformationMessage(
      "Settings for VS Code's chat are shown in the editor.",
      ...buttons,
    );
    if (chosen === "Copy Settings") await vscode.env.clipboard.writeText(text);
    else if (chosen === "Copy Key") await vscode.env.clipboard.writeText(key);
    else if (chosen === "Manage Models") await vscode.commands.executeCommand(MANAGE);
    else return;
  }
}

module.exports = { useInVsCode, forWorkspace };
