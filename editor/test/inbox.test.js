"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const { GatewayApi } = require("../src/api");
const { Inbox } = require("../src/inbox");
const { ItemQueue } = require("../src/queue");
const { pathOf, Workspaces } = require("../src/workspaces");
const { serve } = require("./support/gateway");

const folder = (path) => ({ name: path.split("/").pop(), uri: uri(path) });
const uri = (path, scheme = "file", authority = "") => ({
  scheme,
  authority,
  path,
  fsPath: path,
  toString: () => `${scheme}://${authority}${path}`,
});
const ITEM = { id: "1", origin: { client: "test" }, ask: { type: "permission", title: "t" } };

async function opened({ folders = [folder("/home/me/one")], isTrusted = true, autonomy = "" } = {}) {
  const gateway = await serve();
  let losses = 0;
  const connection = { api: new GatewayApi({ base: gateway.base }), lost: () => (losses += 1) };
  const host = {
    folders: () => folders,
    isTrusted: () => isTrusted,
    mapped: () => ({}),
    autonomy: () => autonomy,
    log: () => {},
  };
  const workspaces = new Workspaces(connection, host);
  const queue = new ItemQueue();
  const inbox = new Inbox(connection, workspaces, queue, () => {});
  await workspaces.sync();
  inbox.sync();
  const close = async () => {
    inbox.close();
    await gateway.close();
  };
  return { gateway, connection, workspaces, queue, inbox, close, losses: () => losses };
}

/** Wait until a condition holds after a change of the queue. */
function until(queue, condition) {
  return new Promise((resolve) => {
    const check = () => condition() && (off(), resolve());
    const off = queue.onChange(check);
    check();
  });
}

test("items of a workspace arrive and are answered", async () => {
  const { gateway, queue, inbox, close } = await opened();
  gateway.state.items = [ITEM];
  gateway.publish();
  await until(queue, () => queue.items.length === 1);
  const [item] = queue.items;
  assert.deepEqual(await inbox.answer(item, { option: "deny" }), { outcome: "accepted", message: "", param: null });
  assert.deepEqual(gateway.state.answers, [{ id: "1", body: { option: "deny" } }]);
  assert.deepEqual(queue.items, []);
  const sent = gateway.state.requests.find(({ path }) => path === "/api/inbox/1");
  assert.equal(sent.headers["x-tieline-workspace"], "one");
  await close();
});

test("a late answer is recognised", async () => {
  const { gateway, queue, inbox, close } = await opened();
  gateway.state.items = [ITEM];
  gateway.publish();
  await until(queue, () => queue.items.length === 1);
  const [item] = queue.items;
  gateway.state.items = [];
  assert.equal((await inbox.answer(item, { option: "allow" })).outcome, "late");
  assert.equal((await inbox.answer(item, { option: "allow" })).outcome, "late");
  assert.deepEqual(queue.items, []);
  await close();
});

test("an item that is answered elsewhere disappears", async () => {
  const { gateway, queue, close } = await opened();
  gateway.state.items = [ITEM];
  gateway.publish();
  await until(queue, () => queue.items.length === 1);
  gateway.state.items = [];
  gateway.publish();
  await until(queue, () => queue.items.length === 0);
  await close();
});

test("nothing is decided while the gateway is away", async () => {
  const { connection, inbox, queue, close } = await opened();
  queue.update("one", [{ ...ITEM, workspace: "one" }]);
  connection.api = null;
  assert.equal((await inbox.answer({ ...ITEM, workspace: "one" }, { option: "allow" })).outcome, "refused");
  inbox.sync();
  assert.equal(queue.items.length, 1, "the item stays until the gateway is back");
  await close();
});

test("a lost stream is reported", async () => {
  const { gateway, queue, losses, close } = await opened();
  gateway.state.items = [ITEM];
  gateway.publish();
  await until(queue, () => queue.items.length === 1);
  await gateway.close();
  while (losses() === 0) await new Promise((resolve) => setImmediate(resolve));
  await close();
});

test("every folder of a window is a workspace", async () => {
  const { gateway, workspaces, close } = await opened({
    folders: [folder("/home/me/one"), folder("/home/me/two")],
    autonomy: "edits",
  });
  assert.deepEqual(
    workspaces.registered.map(({ name, autonomy }) => [name, autonomy]),
    [
      ["one", "edits"],
      ["two", "edits"],
    ],
  );
  assert.equal(workspaces.current.name, "one");
  workspaces.choose(workspaces.all[1].folder);
  assert.equal(workspaces.current.name, "two");
  await workspaces.setAutonomy(workspaces.current, "all");
  assert.equal(gateway.state.workspaces.get("two").autonomy, "all");
  await workspaces.sync();
  assert.equal(workspaces.current.autonomy, "all", "it is kept when the folder is registered again");
  await close();
});

test("a setting that is removed means asking again", async () => {
  const folders = [folder("/home/me/one")];
  const gateway = await serve();
  let autonomy = "all";
  const host = {
    folders: () => folders,
    isTrusted: () => true,
    mapped: () => ({}),
    autonomy: () => autonomy,
    log: () => {},
  };
  const workspaces = new Workspaces({ api: new GatewayApi({ base: gateway.base }) }, host);
  await workspaces.sync();
  assert.equal(gateway.state.workspaces.get("one").autonomy, "all");
  autonomy = "";
  await workspaces.sync();
  assert.equal(gateway.state.workspaces.get("one").autonomy, "ask");
  await gateway.close();
});

test("a changed autonomy is shown even if the folder was registered again meanwhile", async () => {
  const { workspaces, close } = await opened();
  const chosen = workspaces.current;
  await workspaces.sync();
  await workspaces.setAutonomy(chosen, "all");
  assert.equal(workspaces.current.autonomy, "all");
  await close();
});

test("a folder keeps its name while the gateway is away, so that the view keeps its page", async () => {
  const { connection, workspaces, close } = await opened();
  connection.api = null;
  await workspaces.sync();
  assert.equal(workspaces.current.name, "one");
  await close();
});

test("a folder that is not trusted is not registered", async () => {
  const { gateway, workspaces, close } = await opened({ isTrusted: false });
  assert.equal(workspaces.current.name, "");
  assert.equal(gateway.state.workspaces.size, 0);
  assert.equal(gateway.state.watchers.size, 0);
  await close();
});

test("a folder has a path on the gateway's machine, or none", () => {
  assert.equal(pathOf(uri("/a"), {}), "/a");
  assert.equal(pathOf(uri("/a", "memfs"), {}), "/a");
  assert.equal(pathOf(uri("/a", "vscode-vfs", "github"), {}), null);
  assert.equal(pathOf(uri("/a", "vscode-vfs", "github"), { "vscode-vfs://github/a": "/home/me/a" }), "/home/me/a");
});
