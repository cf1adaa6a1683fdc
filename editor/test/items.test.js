"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { headline, originText, readItems } = require("../src/items");

const permission = (more = {}) => ({ id: "1", origin: {}, ask: { type: "permission", title: "Run it", ...more } });

test("omitted options are the gateway's defaults", () => {
  const [item] = readItems([permission()], "w");
  assert.deepEqual(
    item.ask.options.map(({ id, kind }) => [id, kind]),
    [
      ["allow", "allow_once"],
      ["always", "allow_always"],
      ["deny", "reject_once"],
    ],
  );
});

test("items of an unknown form are left out", () => {
  const odd = [null, 7, {}, { id: "2" }, { id: "3", ask: { type: "new" } }, { id: 4, ask: { type: "form" } }];
  assert.deepEqual(readItems(odd, "w"), []);
  assert.deepEqual(readItems("nonsense", "w"), []);
});

test("values of a wrong type become defaults", () => {
  const [item] = readItems(
    [permission({ title: 7, command: {}, hidden: "x", options: [{ id: 1 }, { id: "a", kind: "?" }] })],
    "w",
  );
  assert.deepEqual([item.ask.title, item.ask.command, item.ask.hidden], ["", "", 0]);
  assert.deepEqual(item.ask.options, [{ id: "a", label: "", kind: "other", description: "" }]);
});

test("the headline and the origin are safe lines", () => {
  const origin = { client: "[x](command:y)", model: "m\u202e" };
  const [item] = readItems([{ ...permission({ title: "a\nb\u001b[2J" }), origin }], "w");
  assert.equal(headline(item), "a b\\u001b[2J");
  assert.equal(originText(item), "[x] (command:y) · m\\u202e");
});

test("more items than can be shown are cut", () => {
  const many = Array.from({ length: 5000 }, (_, at) => ({ ...permission(), id: String(at) }));
  assert.equal(readItems(many, "w").length, 1000);
});
