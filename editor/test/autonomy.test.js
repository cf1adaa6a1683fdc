"use strict";

const assert = require("node:assert/strict");
const { beforeEach, test } = require("node:test");
const { editor } = require("./support/vscode");
const { changeAutonomy } = require("../src/autonomy");

/** The workspaces of a window with one folder. Changes are collected. */
function workspaces({ refusal = "" } = {}) {
  const changes = [];
  const current = { name: "one", folder: { name: "one" }, autonomy: "ask" };
  const setAutonomy = async (_, autonomy) => {
    if (refusal) throw new Error(refusal);
    changes.push(autonomy);
  };
  return { current, setAutonomy, changes };
}

const choose = (autonomy) => (rows) => rows.find((row) => row.autonomy === autonomy);

beforeEach(() => editor.reset());

test("more autonomy needs a confirmation, whose default keeps asking", async () => {
  const window = workspaces();
  editor.pick = choose("all");
  await changeAutonomy(window);
  assert.deepEqual(window.changes, [], "closing the dialog changes nothing");
  const [{ modal, buttons, detail }] = editor.messages;
  assert.ok(modal);
  assert.deepEqual(buttons, ["Keep Asking", "Allow Everything"]);
  assert.match(detail, /^Everything is allowed without asking, including commands\./);
  editor.answer = () => "Keep Asking";
  await changeAutonomy(window);
  assert.deepEqual(window.changes, []);
  editor.answer = () => "Allow Everything";
  await changeAutonomy(window);
  assert.deepEqual(window.changes, ["all"]);
});

test("less autonomy needs none", async () => {
  const window = workspaces();
  window.current.autonomy = "all";
  editor.pick = choose("ask");
  await changeAutonomy(window);
  assert.deepEqual(window.changes, ["ask"]);
  assert.deepEqual(editor.messages, []);
});

test("a refusal of the gateway is shown", async () => {
  editor.pick = choose("edits");
  editor.answer = () => "Allow Edits";
  await changeAutonomy(workspaces({ refusal: "The configuration forbids it." }));
  assert.equal(editor.messages.at(-1).text, "The autonomy was not changed: The configuration forbids it.");
});
