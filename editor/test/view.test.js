"use strict";

const assert = require("node:assert/strict");
const { beforeEach, test } = require("node:test");
const { editor, vscode } = require("./support/vscode");
const { ChatCommands, selectionText } = require("../src/chat-commands");
const { PageRequests, externalUrl } = require("../src/page-requests");
const { mainText } = require("../src/status-bar");
const { ChatView, framePage, noticePage, readOrigins } = require("../src/view");
const { forWorkspace } = require("../src/vscode-chat");

const PARTS = {
  nonce: "n0nce",
  source: "https://webview",
  script: "https://webview/view.js",
  style: "https://webview/view.css",
};
const policyOf = (html) => /Content-Security-Policy" content="([^"]+)"/.exec(html)[1].replaceAll("&#39;", "'");
const settled = () => new Promise((resolve) => setTimeout(resolve, 5));

beforeEach(() => editor.reset());

/** A view on a gateway that answers every request. */
function opened() {
  const posts = [];
  const api = {
    base: "http://127.0.0.1:1",
    post: async (path, body) => (posts.push([path, body]), { path: "/embed/t0ken" }),
  };
  const connection = { state: "connected", reason: "", api };
  const workspaces = {
    current: { name: "one", path: "/home/me/one", folder: { name: "one", uri: vscode.Uri.file("/home/me/one") } },
  };
  const got = [];
  const view = new ChatView(
    vscode.Uri.file("/extension"),
    connection,
    workspaces,
    (message) => got.push(message),
    () => {},
  );
  const sent = [];
  const pages = [];
  let receive;
  const webview = {
    cspSource: "https://webview",
    asWebviewUri: (uri) => uri,
    onDidReceiveMessage: (listener) => (receive = listener),
    postMessage: async (message) => void sent.push(message),
    set html(html) {
      pages.push(html);
    },
  };
  view.resolveWebviewView({ webview, onDidDispose() {} });
  return { view, connection, workspaces, posts, got, sent, pages, receive: (message) => receive(message) };
}

test("the page is framed with a new token for each load, limited to the windows around it", async () => {
  const { posts, sent, pages, receive } = opened();
  await settled();
  assert.match(policyOf(pages[0]), /frame-src http:\/\/127.0.0.1:1;/);
  receive({
    type: "origins",
    origins: ["vscode-webview://id", "vscode-file://vscode-app", "vscode-webview://id", "x y"],
  });
  await settled();
  assert.deepEqual(posts, [
    ["/api/embed", { ancestors: ["vscode-webview://id", "vscode-file://vscode-app"], workspace: "one" }],
  ]);
  assert.deepEqual(sent, [{ type: "embed", path: "/embed/t0ken" }]);
});

test("messages wait until the page is ready", async () => {
  const { view, sent, got, receive } = opened();
  await settled();
  view.send({ type: "insert", text: "a" });
  assert.deepEqual(sent, []);
  receive({ type: "page", message: { type: "ready" } });
  view.send({ type: "focus" });
  assert.deepEqual(
    sent.map(({ message }) => message.type),
    ["insert", "focus"],
  );
  assert.deepEqual(got, [{ type: "ready" }]);
});

test("messages wait while the webview loads the page again", async () => {
  const { view, sent, receive } = opened();
  await settled();
  receive({ type: "page", message: { type: "ready" } });
  receive({ type: "origins", origins: ["vscode-webview://id"] });
  view.send({ type: "insert", text: "a" });
  await settled();
  assert.deepEqual(sent, [{ type: "embed", path: "/embed/t0ken" }]);
  receive({ type: "page", message: { type: "ready" } });
  assert.deepEqual(sent.at(-1), { type: "page", message: { type: "insert", text: "a" } });
});

test("a page that the gateway refuses is loaded again after the next change", async () => {
  const { view, connection, sent, pages, receive } = opened();
  await settled();
  const { post } = connection.api;
  connection.api.post = () => Promise.reject(new Error("no workspace one"));
  receive({ type: "origins", origins: ["vscode-webview://id"] });
  await settled();
  assert.deepEqual(sent, [{ type: "problem", text: "The page cannot be shown: no workspace one" }]);
  connection.api.post = post;
  await view.update();
  assert.equal(pages.length, 2);
  receive({ type: "origins", origins: ["vscode-webview://id"] });
  await settled();
  assert.deepEqual(sent.at(-1), { type: "embed", path: "/embed/t0ken" });
});

test("a failure of a page that is no longer shown does not replace what is shown", async () => {
  const { view, connection, sent, pages, receive } = opened();
  await settled();
  let fail;
  connection.api.post = () => new Promise((_, reject) => (fail = reject));
  receive({ type: "origins", origins: ["vscode-webview://id"] });
  Object.assign(connection, { state: "searching", api: null });
  await view.update();
  fail(new Error("Cannot reach the gateway."));
  await settled();
  assert.match(pages[1], /Looking for the gateway/);
  assert.deepEqual(sent, []);
});

test("a webview that loads while the gateway is away says so", async () => {
  const { connection, pages, receive } = opened();
  await settled();
  Object.assign(connection, { state: "waiting", reason: "The gateway stopped.", api: null });
  receive({ type: "origins", origins: ["vscode-webview://id"] });
  await settled();
  assert.match(pages.at(-1), /The gateway stopped\./);
});

test("a connection that is lost while the page's address is looked up is shown", async (context) => {
  let found;
  context.mock.method(vscode.env, "asExternalUri", () => new Promise((resolve) => (found = resolve)));
  const { view, connection, pages } = opened();
  const { api } = connection;
  Object.assign(connection, { state: "locked", reason: "It needs its key.", api: null });
  await view.update();
  found(vscode.Uri.parse(api.base));
  await settled();
  assert.equal(pages.length, 1);
  assert.match(pages[0], /It needs its key\./);
});

test("a short interruption leaves the page alone, a wrong key replaces it", async () => {
  const { view, connection, pages, receive } = opened();
  await settled();
  receive({ type: "page", message: { type: "ready" } });
  for (const state of ["searching", "waiting", "starting", "connected"]) {
    connection.state = state;
    await view.update();
  }
  assert.equal(pages.length, 1);
  Object.assign(connection, { state: "locked", reason: "It needs its <key>." });
  await view.update();
  assert.match(pages[1], /It needs its &#60;key&#62;\..*data-command="tieline.setKey"/s);
});

test("the webview may run only the commands of its buttons", async () => {
  const { receive } = opened();
  receive({ type: "command", command: "workbench.action.quit" });
  receive({ type: "command", command: "tieline.showLog" });
  assert.deepEqual(editor.executed, [["tieline.showLog"]]);
});

test("the policies of the webview allow its own script, style and frame, and nothing else", () => {
  const framed = policyOf(framePage(PARTS, "https://host:8/base"));
  const own = "style-src https://webview; script-src 'nonce-n0nce'";
  assert.equal(framed, `default-src 'none'; frame-src https://host:8; ${own}`);
  assert.equal(policyOf(noticePage(PARTS, { text: "", buttons: [] })), `default-src 'none'; frame-src 'none'; ${own}`);
  assert.ok(!noticePage(PARTS, { text: "<img src=x onerror=y>", buttons: [] }).includes("<img"));
});

test("only origins are reported as those of the windows", () => {
  assert.deepEqual(readOrigins(["https://a:1", "*", "https://a/b", 7, "null", "vscode-webview://x"]), [
    "https://a:1",
    "vscode-webview://x",
  ]);
  assert.equal(readOrigins(Array.from({ length: 20 }, (_, at) => `https://h${at}`)).length, 8);
});

test("the page can open web pages and its own paths, but run nothing", () => {
  const base = "http://127.0.0.1:1";
  assert.equal(externalUrl("/traffic", base), "http://127.0.0.1:1/traffic");
  assert.equal(externalUrl("https://example.org/a", base), "https://example.org/a");
  for (const path of [
    "command:x",
    "file:///etc/passwd",
    "vscode://x/y",
    "//evil.example",
    "/\\evil",
    "",
    7,
    "javascript:1",
  ])
    assert.equal(externalUrl(path, base), null, String(path));
});

test("the page can open files of its folder only", async () => {
  const folder = { uri: vscode.Uri.file("/home/me/one") };
  const workspaces = { current: { path: "/home/me/one", realPath: "/private/me/one", folder } };
  const requests = new PageRequests(workspaces, { api: null }, { put() {}, compare() {} });
  await requests.handle({ type: "openFile", path: "src/a.py", line: 3 });
  await requests.handle({ type: "openFile", path: "/private/me/one/b.py" });
  await requests.handle({ type: "openFile", path: "../secret" });
  assert.deepEqual(editor.shown.map(String), ["file:///home/me/one/src/a.py", "file:///home/me/one/b.py"]);
  assert.equal(editor.messages[0].text, "../secret is not in the folder of this chat.");
});

test("files that a message cannot take are reported", async () => {
  const sent = [];
  const folder = { uri: vscode.Uri.file("/home/me/one") };
  const commands = new ChatCommands({ open() {}, send: (message) => sent.push(message) }, { current: { folder } });
  const uris = Array.from({ length: 21 }, (_, at) => vscode.Uri.file(`/home/me/one/${at}`));
  await commands.addFiles(uris[0], uris);
  assert.equal(sent[0].files.length, 20);
  assert.deepEqual(
    editor.messages.map(({ text }) => text),
    ["Only the first 20 files were added: a message takes no more."],
  );
});

test("a selection is quoted with a fence that it cannot leave", () => {
  const text = selectionText({ path: "a.md", first: 2, last: 4, text: "```js\nx\n```", language: "markdown" });
  assert.equal(text, "`a.md`, lines 2–4:\n\n````markdown\n```js\nx\n```\n````\n\n");
  const huge = selectionText({ path: "a", first: 1, last: 1, text: "x".repeat(100_000), language: "" });
  assert.ok(huge.length < 21_000);
  assert.match(huge, /\n…\n```/);
});

test("the status bar says what waits, or what is wrong", () => {
  const facts = { state: "connected", reason: "", waiting: 0, isQuiet: false };
  assert.deepEqual(mainText({ ...facts, waiting: 1000 }), {
    text: "$(bell-dot) Tieline: 1000",
    tooltip: "1,000 items waiting for you",
    color: "warning",
  });
  assert.equal(mainText({ ...facts, state: "failed", reason: "why" }).tooltip, "why");
  assert.equal(mainText(facts).tooltip, "Connected");
});

test("settings for VS Code's chat name the folder only for agents", () => {
  const [address, workspace] = ["http://g", "w-1"];
  const text = '"url": "http://g/v1/chat/completions"';
  assert.equal(forWorkspace(text, { address, workspace, model: "openai/x" }), text);
  assert.equal(
    forWorkspace(text, { address, workspace, model: "acp/claude" }),
    '"url": "http://g/workspaces/w-1/v1/chat/completions"',
  );
});
