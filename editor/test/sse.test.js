"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { Frames, readEvents } = require("../src/sse");

const STREAM =
  'retry: 1000\n: comment\n\nid: 7\ndata: {"a":\ndata: 1}\n\r\ndata:x\r\n\r\n: nothing new\n\ndata: é😀\n\n';
const EXPECTED = [
  ['{"a":\n1}', "7"],
  ["x", "7"],
  ["é😀", "7"],
];

test("messages are the same wherever the stream is cut", () => {
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const got = [];
    const frames = new Frames((data, id) => got.push([data, id]));
    frames.feed(STREAM.slice(0, cut));
    frames.feed(STREAM.slice(cut));
    assert.deepEqual(got, EXPECTED, `cut at ${cut}`);
  }
});

test("a message that is too long is refused", () => {
  const frames = new Frames(() => {}, 100);
  assert.throws(() => frames.feed(`data: ${"x".repeat(101)}`), /too long/);
  const lines = new Frames(() => {}, 100);
  assert.throws(() => lines.feed("data: 1234567890\n".repeat(11)), /too long/);
});

/** Return a response whose body sends each byte on its own, and then stays open or ends. */
function response(text, { isOpen = false } = {}) {
  const bytes = new TextEncoder().encode(text);
  let cancelled = false;
  const body = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
      if (!isOpen) controller.close();
    },
    cancel() {
      cancelled = true;
    },
  });
  return { response: new Response(body), isCancelled: () => cancelled };
}

test("characters of several bytes survive being cut", async () => {
  const got = [];
  const { signal } = new AbortController();
  await readEvents(response(STREAM).response, (data) => got.push(data), { signal });
  assert.deepEqual(
    got,
    EXPECTED.map(([data]) => data),
  );
});

test("a silent stream ends", async () => {
  const open = response("data: 1\n\n", { isOpen: true });
  await readEvents(open.response, () => {}, { signal: new AbortController().signal, silence: 20 });
  assert.ok(open.isCancelled());
});

test("an aborted signal ends the stream", async () => {
  const cut = new AbortController();
  const open = response("data: 1\n\n", { isOpen: true });
  const reading = readEvents(open.response, () => cut.abort(), { signal: cut.signal });
  await reading;
  assert.ok(open.isCancelled());
});
