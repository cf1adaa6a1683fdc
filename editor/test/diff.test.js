"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { splitDiff } = require("../src/diff");

test("a diff becomes the texts before and after it", () => {
  const diff = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
  assert.deepEqual(splitDiff(diff), { before: "one\ntwo\nthree\n", after: "one\n2\nthree\n", added: 1, removed: 1 });
});

test("each further hunk has a heading on both sides", () => {
  const diff = "@@ -1 +1 @@\n-a\n+b\n@@ -40,2 +40,2 @@ def f\n c\n-d\n+e\n";
  assert.deepEqual(splitDiff(diff), {
    before: "a\n⋯ line 40\nc\nd\n",
    after: "b\n⋯ line 40\nc\ne\n",
    added: 2,
    removed: 2,
  });
});

test("a new file has nothing before it", () => {
  const diff = "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n";
  assert.deepEqual(splitDiff(diff), { before: "", after: "a\nb\n", added: 2, removed: 0 });
});

test("lines that look like headers inside a hunk are content", () => {
  const diff = "@@ -1,2 +1,2 @@\n--- old\n+++ new\n @@ -1 +1 @@\n";
  assert.deepEqual(splitDiff(diff), {
    before: "-- old\n@@ -1 +1 @@\n",
    after: "++ new\n@@ -1 +1 @@\n",
    added: 1,
    removed: 1,
  });
});

test("files of one diff are kept apart", () => {
  const diff = "--- a\n+++ a\n@@ -1 +1 @@\n-1\n+2\n--- b\n+++ b\n@@ -1 +1 @@\n-3\n+4\n";
  assert.equal(splitDiff(diff)?.before, "1\n⋯ b\n⋯ line 1\n3\n");
});

test("a text that is no diff is refused", () => {
  for (const text of ["", "hello", "@@ -1 +1 @@\n?bad\n", "I will change two files:\n@@ -1 +1 @@\n-a\n+b\n"])
    assert.equal(splitDiff(text), null, text);
});
