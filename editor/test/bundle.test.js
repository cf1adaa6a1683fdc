"use strict";

const assert = require("node:assert/strict");
const { existsSync, readFileSync } = require("node:fs");
const { join } = require("node:path");
const { test } = require("node:test");
const { editor, vscode } = require("./support/vscode");
const { contributes } = require("../package.json");

const BUNDLE = join(__dirname, "..", "dist", "extension.js");
const skip = existsSync(BUNDLE) ? false : "not built: run editor/build.py bundle";

/** Load the bundle as a web extension host does: one file, and no module but the editor's. */
function load() {
  const module = { exports: {} };
  const required = (name) => {
    if (name === "vscode") return vscode;
    throw new Error(`Cannot load module '${name}'`);
  };
  new Function("module", "exports", "require", "process", readFileSync(BUNDLE, "utf8"))(
    module,
    module.exports,
    required,
    undefined,
  );
  return module.exports;
}

test("the bundle runs in a web extension host, and registers every command of the manifest", { skip }, async () => {
  const { activate, deactivate } = load();
  const folder = vscode.Uri.file("/extension");
  const context = {
    subscriptions: [],
    extensionUri: folder,
    logUri: folder,
    secrets: {
      get: async () => undefined,
      store: async () => {},
      delete: async () => {},
      onDidChange: () => ({ dispose() {} }),
    },
  };
  activate(context);
  const missing = contributes.commands.map(({ command }) => command).filter((name) => !editor.registered.has(name));
  assert.deepEqual(missing, []);
  assert.ok(editor.providers.has("tieline.chat"));
  await editor.registered.get("tieline.useInCursor")();
  assert.match(editor.messages[0].text, /cannot start programs/);
  for (const one of context.subscriptions) one.dispose();
  deactivate();
});
