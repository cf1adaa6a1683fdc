// The part of the editor's API that the extension uses, without an editor. Messages are answered by `editor.answer`.

"use strict";

const { mkdirSync, statSync } = require("node:fs");
const Module = require("node:module");

/** What happened, and how to answer. Tests change it. */
const editor = {
  /** @type {any[]} */ messages: [],
  /** @type {any[]} */ controls: [],
  /** @type {any[]} */ executed: [],
  /** @type {any[]} */ shown: [],
  registered: new Map(),
  providers: new Map(),
  /** @type {Record<string, unknown>} */ settings: {},
  /** Return the answer to a message: one of its buttons, or undefined. */
  answer: (_message) => undefined,
  pick: (_rows, _options) => undefined,
  input: (_options) => undefined,
  openDialog: (_options) => undefined,
  onControl: (_control) => {},
  reset() {
    for (const list of [editor.messages, editor.controls, editor.executed, editor.shown]) list.length = 0;
    editor.answer = editor.pick = editor.input = editor.openDialog = () => undefined;
    editor.onControl = () => {};
  },
};

class Uri {
  constructor({ scheme, authority = "", path, query = "" }) {
    Object.assign(this, { scheme, authority, path, query });
  }
  static from(parts) {
    return new Uri(parts);
  }
  static parse(text) {
    const { protocol, host, pathname } = new URL(text);
    return new Uri({ scheme: protocol.slice(0, -1), authority: host, path: pathname });
  }
  static file(path) {
    return new Uri({ scheme: "file", path });
  }
  static joinPath(uri, ...parts) {
    return new Uri({ ...uri, path: [uri.path, ...parts].join("/") });
  }
  get fsPath() {
    return this.path;
  }
  toString() {
    return `${this.scheme}://${this.authority}${this.path}`;
  }
}

class EventEmitter {
  #listeners = new Set();
  event = (listener) => {
    this.#listeners.add(listener);
    return { dispose: () => this.#listeners.delete(listener) };
  };
  fire(value) {
    for (const listener of this.#listeners) listener(value);
  }
  dispose() {}
}

class CancellationTokenSource {
  #cancelled = new EventEmitter();
  token = { onCancellationRequested: this.#cancelled.event };
  cancel() {
    this.#cancelled.fire();
  }
  dispose() {}
}

/** A quick pick or an input box. Tests accept, hide or press its buttons. */
function control(kind) {
  const events = Object.fromEntries(
    ["Accept", "Hide", "ChangeValue", "TriggerButton", "TriggerItemButton"].map((name) => [name, new EventEmitter()]),
  );
  const made = { kind, items: [], selectedItems: [], activeItems: [], buttons: [], value: "", isShown: false };
  for (const [name, emitter] of Object.entries(events)) made[`onDid${name}`] = emitter.event;
  return Object.assign(made, {
    fire: (name, value) => events[name].fire(value),
    show() {
      made.isShown = true;
      editor.controls.push(made);
      setImmediate(() => editor.onControl(made));
    },
    hide() {
      events.Hide.fire();
    },
    dispose() {
      made.isShown = false;
    },
  });
}

const message =
  (severity) =>
  async (text, ...rest) => {
    const options = rest[0] && typeof rest[0] === "object" && "modal" in rest[0] ? rest.shift() : {};
    const one = { severity, text, ...options, buttons: rest.map((item) => item.title ?? item), items: rest };
    editor.messages.push(one);
    const chosen = await editor.answer(one);
    return rest.find((item) => (item.title ?? item) === chosen);
  };

const none = new EventEmitter().event;
const disposable = { dispose() {} };
const register = (name) => (key, value) => {
  editor[name].set(typeof key === "string" ? key : JSON.stringify(key), value);
  return disposable;
};

const vscode = {
  Uri,
  EventEmitter,
  CancellationTokenSource,
  Disposable: { from: () => disposable },
  Range: class {
    constructor(...at) {
      this.at = at;
    }
  },
  CodeLens: class {
    constructor(range, command) {
      Object.assign(this, { range, command });
    }
  },
  ThemeIcon: class {},
  ThemeColor: class {
    constructor(id) {
      this.id = id;
    }
  },
  TabInputText: class {},
  TabInputTextDiff: class {},
  QuickInputButtons: { Back: { name: "back" } },
  StatusBarAlignment: { Left: 1, Right: 2 },
  ProgressLocation: { Notification: 15 },
  FileType: { File: 1 },
  window: {
    showInformationMessage: message("information"),
    showWarningMessage: message("warning"),
    showErrorMessage: message("error"),
    setStatusBarMessage: () => disposable,
    showQuickPick: async (rows, options) => editor.pick(rows, options),
    showInputBox: async (options) => editor.input(options),
    showOpenDialog: async (options) => editor.openDialog(options),
    createQuickPick: () => control("pick"),
    createInputBox: () => control("input"),
    createOutputChannel: () => ({ appendLine() {}, show() {}, dispose() {} }),
    createStatusBarItem: (id) => {
      const item = { id, show() {}, hide() {}, dispose() {} };
      editor.providers.set(id, item);
      return item;
    },
    registerWebviewViewProvider: register("providers"),
    showTextDocument: async (document) => void editor.shown.push(document.uri ?? document),
    tabGroups: { all: [], close: async () => true },
    activeTextEditor: undefined,
  },
  workspace: {
    isTrusted: true,
    workspaceFolders: [],
    getConfiguration: () => ({ get: (name) => editor.settings[name] }),
    fs: {
      createDirectory: async (uri) => void mkdirSync(uri.path, { recursive: true }),
      stat: async (uri) => ({ type: statSync(uri.path).isFile() ? 1 : 2 }),
    },
    openTextDocument: async (uri) => ({ uri }),
    registerTextDocumentContentProvider: register("providers"),
    onDidCloseTextDocument: none,
    onDidChangeWorkspaceFolders: none,
    onDidGrantWorkspaceTrust: none,
    onDidChangeConfiguration: none,
  },
  languages: { registerCodeLensProvider: register("providers") },
  commands: {
    registerCommand: register("registered"),
    executeCommand: async (...command) => void editor.executed.push(command),
    getCommands: async () => [],
  },
  env: {
    openExternal: async (uri) => void editor.executed.push(["open", uri.toString()]),
    asExternalUri: async (uri) => uri,
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

module.exports = { editor, vscode };
