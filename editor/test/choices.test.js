"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { choicesOf, lastingTexts, needsPick, permissionAnswer } = require("../src/choices");
const { readItems } = require("../src/items");

function ask(more = {}) {
  return readItems([{ id: "1", ask: { type: "permission", title: "t", ...more } }], "w")[0].ask;
}

const titles = (given) => choicesOf(given).map(({ title }) => title);

test("the first button denies, so that it is the default", () => {
  assert.deepEqual(titles(ask()), ["Deny", "Allow", "Always Allow"]);
});

test("only what the item offers has a button", () => {
  assert.deepEqual(
    titles(
      ask({
        options: [
          { id: "a", kind: "allow_once" },
          { id: "d", kind: "reject_once" },
        ],
      }),
    ),
    ["Deny", "Allow"],
  );
  assert.deepEqual(titles(ask({ options: [] })), ["Deny"]);
});

test("an item without a denying option can still be denied", () => {
  const [deny] = choicesOf(ask({ options: [{ id: "a", kind: "allow_once" }] }));
  assert.equal(deny.title, "Deny");
  assert.deepEqual(permissionAnswer(deny.options[0]), { option: null, reason: "Denied in the editor." });
});

test("a risky call cannot be allowed for good", () => {
  const risky = ask({ risk: "It deletes files." });
  assert.deepEqual(titles(risky), ["Deny", "Allow"]);
  assert.deepEqual(lastingTexts(risky), []);
});

test("a misleading label changes nothing: the kind decides", () => {
  const options = [
    { id: "x", label: "Deny", kind: "allow_always" },
    { id: "y", label: "Allow", kind: "reject_once" },
  ];
  const choices = choicesOf(ask({ options }));
  assert.deepEqual(
    choices.map(({ title, options: [{ id }] }) => [title, id]),
    [
      ["Deny", "y"],
      ["Always Allow", "x"],
    ],
  );
});

test("several options of one kind, and those of no known kind, need a choice", () => {
  const options = [
    { id: "1", label: "this command", kind: "allow_always" },
    { id: "2", label: "all commands", kind: "allow_always" },
    { id: "3", label: "Switch mode", kind: "other" },
  ];
  const choices = choicesOf(ask({ options }));
  assert.deepEqual(
    choices.map((choice) => [choice.title, needsPick(choice)]),
    [
      ["Deny", false],
      ["Always Allow…", true],
      ["Other…", true],
    ],
  );
});

test("what “Always Allow” means is said, without links", () => {
  const options = [{ id: "1", label: "Always allow", kind: "allow_always", description: "[npm](command:x)\u202e" }];
  assert.deepEqual(lastingTexts(ask({ options })), ["[npm] (command:x)\\u202e"]);
});
