// The extension's settings. None of them can be set by a workspace: see their scopes in package.json.

"use strict";

const vscode = require("vscode");
const { parseAddress } = require("./address");
const { commandLine } = require("./gateway-process");

const AUTONOMIES = ["ask", "edits", "all"];

/** @param {string} name */
const value = (name) => vscode.workspace.getConfiguration("tieline").get(name);

const settings = {
  /** The gateway's address. Throw an Error if the setting is invalid. */
  get address() {
    return parseAddress(String(value("url") ?? ""));
  },
  get command() {
    return commandLine(value("command"));
  },
  get startsGateway() {
    return value("startGateway") !== false;
  },
  get isQuiet() {
    return value("doNotDisturb") === true;
  },
  /** The autonomy that the user has set; an empty string if the gateway decides. */
  get autonomy() {
    const set = String(value("autonomy") ?? "");
    return AUTONOMIES.includes(set) ? set : "";
  },
  /** The path of a folder on the gateway's machine, by the folder's URI. @returns {Record<string, string>} */
  get folders() {
    const set = value("folders");
    return set && typeof set === "object" ? /** @type {Record<string, string>} */ (set) : {};
  },
};

module.exports = { settings, AUTONOMIES };
