"use strict";

const assert = require("node:assert/strict");
const { beforeEach, test } = require("node:test");
const { editor } = require("./support/vscode");
const { Documents } = require("../src/documents");
const { readItems } = require("../src/items");
const { PermissionDialog } = require("../src/permission");

const documents = new Documents();
const dialog = new PermissionDialog(documents);
const live = () => new AbortController().signal;
const item = (ask) =>
  readItems([{ id: "1", origin: { client: "Agent" }, ask: { type: "permission", title: "Run it", ...ask } }], "w")[0];

beforeEach(() => editor.reset());

test("Deny is the default button, and no button stands for closing the dialog", async () => {
  await dialog.ask(item({ command: "npm test" }), live());
  const [{ modal, buttons, items }] = editor.messages;
  assert.ok(modal);
  assert.deepEqual(buttons, ["Deny", "Allow", "Always Allow"]);
  assert.ok(items.every(({ isCloseAffordance }) => !isCloseAffordance));
});

test("closing the dialog decides nothing", async () => {
  editor.answer = () => undefined;
  assert.equal(await dialog.ask(item({ command: "npm test" }), live()), null);
});

test("each button gives the option of its kind", async () => {
  for (const [title, option] of [
    ["Deny", "deny"],
    ["Allow", "allow"],
    ["Always Allow", "always"],
  ]) {
    editor.answer = () => title;
    assert.deepEqual(await dialog.ask(item({ command: "npm test" }), live()), { option });
  }
});

test("the dialog shows the full command, with invisible characters", async () => {
  await dialog.ask(item({ command: "echo \u001b[31mhi\u202e", risk: "It is odd." }), live());
  assert.equal(editor.messages[0].detail, "⚠ Risky: It is odd.\n\necho \\u001b[31mhi\\u202e");
});

test("spaces of a command are not collapsed", async () => {
  await dialog.ask(item({ command: "a  b\n c\td" }), live());
  assert.equal(editor.messages[0].detail, "a\u00a0 b\n\u00a0c\u00a0\u00a0\u00a0\u00a0d");
});

test("a change that is no unified diff is shown as text", async () => {
  await dialog.ask(item({ path: "a.py", diff: "replace x by y" }), live());
  assert.equal(editor.messages[0].detail, "Path: a.py\n\nreplace x by y");
  assert.deepEqual(editor.executed, []);
});

test("a command of 100 kB is a document, and the dialog says so", async () => {
  const command = `echo ${"x".repeat(102_395)}\u001b`;
  await dialog.ask(item({ command }), live());
  const [{ detail }] = editor.messages;
  assert.ok(detail.length < 600);
  assert.match(
    detail,
    /The full text \(102,401 characters in 1 line\) is too long for this dialog\. It is open in the editor\./,
  );
  const [uri] = editor.shown;
  assert.equal(uri.scheme, "tieline");
  assert.equal(documents.provideTextDocumentContent(uri), `${command.slice(0, -1)}\\u001b`);
});

test("a change opens in the diff editor", async () => {
  await dialog.ask(item({ path: "src/a.py", diff: "@@ -1 +1 @@\n-old\n+new\n" }), live());
  const [[command, before, after, title]] = editor.executed;
  assert.equal(command, "vscode.diff");
  assert.equal(documents.provideTextDocumentContent(before), "old\n");
  assert.equal(documents.provideTextDocumentContent(after), "new\n");
  assert.equal(title, "src/a.py (asks for permission)");
  assert.equal(editor.messages[0].detail, "Path: src/a.py\n\nThe change (+1 −1) is open in the diff editor.");
});

test("a changed document with links is shown as plain text", async () => {
  for (const path of ["README.md", "index.html", "package.json", "x.md.txt", "a.mdx"]) {
    editor.reset();
    await dialog.ask(item({ path, diff: "@@ -1 +1 @@\n-old\n+[x](command:y)\n" }), live());
    assert.match(editor.executed[0][2].path, /\.txt$/);
  }
});

test("one of several lasting permissions is chosen from a list, and leaving the list decides nothing", async () => {
  const options = [
    { id: "narrow", label: "this command", kind: "allow_always" },
    { id: "broad", label: "all $(commands)", kind: "allow_always" },
  ];
  editor.answer = () => "Always Allow…";
  editor.pick = (rows) => rows[1];
  assert.deepEqual(await dialog.ask(item({ command: "x", options }), live()), { option: "broad" });
  editor.pick = (rows) => {
    assert.deepEqual(
      rows.map((row) => row.label),
      ["this command", "all $ (commands)"],
    );
    return undefined;
  };
  assert.equal(await dialog.ask(item({ command: "x", options }), live()), null);
});

test("an item that is gone before the dialog opens shows none", async () => {
  assert.equal(await dialog.ask(item({ command: "x" }), AbortSignal.abort()), null);
  assert.deepEqual(editor.messages, []);
});
