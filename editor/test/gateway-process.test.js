"use strict";

const assert = require("node:assert/strict");
const { mkdtempSync, readFileSync, statSync } = require("node:fs");
const { createServer } = require("node:net");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { test } = require("node:test");
const { GatewayApi } = require("../src/api");
const {
  candidates,
  commandLine,
  environmentFor,
  serveArguments,
  startGateway,
  StartError,
} = require("../src/gateway-process");
const { sayHello } = require("../src/hello");
const { serve } = require("./support/gateway");

const PROGRAM = [process.execPath, join(__dirname, "support", "gateway.js")];
const KEY = "a-random-key-of-the-editor";

/** Return a port on which nothing listens. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function options(more = {}) {
  const port = more.port ?? (await freePort());
  const logFile = join(mkdtempSync(join(tmpdir(), "tieline-")), "gateway.log");
  const look = () => sayHello(`http://127.0.0.1:${port}`);
  return { command: PROGRAM, port, host: "127.0.0.1", key: KEY, logFile, look, ...more };
}

async function stop(port) {
  await new GatewayApi({ base: `http://127.0.0.1:${port}`, key: KEY }).post("/api/stop", {});
}

test("a gateway is started with a key in its environment, and not in its arguments", async () => {
  const start = await options({ config: "/my work/tieline.toml" });
  const { hello, isOurs } = await startGateway(start);
  assert.equal(hello.version, "9.9");
  assert.ok(isOurs);
  const log = readFileSync(start.logFile, "utf8");
  assert.match(
    log,
    /started with serve --host 127.0.0.1 --port \d+ --exit-when-idle 30 --config \/my work\/tieline.toml and/,
  );
  assert.ok(!log.split(" and ")[0].includes(KEY));
  assert.equal(statSync(start.logFile).mode & 0o077, 0, "only the user can read the log");
  await stop(start.port);
});

test("of two windows that start a gateway at once, the second uses the first one's", async () => {
  const port = await freePort();
  const [one, other] = await Promise.all([
    startGateway(await options({ port })),
    startGateway(await options({ port })),
  ]);
  assert.equal(one.hello.kind, "tieline");
  assert.equal(other.hello.kind, "tieline");
  await stop(port);
});

test("a program that does not exist is named, with the way to install it", async () => {
  const start = await options({ command: ["/no/such/tieline"] });
  await assert.rejects(startGateway(start), (error) => {
    assert.ok(error instanceof StartError);
    assert.match(error.message, /“\/no\/such\/tieline” was not found.*uv tool install tieline/);
    return true;
  });
});

test("a gateway that fails shows its last lines, without the key", async () => {
  process.env.TEST_FAILS = "1";
  try {
    await assert.rejects(startGateway(await options()), (error) => {
      assert.match(error.message, /could not be started/);
      assert.match(error.log, /started with serve .* and \*\*\*\ntieline.toml, line 3: no such setting\\u001b\[0m$/);
      return true;
    });
  } finally {
    delete process.env.TEST_FAILS;
  }
});

test("a gateway that never answers is stopped", async () => {
  const start = await options({ command: [process.execPath, "-e", "setTimeout(() => {}, 30000)"] });
  await assert.rejects(startGateway(start, { timeout: 300 }), /did not answer in time/);
});

test("a port that an older gateway takes is reported", async () => {
  const older = await serve({ features: [] });
  await assert.rejects(startGateway(await options({ port: older.port })), /took the gateway's port/);
  await older.close();
});

test("the command is a program or a list, never a line for a shell", () => {
  assert.deepEqual(commandLine("tieline; rm -rf /"), ["tieline; rm -rf /"]);
  assert.deepEqual(commandLine(["uvx", "tieline", 7]), ["uvx", "tieline"]);
  for (const none of [undefined, "", [], "  ", null]) assert.deepEqual(commandLine(none), ["tieline"]);
});

test("the usual folder of programs is searched for the default program only", () => {
  assert.deepEqual(candidates("tieline", "/home/me", "/"), ["tieline", "/home/me/.local/bin/tieline"]);
  assert.deepEqual(candidates("/opt/tieline", "/home/me", "/"), ["/opt/tieline"]);
});

test("the editor's own variables do not reach the gateway", () => {
  const given = { PATH: "/bin", ELECTRON_RUN_AS_NODE: "1", VSCODE_IPC_HOOK: "x" };
  assert.deepEqual(environmentFor(given, { TIELINE_KEY: "k" }), { PATH: "/bin", TIELINE_KEY: "k" });
});

test("a configuration file is named only if there is one", () => {
  assert.deepEqual(serveArguments({ port: 1, host: "h" }), [
    "serve",
    "--host",
    "h",
    "--port",
    "1",
    "--exit-when-idle",
    "30",
  ]);
});
