// Read-only documents: long commands, plans and both sides of a change.
//
// They are shown as text in an editor. In some languages, such as Markdown and HTML, the editor makes links of a
// document clickable, even those that run commands. So documents have only languages without links; plans have a
// language of their own that only colours the text.

"use strict";

const vscode = require("vscode");
const { label, visible } = require("./text");

/** The scheme of documents that belong to an inbox item. Their path begins with the item's id. */
const ITEM_SCHEME = "tieline";
/** The scheme of other documents. */
const TEXT_SCHEME = "tieline-text";
const MOST_DOCUMENTS = 40;
const LINKLESS = /\.(c|cc|cpp|cs|diff|go|h|hpp|java|js|jsx|kt|lua|php|py|rb|rs|sh|sql|swift|tieline-plan|ts|tsx)$/i;

/** @implements {vscode.TextDocumentContentProvider} */
class Documents {
  /** @type {Map<string, string>} */
  #texts = new Map();
  #changed = new vscode.EventEmitter();
  onDidChange = this.#changed.event;

  /** @returns {vscode.Disposable} */
  register() {
    return vscode.Disposable.from(
      this.#changed,
      vscode.workspace.registerTextDocumentContentProvider(ITEM_SCHEME, this),
      vscode.workspace.registerTextDocumentContentProvider(TEXT_SCHEME, this),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => void this.#texts.delete(uri.toString())),
    );
  }

  /** @param {vscode.Uri} uri */
  provideTextDocumentContent(uri) {
    return this.#texts.get(uri.toString()) ?? "This document is no longer available.";
  }

  /**
   * Create or change a document, and return its URI.
   * @param {string} scheme
   * @param {string} group the id of the item, or another name for documents that are closed together
   * @param {string} name
   * @param {string} text
   */
  put(scheme, group, name, text) {
    const uri = documentUri(scheme, group, name);
    const key = uri.toString();
    const shown = visible(text);
    if (this.#texts.get(key) === shown) return uri;
    const isNew = !this.#texts.has(key);
    this.#texts.set(key, shown);
    if (this.#texts.size > MOST_DOCUMENTS) this.#texts.delete([...this.#texts.keys()][0]);
    if (!isNew) this.#changed.fire(uri);
    return uri;
  }

  /** Open a document in an editor. @param {vscode.Uri} uri @param {{isFocused?: boolean}} [options] */
  async show(uri, { isFocused = false } = {}) {
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { preview: false, preserveFocus: !isFocused });
  }

  /**
   * Open two documents in the diff editor.
   * @param {vscode.Uri} before
   * @param {vscode.Uri} after
   * @param {string} title
   */
  async compare(before, after, title) {
    await vscode.commands.executeCommand("vscode.diff", before, after, label(title, 100), {
      preview: false,
      preserveFocus: true,
    });
  }

  /** Close the editors of a group's documents. @param {string} scheme @param {string} group */
  async close(scheme, group) {
    const prefix = documentUri(scheme, group, "").path;
    const isOurs = (/** @type {vscode.Uri | undefined} */ uri) => uri?.scheme === scheme && uri.path.startsWith(prefix);
    const tabs = vscode.window.tabGroups.all
      .flatMap(({ tabs: open }) => open)
      .filter(({ input }) => {
        if (input instanceof vscode.TabInputText) return isOurs(input.uri);
        return input instanceof vscode.TabInputTextDiff && isOurs(input.modified);
      });
    if (tabs.length) await vscode.window.tabGroups.close(tabs, true);
  }
}

/** @param {string} scheme @param {string} group @param {string} name */
function documentUri(scheme, group, name) {
  return vscode.Uri.from({ scheme, path: `/${encodeURIComponent(group)}/${name}` });
}

/** Return the id of the item to which a document belongs, or null. @param {vscode.Uri | undefined} uri */
function itemOf(uri) {
  if (uri?.scheme !== ITEM_SCHEME) return null;
  try {
    return decodeURIComponent(uri.path.split("/")[1] ?? "");
  } catch {
    return null;
  }
}

/** Return a text as a file name without special characters. @param {string} text */
function fileName(text, most = 40) {
  return (
    text
      .slice(0, 400)
      .replace(/[^\p{L}\p{N}._-]+/gu, " ")
      .trim()
      .slice(0, most)
      .trim() || "Untitled"
  );
}

/** Return the name of a document for a file. Its extension determines the document's language. @param {string} path */
function documentName(path) {
  const name = fileName(path.split(/[\\/]/).pop() ?? "", 80);
  return LINKLESS.test(name) ? name : `${name}.txt`;
}

module.exports = { Documents, ITEM_SCHEME, TEXT_SCHEME, itemOf, fileName, documentName };
