"use strict";

const assert = require("node:assert/strict");
const { createServer } = require("node:http");
const { test } = require("node:test");
const { ApiError, GatewayApi } = require("../src/api");
const { parseAddress } = require("../src/address");
const { Connection } = require("../src/connection");
const { decide, MOST_STARTS } = require("../src/decisions");
const { StartError } = require("../src/gateway-process");
const { classify, sayHello } = require("../src/hello");
const { Keys } = require("../src/keys");
const { serve } = require("./support/gateway");

/** Secret storage in memory. */
function secrets() {
  const stored = new Map();
  return {
    stored,
    get: async (name) => stored.get(name),
    store: async (name, value) => void stored.set(name, value),
    delete: async (name) => void stored.delete(name),
  };
}

/** Return an environment for a connection. Pauses are short, and the heartbeat never comes. */
function environment(url, more = {}) {
  const log = [];
  const pause = (length) =>
    length >= 20_000 ? new Promise(() => {}) : new Promise((resolve) => setTimeout(resolve, 5));
  return {
    lines: log,
    address: () => parseAddress(url),
    look: (base) => sayHello(base),
    start: async () => Promise.reject(new StartError("not in this test")),
    cannotStart: () => "may not start",
    keys: new Keys(secrets(), pause),
    api: (base, key) => new GatewayApi({ base, key }),
    log: (text) => log.push(text),
    pause,
    now: Date.now,
    ...more,
  };
}

/** Wait until the connection has a state. */
function reached(connection, state) {
  return new Promise((resolve) => {
    const check = () => connection.state === state && (off(), resolve());
    const off = connection.onChange(check);
    check();
  });
}

const NOTHING = "http://127.0.0.1:9"; // the discard port: nothing listens there

test("a running gateway is used", async () => {
  const gateway = await serve();
  const connection = new Connection(environment(gateway.base));
  connection.connect();
  await reached(connection, "connected");
  assert.equal(connection.version, "9.9");
  assert.equal(gateway.state.requests.at(-1).headers.authorization, undefined, "a gateway without keys gets none");
  connection.disconnect();
  await gateway.close();
});

test("a missing or wrong key is asked for, and a right one connects", async () => {
  const gateway = await serve({ key: "right" });
  const given = environment(gateway.base);
  const connection = new Connection(given);
  connection.connect();
  await reached(connection, "locked");
  assert.match(connection.reason, /^The gateway needs its key\. If another editor has started it/);
  await given.keys.set(gateway.base, "wrong");
  connection.connect();
  await reached(connection, "searching");
  await reached(connection, "locked");
  assert.match(connection.reason, /^The gateway refuses the stored key\./);
  await given.keys.set(gateway.base, "right");
  connection.connect();
  await reached(connection, "connected");
  connection.disconnect();
  await gateway.close();
});

test("a key that another window stores a moment later is found", async () => {
  const gateway = await serve({ key: "right" });
  const given = environment(gateway.base);
  await given.keys.set(gateway.base, "ours");
  const get = given.keys.get.bind(given.keys);
  let reads = 0;
  given.keys.get = async (origin) => ((reads += 1) === 1 ? get(origin) : "right");
  const connection = new Connection(given);
  connection.connect();
  await reached(connection, "connected");
  connection.disconnect();
  await gateway.close();
});

test("a gateway is started if there is none, and the key is kept", async () => {
  let gateway = null;
  const port = (await serve().then(async (one) => (await one.close(), one))).port;
  const start = async (key) => {
    gateway = await serve({ port, key });
    return sayHello(gateway.base);
  };
  const given = environment(`http://127.0.0.1:${port}`, { cannotStart: () => "", start });
  const connection = new Connection(given);
  const states = [];
  connection.onChange(() => states.push(connection.state));
  connection.connect();
  await reached(connection, "connected");
  assert.deepEqual(states, ["searching", "starting", "connected"]);
  assert.equal((await given.keys.get(gateway.base)).length, 43);
  await connection.stop();
  assert.equal(connection.state, "off");
  await gateway.close();
});

test("a start that fails is reported, and not repeated", async () => {
  let starts = 0;
  const start = async () => {
    starts += 1;
    throw new StartError("The program was not found.", "its last line");
  };
  const given = environment(NOTHING, { cannotStart: () => "", start });
  const connection = new Connection(given);
  connection.connect();
  await reached(connection, "failed");
  await given.pause(5);
  await given.pause(5);
  await given.pause(5);
  assert.equal(starts, 1);
  assert.match(given.lines[0], /its last line/);
  connection.disconnect();
});

test("a gateway that is restarted is found again", async () => {
  const first = await serve();
  const connection = new Connection(environment(first.base));
  connection.connect();
  await reached(connection, "connected");
  const { api } = connection;
  await first.close();
  connection.lost();
  await reached(connection, "waiting");
  const second = await serve({ port: first.port });
  await reached(connection, "connected");
  assert.notEqual(connection.api, api, "watchers notice that they have to register again");
  connection.disconnect();
  await second.close();
});

test("a gateway that was started by other means is not stopped", async () => {
  const gateway = await serve({ features: ["workspaces", "embed"] });
  const connection = new Connection(environment(gateway.base));
  connection.connect();
  await reached(connection, "connected");
  await assert.rejects(connection.stop(), /not started by the editor/);
  assert.equal(connection.state, "connected");
  connection.disconnect();
  await gateway.close();
});

test("a gateway that refuses to stop stays connected", async () => {
  const gateway = await serve();
  const given = environment(gateway.base);
  const { api } = given;
  given.api = (base, key) => {
    const made = api(base, key);
    made.post = async () => Promise.reject(new Error("not now"));
    return made;
  };
  const connection = new Connection(given);
  connection.connect();
  await reached(connection, "connected");
  await assert.rejects(connection.stop(), /not now/);
  await reached(connection, "connected");
  connection.disconnect();
  await gateway.close();
});

test("another program on the port is named, and its end is noticed", async () => {
  const other = createServer((_, response) => response.end("<h1>Printer</h1>"));
  await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address();
  const connection = new Connection(environment(`http://127.0.0.1:${port}`));
  connection.connect();
  await reached(connection, "failed");
  assert.match(connection.reason, /Another program answers at .* It answered with status 200\./);
  await new Promise((resolve) => {
    other.close(resolve);
    other.closeAllConnections();
  });
  await reached(connection, "waiting");
  connection.disconnect();
});

test("a gateway that does not answer for a while is waited for, and not taken for another program", async () => {
  const held = [];
  const busy = createServer((_, response) => held.push(response));
  await new Promise((resolve) => busy.listen(0, "127.0.0.1", resolve));
  const look = (base) => sayHello(base, { timeout: 20 });
  const connection = new Connection(environment(`http://127.0.0.1:${busy.address().port}`, { look }));
  connection.connect();
  await reached(connection, "waiting");
  assert.match(connection.reason, /does not answer\. If it is the gateway, it is busy\.$/);
  connection.disconnect();
  busy.close();
  busy.closeAllConnections();
});

test("requests that are sent at once all get the token that the gateway demands", async () => {
  const reply = async (path, { headers, method }) => {
    if (path.endsWith("/api/state")) return new Response('{"token": "t"}');
    const isRefused = method === "POST" && headers["x-tieline-token"] !== "t";
    return isRefused ? new Response('{"error": {"message": "no token"}}', { status: 403 }) : new Response("{}");
  };
  const api = new GatewayApi({ base: "http://gateway", fetch: reply });
  assert.deepEqual(await Promise.all([api.post("/a", {}), api.post("/b", {})]), [{}, {}]);
  await api.post("/c", {});
});

test("an error that is not the gateway's is reported with its status", async () => {
  for (const body of ['{"detail": "Bad Gateway"}', '{"error": "no"}', "null", "<h1>Bad Gateway</h1>", ""]) {
    const api = new GatewayApi({ base: "http://proxy", fetch: async () => new Response(body, { status: 502 }) });
    await assert.rejects(api.get("/"), new ApiError(502, "The gateway answered with status 502."), body);
  }
});

test("what listens is recognised", () => {
  const hello = { service: "tieline", version: "1", features: ["workspaces", "embed"], needs_key: true };
  assert.deepEqual(classify(200, JSON.stringify(hello)), {
    kind: "tieline",
    version: "1",
    features: ["workspaces", "embed"],
    needsKey: true,
  });
  assert.deepEqual(classify(200, '{"status":"ok","service":"tieline","version":"0.1.0"}'), {
    kind: "older",
    version: "0.1.0",
  });
  assert.deepEqual(classify(403, '{"error":{"message":"no pages of \\u202ex"}}'), {
    kind: "other",
    detail: "no pages of \\u202ex",
  });
  assert.equal(classify(200, "{").kind, "other");
  assert.equal(classify(200, "null").kind, "other");
});

test("a gateway is started only if that is allowed and sensible", () => {
  const none = { kind: "none" };
  const situation = { cannotStart: "", wasForeign: false, starts: [], now: 100_000 };
  assert.equal(decide(none, "a", situation).action, "start");
  assert.equal(decide(none, "a", { ...situation, cannotStart: "no" }).action, "wait");
  assert.equal(decide(none, "a", { ...situation, wasForeign: true }).action, "wait");
  const starts = Array.from({ length: MOST_STARTS }, () => 90_000);
  assert.equal(decide(none, "a", { ...situation, starts }).action, "fail");
  assert.equal(decide(none, "a", { ...situation, starts: starts.map(() => 10_000) }).action, "start");
  assert.match(
    decide({ kind: "older", version: "0.1" }, "a", situation).reason,
    /version 0.1, which this extension cannot use/,
  );
});

test("without secret storage, a key is valid for the window", async () => {
  const broken = {
    get: async () => undefined,
    store: () => Promise.reject(new Error("locked")),
    delete: async () => {},
  };
  const keys = new Keys(broken, async () => {});
  const key = await keys.create("o");
  assert.equal(key.length, 43);
  assert.equal(await keys.get("o"), key);
});

test("two windows that create a key at once agree on one", async () => {
  const shared = secrets();
  const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
  const keys = await Promise.all([new Keys(shared, pause).create("o"), new Keys(shared, pause).create("o")]);
  assert.equal(keys[0], keys[1]);
  assert.deepEqual([...shared.stored.values()], [keys[0]]);
});
