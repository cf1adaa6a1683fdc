"use strict";

const assert = require("node:assert/strict");
const { mkdtempSync, readFileSync, writeFileSync } = require("node:fs");
const { createServer } = require("node:net");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { test } = require("node:test");
const { editor, vscode } = require("./support/vscode");
const { GatewayApi } = require("../src/api");
const { activate } = require("../src/extension");

/** Return a port on which nothing listens. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Wait until a condition holds. */
async function until(condition) {
  for (const end = Date.now() + 20_000; !condition(); await new Promise((resolve) => setTimeout(resolve, 10)))
    assert.ok(Date.now() < end, String(condition));
}

/** Open a window with a folder, in which the gateway of the tests is the program to start. */
async function open({ isTrusted = true } = {}) {
  editor.reset();
  const folder = mkdtempSync(join(tmpdir(), "tieline-"));
  writeFileSync(join(folder, "tieline.toml"), "");
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  editor.settings = { url, command: [process.execPath, join(__dirname, "support", "gateway.js")] };
  Object.assign(vscode.workspace, { isTrusted, workspaceFolders: [{ uri: vscode.Uri.file(folder), name: "folder" }] });
  const stored = new Map();
  const secrets = {
    get: async (name) => stored.get(name),
    store: async (name, value) => void stored.set(name, value),
    delete: async (name) => void stored.delete(name),
    onDidChange: () => ({ dispose() {} }),
  };
  const logs = join(folder, "logs");
  const subscriptions = [];
  activate({ subscriptions, secrets, extensionUri: vscode.Uri.file("/extension"), logUri: vscode.Uri.file(logs) });
  const key = () => stored.get(`tieline.key ${url}`);
  return {
    folder,
    log: () => readFileSync(join(logs, "gateway.log"), "utf8"),
    api: () => new GatewayApi({ base: url, key: key() }),
    key,
    run: (command) => editor.registered.get(`tieline.${command}`)(),
    status: () => editor.providers.get("tieline.status"),
    close: () => subscriptions.forEach((one) => one.dispose()),
  };
}

test("a window starts a gateway for its folder, registers it, restarts and stops the gateway", async () => {
  const window = await open();
  await until(() => window.status()?.tooltip === "Connected");
  assert.match(window.log(), new RegExp(`--exit-when-idle 30 --config ${window.folder}/tieline.toml`));
  await until(() => editor.providers.get("tieline.autonomy").text === "$(shield) Asks First");
  const { workspaces } = await window.api().get("/api/workspaces");
  assert.deepEqual(
    workspaces.map(({ path }) => path),
    [window.folder],
  );
  assert.equal(window.key().length, 43);

  await window.run("restartGateway");
  await until(() => window.status()?.tooltip === "Connected");
  let again = [];
  await until(
    () => (
      window
        .api()
        .get("/api/workspaces")
        .then((got) => (again = got.workspaces)),
      again.length === 1
    ),
  );

  await window.run("stopGateway");
  assert.equal(window.status().tooltip, "The gateway was stopped.");
  await assert.rejects(window.api().get("/api/workspaces"), /Cannot reach the gateway/);
  assert.deepEqual(editor.messages, []);
  window.close();
});

test("no gateway is started for a folder that is not trusted", async () => {
  const window = await open({ isTrusted: false });
  await until(() => /None is started for a folder that you have not trusted/.test(window.status()?.tooltip ?? ""));
  assert.equal(window.key(), undefined);
  window.close();
});

test("a program that is missing is reported once, with the way to install it", async () => {
  const window = await open();
  editor.settings.command = "/no/such/tieline";
  await window.run("connect");
  await until(() => editor.messages.length > 0);
  assert.match(editor.messages[0].text, /^Tieline: The program “\/no\/such\/tieline” was not found\. Install it/);
  assert.deepEqual(editor.messages[0].buttons, ["Show Log"]);
  window.close();
});
