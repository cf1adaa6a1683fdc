"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { ItemQueue } = require("../src/queue");

const item = (id, workspace = "w") => ({ id, workspace, ask: { type: "permission" } });

function filled(...ids) {
  const queue = new ItemQueue();
  queue.update(
    "w",
    ids.map((id) => item(id)),
  );
  return queue;
}

test("items are announced once, in order of arrival", () => {
  const queue = filled("a", "b");
  assert.equal(queue.announce()?.id, "a");
  assert.equal(queue.announce()?.id, "b");
  assert.equal(queue.announce(), null);
  queue.update("w", [item("a"), item("b"), item("c")]);
  assert.equal(queue.announce()?.id, "c");
});

test("only one item is open at a time", () => {
  const queue = filled("a", "b");
  assert.ok(queue.open("a"));
  assert.ok(!queue.open("b"));
  queue.close("a");
  assert.equal(queue.state("a"), "announced");
  assert.ok(queue.open("b"));
});

test("an item that is answered elsewhere is gone, and its dialog closes", () => {
  const queue = filled("a", "b");
  queue.open("a");
  const signal = queue.signal("a");
  queue.update("w", [item("b")]);
  assert.ok(signal.aborted);
  assert.equal(queue.state("a"), "gone");
  assert.ok(!queue.answering("a"), "it cannot be answered any more");
  assert.ok(queue.open("b"), "the next one can be opened");
});

test("an answer is sent once, and a refused one leaves the item waiting", () => {
  const queue = filled("a");
  queue.open("a");
  assert.ok(queue.answering("a"));
  assert.ok(!queue.answering("a"));
  assert.ok(!queue.open("a"));
  assert.deepEqual(queue.items, []);
  queue.refused("a");
  assert.equal(queue.state("a"), "announced");
  assert.ok(queue.open("a"));
});

test("a listing that was sent before the answer does not bring the item back", () => {
  const queue = filled("a");
  queue.answering("a");
  queue.settle("a");
  queue.update("w", [item("a")]);
  assert.deepEqual(queue.items, []);
});

test("workspaces do not mix", () => {
  const queue = new ItemQueue();
  queue.update("one", [item("a", "one")]);
  queue.update("two", [item("b", "two")]);
  queue.update("one", []);
  assert.deepEqual(
    queue.items.map(({ id }) => id),
    ["b"],
  );
  queue.keep(["one"]);
  assert.deepEqual(queue.items, []);
});

test("a thousand items are counted, and every change is reported once", () => {
  const queue = new ItemQueue();
  let changes = 0;
  queue.onChange(() => (changes += 1));
  queue.update(
    "w",
    Array.from({ length: 1000 }, (_, at) => item(String(at))),
  );
  assert.equal(queue.items.length, 1000);
  assert.equal(changes, 1);
});
