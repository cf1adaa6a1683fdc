// The requests that the page may send to the editor: open a file of its workspace, compare two texts, open a web page.

"use strict";

const vscode = require("vscode");
const { TEXT_SCHEME, documentName } = require("./documents");
const { insideFolder } = require("./paths");
const { label } = require("./text");

const MOST_TEXT = 4 << 20;

class PageRequests {
  #workspaces;
  #connection;
  #documents;

  /**
   * @param {import("./workspaces").Workspaces} workspaces
   * @param {import("./connection").Connection} connection
   * @param {import("./documents").Documents} documents
   */
  constructor(workspaces, connection, documents) {
    this.#workspaces = workspaces;
    this.#connection = connection;
    this.#documents = documents;
  }

  /** @param {{type: string, [name: string]: unknown}} message */
  async handle(message) {
    switch (message.type) {
      case "openFile":
        return this.#openFile(message.path, message.line);
      case "openDiff":
        return this.#openDiff(message);
      case "openExternal":
        return this.#openExternal(message.path);
    }
  }

  /** @param {unknown} path @param {unknown} line */
  async #openFile(path, line) {
    const { current } = this.#workspaces;
    const parts = current && (insideFolder(current.path, path) ?? insideFolder(current.realPath, path));
    if (!current || !parts)
      return void vscode.window.showWarningMessage(`${label(path, 100)} is not in the folder of this chat.`);
    const uri = vscode.Uri.joinPath(current.folder.uri, ...parts);
    const row = typeof line === "number" && line >= 1 ? Math.min(Math.floor(line), 10_000_000) - 1 : null;
    const selection = row === null ? undefined : new vscode.Range(row, 0, row, 0);
    try {
      await vscode.window.showTextDocument(uri, { selection, preview: true });
    } catch {
      void vscode.window.showWarningMessage(`${label(parts.join("/"), 100)} cannot be opened.`);
    }
  }

  /** @param {{[name: string]: unknown}} message */
  async #openDiff({ path, before, after, line }) {
    if (typeof before !== "string" && typeof after !== "string") return;
    const [old, text] = [String(before ?? ""), String(after ?? "")];
    if (old.length + text.length > MOST_TEXT)
      return void vscode.window.showWarningMessage("This change is too large for the diff editor.");
    const shown = label(path, 200);
    const name = documentName(shown);
    const group = `page ${shown}`;
    const left = this.#documents.put(TEXT_SCHEME, group, `before/${name}`, old);
    const right = this.#documents.put(TEXT_SCHEME, group, `after/${name}`, text);
    const place = typeof line === "number" && line > 1 ? `, from line ${Math.floor(line)}` : "";
    await this.#documents.compare(left, right, `${shown || "Change"} (before ↔ after${place})`);
  }

  /** @param {unknown} path */
  async #openExternal(path) {
    const { api } = this.#connection;
    const url = externalUrl(path, api?.base ?? "");
    if (url === null) return;
    const uri = vscode.Uri.parse(url, true);
    await vscode.env.openExternal(url.startsWith(`${api?.base}/`) ? await vscode.env.asExternalUri(uri) : uri);
  }
}

/**
 * Return the URL of a gateway path or of a web page; null for everything else, such as `command:` and `file:`.
 * @param {unknown} path
 * @param {string} base
 */
function externalUrl(path, base) {
  if (typeof path !== "string" || path.length > 8192) return null;
  if (path.startsWith("/") && !path.startsWith("//") && !path.includes("\\")) return base ? base + path : null;
  try {
    const url = new URL(path);
    return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
  } catch {
    return null;
  }
}

module.exports = { PageRequests, externalUrl };
