"use strict";

const assert = require("node:assert/strict");
const { join } = require("node:path");
const { test } = require("node:test");
const { JsonLines, TunnelProcess } = require("../src/tunnel-process");

const PROGRAM = [process.execPath, join(__dirname, "support", "tunnel.js")];

/** Start a tunnel, and return its process and promises of its events. */
function started(command) {
  const events = {};
  const promises = Object.fromEntries(
    ["opened", "requested", "closed"].map((name) => [
      name,
      new Promise((resolve) => (events[name] = (...facts) => resolve(facts))),
    ]),
  );
  const tunnel = new TunnelProcess(events);
  tunnel.start(command, undefined);
  return { tunnel, ...promises };
}

test("the address, the key, the models and the first request are reported, and the tunnel is stopped", async () => {
  const { tunnel, opened, requested, closed } = started(PROGRAM);
  assert.deepEqual(await opened, [
    { url: "https://x.example/cursor/v1", key: "secret-key-1234", models: ["a/b", "c/d"] },
  ]);
  assert.deepEqual(await requested, ["a/b", 200]);
  assert.equal(tunnel.state, "open");
  tunnel.stop();
  assert.deepEqual(await closed, [""]);
  assert.equal(tunnel.state, "closed");
  assert.equal(tunnel.tunnel, null, "the key is forgotten");
});

test("a tunnel that fails says why", async () => {
  process.env.TEST_FAILS = "1";
  try {
    assert.deepEqual(await started(PROGRAM).closed, ["cloudflared is not installed"]);
  } finally {
    delete process.env.TEST_FAILS;
  }
});

test("a program that does not exist is named", async () => {
  const [reason] = await started(["/no/such/program"]).closed;
  assert.match(reason, /“\/no\/such\/program” was not found/);
});

test("a program that cannot be started is named", async () => {
  assert.deepEqual(await started([__dirname]).closed, [`The program “${__dirname}” cannot be started (EACCES).`]);
});

test("lines are read wherever the output is cut, and other output is ignored", () => {
  const text = 'starting\n{"event":"a"}\n\n{"event":"b"}\n';
  for (let cut = 0; cut <= text.length; cut += 1) {
    const got = [];
    const lines = new JsonLines(({ event }) => got.push(event));
    lines.feed(text.slice(0, cut));
    lines.feed(text.slice(cut));
    assert.deepEqual(got, ["a", "b"]);
  }
});
