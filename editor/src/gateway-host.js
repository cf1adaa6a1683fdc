// Starts the gateway for this window: which program, with which configuration, and whether that is allowed.

"use strict";

const vscode = require("vscode");
const { startGateway } = require("./gateway-process");
const { sayHello } = require("./hello");
const { nodeModule } = require("./node");
const { settings } = require("./settings");

const IN_BROWSER =
  "This editor runs in a browser and cannot start it: run “tieline serve”, with this page's origin in server.origins.";

class GatewayHost {
  #logFolder;
  #wanted = false;

  /** @param {vscode.Uri} logFolder */
  constructor(logFolder) {
    this.#logFolder = logFolder;
  }

  /** Remember that the user has asked for a gateway, even if no folder is open. */
  want() {
    this.#wanted = true;
  }

  /** Return why no gateway may be started; an empty string if one may. */
  cannotStart() {
    const { base, canStart } = settings.address;
    const none = `No gateway answers at ${base}.`;
    if (nodeModule("child_process") === null) return `${none} ${IN_BROWSER}`;
    if (!canStart) return none;
    if (!vscode.workspace.isTrusted) return `${none} None is started for a folder that you have not trusted.`;
    if (!settings.startsGateway) return `${none} Start it with “tieline serve”.`;
    if (!this.#wanted && !vscode.workspace.workspaceFolders?.length) return `${none} Open a folder, or choose Connect.`;
    return "";
  }

  /** Start a gateway with this key, and wait for it. Throw a StartError if that fails. @param {string} key */
  async start(key) {
    const { base, port, host } = settings.address;
    await vscode.workspace.fs.createDirectory(this.#logFolder);
    const { hello } = await startGateway({
      command: settings.command,
      port,
      host,
      key,
      config: await trustedConfig(),
      logFile: vscode.Uri.joinPath(this.#logFolder, "gateway.log").fsPath,
      look: () => sayHello(base),
    });
    return hello;
  }
}

/** Return the configuration file of the first folder that has one, if the user trusts the window's folders. */
async function trustedConfig() {
  if (!vscode.workspace.isTrusted) return undefined;
  for (const { uri } of vscode.workspace.workspaceFolders ?? []) {
    if (uri.scheme !== "file") continue;
    const file = vscode.Uri.joinPath(uri, "tieline.toml");
    try {
      const { type } = await vscode.workspace.fs.stat(file);
      if (type & vscode.FileType.File) return file.fsPath;
    } catch {
      // This folder has none.
    }
  }
  return undefined;
}

module.exports = { GatewayHost, trustedConfig };
