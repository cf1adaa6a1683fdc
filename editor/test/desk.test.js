"use strict";

const assert = require("node:assert/strict");
const { beforeEach, test } = require("node:test");
const { editor } = require("./support/vscode");
const { Desk } = require("../src/desk");
const { readItems } = require("../src/items");
const { ItemQueue } = require("../src/queue");

const permission = (id) => ({ id, origin: { client: "Agent" }, ask: { type: "permission", title: `Run ${id}` } });
const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

/** A desk with items. `dialog` answers them; answers are collected. */
function desk(items, { dialog = async () => null, outcome = "accepted", isQuiet = false } = {}) {
  const queue = new ItemQueue();
  queue.update("w", readItems(items, "w"));
  const answers = [];
  const inbox = {
    answer: async (item, body) => {
      answers.push([item.id, body]);
      queue.answering(item.id);
      if (outcome === "refused") queue.refused(item.id);
      else queue.settle(item.id);
      return { outcome, message: "the message", param: null };
    },
  };
  const plans = [];
  const ask = { ask: dialog };
  const made = new Desk(
    queue,
    inbox,
    { permission: ask, form: ask },
    { show: async (item) => void plans.push(item.id) },
    () => isQuiet,
  );
  return { queue, answers, plans, desk: made };
}

beforeEach(() => editor.reset());

test("a dialog opens only after a click on the notification", async () => {
  const asked = [];
  const given = desk([permission("a")], { dialog: async ({ id }) => (asked.push(id), { option: "deny" }) });
  let click;
  editor.answer = () => new Promise((resolve) => (click = () => resolve("Review")));
  void given.desk.announce();
  await settled();
  assert.deepEqual(asked, []);
  assert.ok(!editor.messages[0].modal);
  assert.equal(editor.messages[0].text, "Agent: Run a");
  click();
  await settled();
  assert.deepEqual(given.answers, [["a", { option: "deny" }]]);
});

test("a thousand items show one notification, and closing it shows no other", async () => {
  const given = desk(Array.from({ length: 1000 }, (_, at) => permission(`i${at}`)));
  let close;
  editor.answer = () => new Promise((resolve) => (close = () => resolve(undefined)));
  for (let at = 0; at < 5; at += 1) void given.desk.announce();
  await settled();
  assert.equal(editor.messages.length, 1);
  assert.match(editor.messages[0].text, /\(and 999 more\)$/);
  close();
  await settled();
  void given.desk.announce();
  await settled();
  assert.equal(editor.messages.length, 1);
  assert.equal(given.queue.items.length, 1000, "they still wait");
});

test("closing the notification of a settled item does not silence the others", async () => {
  const given = desk([permission("a"), permission("b"), permission("c")], { dialog: async () => ({ option: "deny" }) });
  const answers = [];
  editor.answer = () => new Promise((resolve) => answers.push(resolve));
  void given.desk.announce();
  given.queue.settle("a");
  void given.desk.announce();
  answers[0](undefined);
  await settled();
  answers[1]("Review");
  await settled();
  assert.deepEqual(
    editor.messages.map(({ text }) => text),
    ["Agent: Run a (and 2 more)", "Agent: Run b (and 1 more)", "Agent: Run c"],
  );
});

test("nothing is shown in do-not-disturb mode", async () => {
  await desk([permission("a")], { isQuiet: true }).desk.announce();
  assert.deepEqual(editor.messages, []);
});

test("while a dialog is open, no other opens and nothing is announced", async () => {
  let close;
  const given = desk([permission("a"), permission("b")], {
    dialog: () => new Promise((resolve) => (close = () => resolve(null))),
  });
  const first = given.desk.show("a");
  await given.desk.show("b");
  assert.match(editor.messages[0].text, /Another dialog is open/);
  await given.desk.announce();
  assert.equal(editor.messages.length, 1);
  close();
  await first;
  await settled();
  assert.equal(given.queue.state("a"), "announced", "it waits again");
  assert.equal(editor.messages.at(-1).text, "Agent: Run b (and 1 more)");
});

test("a dialog that closes without a decision sends nothing", async () => {
  const given = desk([permission("a")]);
  await given.desk.show("a");
  assert.deepEqual(given.answers, []);
  assert.equal(given.queue.items.length, 1);
});

test("an answer to an item that is gone is not sent, and the user learns why", async () => {
  const given = desk([permission("a")], {
    dialog: async () => {
      given.queue.update("w", []);
      return { option: "allow" };
    },
  });
  await given.desk.show("a");
  assert.deepEqual(given.answers, []);
  assert.equal(editor.messages[0].text, "This was already answered, or it has expired.");
});

test("a refused answer is shown, and the item waits", async () => {
  const given = desk([permission("a")], { dialog: async () => ({ option: "x" }), outcome: "refused" });
  await given.desk.show("a");
  assert.equal(editor.messages[0].text, "The answer was not accepted: the message");
  assert.equal(given.queue.items.length, 1);
});

test("the list names what waits, and opens what is chosen", async () => {
  const plan = { id: "p", origin: {}, ask: { type: "plan_review", title: "Tidy up" } };
  const given = desk([permission("a"), plan]);
  editor.pick = (rows) => {
    assert.deepEqual(
      rows.map(({ label }) => label),
      ["$(shield) Run a", "$(checklist) Plan: Tidy up"],
    );
    return rows[1];
  };
  await given.desk.list();
  assert.deepEqual(given.plans, ["p"]);
});
