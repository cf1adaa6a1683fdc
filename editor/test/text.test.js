"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { label, lastLines, plural, shorten, visible } = require("../src/text");

test("terminal codes, bidi marks and other invisible characters are written as code points", () => {
  assert.equal(visible("a\u001b[31mb"), "a\\u001b[31mb");
  assert.equal(visible("rm \u202etxt.exe"), "rm \\u202etxt.exe");
  assert.equal(visible("zero\u200bwidth \u{e0041} tag"), "zero\\u200bwidth \\u{e0041} tag");
  assert.equal(visible("over\rwritten"), "over\\u000dwritten");
  assert.equal(visible("kept\ttab\nline\r\nline"), "kept\ttab\nline\r\nline");
});

test("a label is one short line without links and icons", () => {
  assert.equal(label("a\n  b\tc"), "a b c");
  assert.equal(label("[Open](command:workbench.action.quit)"), "[Open] (command:workbench.action.quit)");
  assert.equal(label("echo $(whoami)"), "echo $ (whoami)");
  assert.equal(label("x".repeat(500), 10), `${"x".repeat(9)}…`);
  assert.equal(label(undefined), "");
});

test("a label of a huge text is made quickly", () => {
  const started = performance.now();
  assert.equal(label("\u202e".repeat(5_000_000), 40).length, 40);
  assert.ok(performance.now() - started < 1000);
});

test("shortening does not split a character", () => {
  assert.equal(shorten("ab😀cd", 4), "ab…");
  assert.equal(shorten("abc", 3), "abc");
});

test("the last lines of an output contain no secret", () => {
  const output = "first\nkey is abcdefgh12345678\nlast\u001b[0m\n";
  assert.equal(lastLines(output, ["abcdefgh12345678"], 2), "key is ***\nlast\\u001b[0m");
});

test("numbers and nouns agree", () => {
  assert.equal(plural(1, "item"), "1 item");
  assert.equal(plural(102400, "character"), "102,400 characters");
});
