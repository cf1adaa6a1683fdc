"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { checkField, hint, readTyped } = require("../src/fields");
const { readItems } = require("../src/items");

/** Return a field as the extension reads it from the gateway. */
function field(given) {
  const [item] = readItems([{ id: "1", ask: { type: "form", message: "?", fields: [{ name: "a", ...given }] } }], "w");
  return item.ask.fields[0];
}

test("required fields need an answer, optional ones do not", () => {
  for (const empty of [null, "", []]) {
    assert.equal(checkField(field({ required: true }), empty), "Please answer this question.");
    assert.equal(checkField(field({}), empty), "");
  }
});

test("numbers are read and checked", () => {
  const whole = field({ kind: "number", is_whole: true, minimum: 3, maximum: 5 });
  assert.equal(readTyped(whole, " 4 "), 4);
  assert.equal(checkField(whole, 4), "");
  assert.equal(checkField(whole, 4.5), "This must be a whole number.");
  assert.equal(checkField(whole, 2), "At least 3.");
  assert.equal(checkField(whole, 6), "At most 5.");
  for (const typed of ["four", "0x10", "1e", "Infinity", "--1"])
    assert.equal(checkField(whole, readTyped(whole, typed)), "This must be a number.", typed);
  assert.equal(readTyped(field({ kind: "number" }), "-1.5e3"), -1500);
});

test("texts are checked for length and format", () => {
  const short = field({ kind: "text", minimum: 2, maximum: 3 });
  assert.equal(checkField(short, "😀😀"), "");
  assert.equal(checkField(short, "a"), "At least 2 characters.");
  assert.equal(checkField(short, "abcd"), "At most 3 characters.");
  assert.equal(checkField(field({ format: "email" }), "me"), "This must be an email address.");
  assert.equal(checkField(field({ format: "url" }), "here"), "This must be a web address.");
  assert.equal(checkField(field({ format: "url" }), "https://here"), "");
});

test("the number of choices is checked", () => {
  const many = field({ kind: "choice", many: true, minimum: 1, maximum: 2 });
  assert.equal(checkField(many, ["a", "b", "c"]), "At most 2 choices.");
  assert.equal(checkField(many, ["a"]), "");
});

test("a pattern that takes forever is not tried here", () => {
  const hostile = field({ pattern: "^(a+)+$" });
  const started = performance.now();
  assert.equal(checkField(hostile, `${"a".repeat(60)}!`), "");
  assert.ok(performance.now() - started < 500);
  assert.equal(hint(hostile), "pattern ^(a+)+$, optional");
});
