// The view with the gateway's page. A webview frames the page and passes messages between it and the extension.

"use strict";

const vscode = require("vscode");
const { randomKey } = require("./node");
const { label } = require("./text");

const MOST_WAITING = 20; // messages for a page that is not ready yet
const MOST_ORIGINS = 8;

/** @typedef {{type: string, [name: string]: unknown}} Message */

/** @implements {vscode.WebviewViewProvider} */
class ChatView {
  #root;
  #connection;
  #workspaces;
  #onMessage;
  #log;
  /** @type {vscode.WebviewView | null} */
  #view = null;
  /** What the webview shows: the gateway's address and workspace, or the text of a notice. */
  #shown = "";
  /** Where the webview, which may be on another machine, reaches the gateway. */
  #external = /** @type {{base: string, address: string} | null} */ (null);
  /** The gateway's client when the page or the notice was shown. @type {import("./api").GatewayApi | null} */
  #api = null;
  #isReady = false;
  /** @type {Message[]} */
  #waiting = [];

  /**
   * @param {vscode.Uri} root the extension's folder
   * @param {import("./connection").Connection} connection
   * @param {import("./workspaces").Workspaces} workspaces
   * @param {(message: Message) => void} onMessage called with messages from the page
   * @param {(text: string) => void} log
   */
  constructor(root, connection, workspaces, onMessage, log) {
    this.#root = root;
    this.#connection = connection;
    this.#workspaces = workspaces;
    this.#onMessage = onMessage;
    this.#log = log;
  }

  /** @param {vscode.WebviewView} view */
  resolveWebviewView(view) {
    this.#view = view;
    this.#shown = "";
    const media = vscode.Uri.joinPath(this.#root, "media");
    view.webview.options = { enableScripts: true, localResourceRoots: [media] };
    view.webview.onDidReceiveMessage((message) => this.#receive(message));
    view.onDidDispose(() => {
      this.#view = null;
      this.#isReady = false;
    });
    void this.update();
  }

  /** Send a message to the page, now or as soon as it is ready. @param {Message} message */
  send(message) {
    if (this.#isReady) void this.#view?.webview.postMessage({ type: "page", message });
    else if (this.#waiting.length < MOST_WAITING) this.#waiting.push(message);
  }

  /** Open the view. */
  async open() {
    await vscode.commands.executeCommand("tieline.chat.focus");
  }

  /** Load the page again. */
  reload() {
    this.#shown = "";
    this.#external = null;
    void this.update();
  }

  /**
   * Show the page, or a notice that says why there is none. Nothing changes if it is shown already.
   * @returns {Promise<void>}
   */
  async update() {
    const view = this.#view;
    if (!view) return;
    view.description = label(this.#workspaces.current?.folder.name ?? "", 60);
    const notice = this.#notice();
    // The page shows a short interruption itself, and keeps what the user has typed.
    if (this.#isReady && ["searching", "starting", "waiting"].includes(this.#connection.state)) return;
    if (notice) return this.#show(view, JSON.stringify(notice), () => noticePage(this.#parts(view), notice));
    const { api } = this.#connection;
    if (!api) return;
    if (this.#external?.base !== api.base) {
      const uri = await vscode.env.asExternalUri(vscode.Uri.parse(api.base, true));
      this.#external = { base: api.base, address: uri.toString(true).replace(/\/+$/, "") };
      return this.update(); // the connection may have changed meanwhile
    }
    const { address } = this.#external;
    const name = this.#workspaces.current?.name ?? "";
    this.#show(view, `${address} ${name}`, () => framePage(this.#parts(view), address));
  }

  /** @param {vscode.WebviewView} view @param {string} shown @param {() => string} html */
  #show(view, shown, html) {
    const { api } = this.#connection;
    // A page that did not load is loaded again after a reconnect.
    if (this.#shown === shown && (this.#isReady || this.#api === api)) return;
    this.#shown = shown;
    this.#api = api;
    this.#isReady = false;
    view.webview.html = html();
  }

  /** Return the notice to show instead of the page; null if the page can be shown. */
  #notice() {
    const { state, reason } = this.#connection;
    const { current } = this.#workspaces;
    const link = state === "connected" ? "The gateway is connected." : "";
    if (!vscode.workspace.isTrusted)
      return {
        text: `You have not trusted this folder, so Tieline does not work in it. ${link}`,
        buttons: [{ command: "workbench.trust.manage", title: "Manage Workspace Trust" }],
      };
    switch (state) {
      case "connected":
        if (current && !current.name) return { text: current.problem || "Registering this folder …", buttons: [RETRY] };
        return null;
      case "locked":
        return { text: reason, buttons: [{ command: "tieline.setKey", title: "Enter the Key" }, RETRY] };
      case "failed":
      case "off":
      case "waiting":
        return { text: reason || "The gateway is not connected.", buttons: [START, LOG] };
      case "starting":
        return { text: "Starting the gateway …", buttons: [] };
      default:
        return { text: "Looking for the gateway …", buttons: [] };
    }
  }

  /** @param {vscode.WebviewView} view */
  #parts({ webview }) {
    const file = (/** @type {string} */ name) =>
      webview.asWebviewUri(vscode.Uri.joinPath(this.#root, "media", name)).toString();
    return { nonce: randomKey(), source: webview.cspSource, script: file("view.js"), style: file("view.css") };
  }

  /** @param {any} message */
  #receive(message) {
    switch (message?.type) {
      case "origins":
        this.#isReady = false; // the webview has loaded its script, perhaps again
        return void this.#embed(readOrigins(message.origins));
      case "page":
        return this.#fromPage(message.message);
      case "silent":
        return this.#log("The page in the view has not loaded yet.");
      case "reload":
        return this.reload();
      case "command":
        if (COMMANDS.includes(message.command)) void vscode.commands.executeCommand(message.command);
    }
  }

  /** Fetch a path for the frame. Each path works once. @param {string[]} ancestors */
  async #embed(ancestors) {
    const { api } = this.#connection;
    const view = this.#view;
    if (!view) return;
    if (!api) return this.update();
    const shown = this.#shown;
    try {
      const workspace = this.#workspaces.current?.name ?? "";
      const { path } = await api.post("/api/embed", { ancestors, workspace });
      if (shown === this.#shown && typeof path === "string" && path.startsWith("/"))
        void view.webview.postMessage({ type: "embed", path });
    } catch (error) {
      const text = error instanceof Error ? error.message : "";
      if (shown !== this.#shown) return;
      // The next change loads the page again. A restarted gateway, for example, does not know the folder at first.
      this.#shown = "";
      this.#log(`The page cannot be shown: ${text}`);
      void view.webview.postMessage({ type: "problem", text: `The page cannot be shown: ${label(text, 300)}` });
    }
  }

  /** @param {any} message */
  #fromPage(message) {
    if (message === null || typeof message !== "object") return;
    if (message.type === "ready") {
      this.#isReady = true;
      for (const waiting of this.#waiting.splice(0)) this.send(waiting);
    }
    this.#onMessage(message);
  }
}

const RETRY = { command: "tieline.connect", title: "Try Again" };
const START = { command: "tieline.connect", title: "Connect" };
const LOG = { command: "tieline.showLog", title: "Show Log" };
/** The commands that the buttons of a notice may run. */
const COMMANDS = ["workbench.trust.manage", "tieline.setKey", "tieline.connect", "tieline.showLog"];

/** Return the origins of the windows around the frame, the nearest first. @param {unknown} origins */
function readOrigins(origins) {
  const all = Array.isArray(origins) ? origins.filter((one) => /^[a-z][a-z0-9+.-]*:\/\/[^\s/]+$/i.test(one)) : [];
  return [...new Set(all)].slice(0, MOST_ORIGINS);
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);

/** @typedef {{nonce: string, source: string, script: string, style: string}} Parts */

/** @param {Parts} parts @param {string} frame @param {string} body */
function page({ nonce, source, script, style }, frame, body) {
  const policy = `default-src 'none'; frame-src ${frame || "'none'"}; style-src ${source}; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escaped(policy)}">
<link rel="stylesheet" href="${escaped(style)}">
<title>Tieline</title>
</head>
<body>
${body}
<script nonce="${nonce}" src="${escaped(script)}"></script>
</body>
</html>`;
}

/** @param {Parts} parts @param {string} address */
function framePage(parts, address) {
  const origin = new URL(address).origin;
  return page(parts, origin, `<main data-address="${escaped(address)}"><p role="status">Loading …</p></main>`);
}

/** @param {Parts} parts @param {{text: string, buttons: {command: string, title: string}[]}} notice */
function noticePage(parts, { text, buttons }) {
  const made = buttons.map(({ command, title }) => `<button data-command="${command}">${escaped(title)}</button>`);
  return page(parts, "", `<main><p role="status">${escaped(label(text, 600))}</p>${made.join("")}</main>`);
}

module.exports = { ChatView, readOrigins, framePage, noticePage };
