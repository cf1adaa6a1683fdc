"use strict";

const assert = require("node:assert/strict");
const { beforeEach, test } = require("node:test");
const { editor, vscode } = require("./support/vscode");
const { Documents } = require("../src/documents");
const { readItems } = require("../src/items");
const { QuestionDialog } = require("../src/question");

const folder = { uri: vscode.Uri.file("/home/me/x"), name: "x" };
const dialog = new QuestionDialog(new Documents(), { named: () => ({ folder }) });
const form = (fields, more = {}) =>
  readItems([{ id: "1", ask: { type: "form", message: "Which?", fields, ...more } }], "w")[0];
const ask = (item, refusal) => dialog.ask(item, new AbortController().signal, refusal);

/** Answer one control after another. Each step receives the control. */
function script(...steps) {
  editor.onControl = (control) => {
    assert.ok(steps.length, `no step for ${control.title}`);
    steps.shift()(control);
  };
}

const choose =
  (...labels) =>
  (control) => {
    control.selectedItems = control.items.filter((row) => labels.includes(row.label));
    assert.equal(control.selectedItems.length, labels.length);
    control.fire("Accept");
  };
const type = (text) => (control) => {
  control.value = text;
  control.fire("ChangeValue", text);
  control.fire("Accept");
};
const escape = (control) => control.hide();
const press = (tooltip) => (control) => {
  const button = control.buttons.find((one) => one.tooltip === tooltip || one.name === tooltip);
  assert.ok(button, `no button ${tooltip}`);
  control.fire("TriggerButton", button);
};

beforeEach(() => editor.reset());

test("the five kinds of fields are filled in step by step", async () => {
  const item = form([
    { name: "sure", kind: "yes_no", required: true },
    {
      name: "one",
      kind: "choice",
      required: true,
      options: [
        { id: "r", label: "Red" },
        { id: "g", label: "Green" },
      ],
    },
    { name: "many", kind: "choice", many: true, options: [{ id: "a" }, { id: "b" }, { id: "c" }] },
    { name: "text", kind: "text", required: true },
    { name: "count", kind: "number", is_whole: true },
    { name: "file", kind: "file", required: true },
  ]);
  editor.openDialog = () => [vscode.Uri.file("/home/me/x/src/a.py")];
  script(
    choose("Yes"),
    choose("Green"),
    choose("a", "c"),
    type("hello"),
    type("7"),
    choose("$(folder-opened) Choose a File…"),
  );
  assert.deepEqual(await ask(item), {
    action: "accept",
    values: { sure: true, one: "g", many: ["a", "c"], text: "hello", count: 7, file: "src/a.py" },
  });
  assert.deepEqual(editor.controls.map(({ step, totalSteps }) => [step, totalSteps])[3], [4, 6]);
});

test("an invalid value is explained, and can be corrected", async () => {
  const item = form([{ name: "n", kind: "number", minimum: 3, required: true }]);
  script((control) => {
    type("x")(control);
    assert.equal(control.validationMessage, "This must be a number.");
    type("2")(control);
    assert.equal(control.validationMessage, "At least 3.");
    type("3")(control);
  });
  assert.deepEqual(await ask(item), { action: "accept", values: { n: 3 } });
});

test("Back returns to the field before", async () => {
  const item = form([
    { name: "a", required: true },
    { name: "b", required: true },
  ]);
  script(type("1"), press("back"), (control) => (assert.equal(control.value, "1"), type("2")(control)), type("3"));
  assert.deepEqual(await ask(item), { action: "accept", values: { a: "2", b: "3" } });
});

test("Escape decides nothing, and Decline declines", async () => {
  const item = form([{ name: "a" }]);
  script(escape);
  assert.equal(await ask(item), null);
  script(press("Decline"));
  assert.deepEqual(await ask(item), { action: "decline", values: {} });
});

test("an item that is gone closes its control", async () => {
  const gone = new AbortController();
  script(() => gone.abort());
  assert.equal(await dialog.ask(form([{ name: "a", kind: "yes_no" }]), gone.signal), null);
  assert.equal(editor.controls[0].isShown, false);
});

test("an optional field can be skipped", async () => {
  const item = form([
    { name: "a", kind: "yes_no" },
    { name: "b", kind: "choice", options: [{ id: "x" }] },
    { name: "c" },
  ]);
  script(choose("Skip"), choose("Skip"), type(""));
  assert.deepEqual(await ask(item), { action: "accept", values: {} });
});

test("an open choice takes an answer of one's own", async () => {
  const options = [{ id: "r", label: "Red" }];
  script(choose("Something else…"), type("mauve"));
  assert.deepEqual(await ask(form([{ name: "c", kind: "choice", is_open: true, required: true, options }])), {
    action: "accept",
    values: { c: "mauve" },
  });
  script(choose("Red", "Something else…"), type("mauve"));
  assert.deepEqual(await ask(form([{ name: "c", kind: "choice", many: true, is_open: true, options }])), {
    action: "accept",
    values: { c: ["r", "mauve"] },
  });
});

test("Back returns from an answer of one's own to the choices, even in the first step", async () => {
  const options = [{ id: "r", label: "Red" }];
  script(choose("Something else…"), press("back"), choose("Red"));
  assert.deepEqual(await ask(form([{ name: "c", kind: "choice", is_open: true, required: true, options }])), {
    action: "accept",
    values: { c: "r" },
  });
});

test("too many choices are refused", async () => {
  const item = form([{ name: "c", kind: "choice", many: true, maximum: 1, options: [{ id: "a" }, { id: "b" }] }]);
  script((control) => {
    choose("a", "b")(control);
    assert.match(control.title, /At most 1 choice\./);
    choose("b")(control);
  });
  assert.deepEqual(await ask(item), { action: "accept", values: { c: ["b"] } });
});

test("after a refusal the form opens at the field, with the other values kept", async () => {
  const item = form([
    { name: "a", required: true },
    { name: "word", required: true },
  ]);
  script(type("1"), type("wrong"));
  await ask(item);
  script((control) => {
    assert.equal(control.step, 2);
    assert.equal(control.validationMessage, "not that");
    type("right")(control);
  });
  const refusal = { message: "not that", param: "values.word" };
  assert.deepEqual(await ask(item, refusal), { action: "accept", values: { a: "1", word: "right" } });
});

test("a file outside of the folder is not accepted", async () => {
  const chosen = [[vscode.Uri.file("/etc/passwd")], [vscode.Uri.file("/home/me/x/b")]];
  editor.openDialog = () => chosen.shift();
  assert.deepEqual(await ask(form([{ name: "f", kind: "file", required: true }])), {
    action: "accept",
    values: { f: "b" },
  });
  assert.match(editor.messages[0].text, /in the folder/);
});

test("labels of a hostile question contain no links and no icons", async () => {
  const options = [{ id: "x", label: "$(shield) [ok](command:x)", description: "\u202e" }];
  script((control) => {
    assert.equal(control.title, "[a] (command:b)");
    assert.equal(control.items[0].label, "$ (shield) [ok] (command:x)");
    assert.equal(control.items[0].detail, "\\u202e");
    control.hide();
  });
  await ask(form([{ name: "c", kind: "choice", options }], { message: "[a](command:b)" }));
});

test("a page to visit opens only on the web", async () => {
  script(choose("$(link-external) Open example.org"), choose("$(check) Done"));
  assert.deepEqual(await ask(form([], { url: "https://example.org/login" })), { action: "accept", values: {} });
  assert.deepEqual(editor.executed, [["open", "https://example.org/login"]]);
  script((control) => (assert.equal(control.items.length, 1), control.hide()));
  assert.equal(await ask(form([], { url: "command:workbench.action.quit" })), null);
});
