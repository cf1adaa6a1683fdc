// The commands that bring files and selections into the chat.

"use strict";

const vscode = require("vscode");
const { relativePath } = require("./paths");
const { label } = require("./text");

const MOST_SELECTION = 20_000;
const MOST_FILES = 20; // per message, as in the gateway

/**
 * Return the text for the composer: the place of a selection and its lines.
 * @param {{path: string, first: number, last: number, text: string, language: string}} selection
 */
function selectionText({ path, first, last, text, language }) {
  const place = first === last ? `line ${first}` : `lines ${first}–${last}`;
  const isCut = text.length > MOST_SELECTION;
  const shown = isCut ? `${text.slice(0, MOST_SELECTION)}\n…` : text;
  // The fence must be longer than any in the text.
  const fence = "`".repeat(Math.max(3, ...[...shown.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `\`${path}\`, ${place}:\n\n${fence}${language}\n${shown.replace(/\n$/, "")}\n${fence}\n\n`;
}

class ChatCommands {
  #view;
  #workspaces;

  /**
   * @param {import("./view").ChatView} view
   * @param {import("./workspaces").Workspaces} workspaces
   */
  constructor(view, workspaces) {
    this.#view = view;
    this.#workspaces = workspaces;
  }

  /** Put the selection, or the current line, into the composer. */
  async askSelection() {
    const editor = vscode.window.activeTextEditor;
    if (!editor) return void vscode.window.showInformationMessage("Open a file and select some text first.");
    const { document, selection } = editor;
    const range = selection.isEmpty ? document.lineAt(selection.active.line).range : selection;
    // A selection that ends at the start of a line does not include this line.
    const last = range.end.character === 0 && range.end.line > range.start.line ? range.end.line : range.end.line + 1;
    const text = selectionText({
      path: this.#pathOf(document.uri) ?? label(document.uri.path.split("/").pop(), 100),
      first: range.start.line + 1,
      last,
      text: document.getText(range),
      language: /^[\w+-]+$/.test(document.languageId) && document.languageId !== "plaintext" ? document.languageId : "",
    });
    await this.#view.open();
    this.#view.send({ type: "insert", text });
    this.#view.send({ type: "focus" });
  }

  /**
   * Attach files to the next message.
   * @param {vscode.Uri | undefined} uri the file of a menu, or none for the active editor
   * @param {vscode.Uri[] | undefined} selected all files that are selected in the explorer
   */
  async addFiles(uri, selected) {
    const active = vscode.window.activeTextEditor?.document.uri;
    const uris = selected?.length ? selected : [uri ?? active].filter((one) => one !== undefined);
    if (uris.length === 0) return void vscode.window.showInformationMessage("Open a file first.");
    const paths = uris.map((one) => this.#pathOf(/** @type {vscode.Uri} */ (one)));
    const files = paths.filter((path) => path !== null);
    if (files.length < uris.length)
      void vscode.window.showWarningMessage("Only files in the folder of the chat can be added.");
    if (files.length > MOST_FILES)
      void vscode.window.showWarningMessage(`Only the first ${MOST_FILES} files were added: a message takes no more.`);
    if (files.length === 0) return;
    await this.#view.open();
    this.#view.send({ type: "attach", files: files.slice(0, MOST_FILES) });
    this.#view.send({ type: "focus" });
  }

  /** Let the user choose the folder of the view. */
  async chooseFolder() {
    const { all, current } = this.#workspaces;
    if (all.length < 2) return void vscode.window.showInformationMessage("This window has no other folder.");
    const rows = all.map(({ folder, path, problem }) => ({
      label: label(folder.name, 80),
      description: folder === current?.folder ? "current" : "",
      detail: label(problem || path, 200),
      folder,
    }));
    const picked = await vscode.window.showQuickPick(rows, { title: "Folder of the chat" });
    if (picked) this.#workspaces.choose(picked.folder);
  }

  /** @param {vscode.Uri} uri */
  #pathOf(uri) {
    const { current } = this.#workspaces;
    return current ? relativePath(current.folder.uri, uri) : null;
  }
}

module.exports = { ChatCommands, selectionText };
