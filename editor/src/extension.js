// The entry of the extension: creates the parts, connects them, and registers the commands.

"use strict";

const vscode = require("vscode");
const { GatewayApi } = require("./api");
const { changeAutonomy } = require("./autonomy");
const { ChatCommands } = require("./chat-commands");
const { Connection } = require("./connection");
const { Desk, send } = require("./desk");
const { Documents, ITEM_SCHEME, itemOf } = require("./documents");
const { GatewayHost } = require("./gateway-host");
const { sayHello } = require("./hello");
const { Inbox } = require("./inbox");
const { Keys } = require("./keys");
const { PageRequests } = require("./page-requests");
const { PermissionDialog } = require("./permission");
const { PlanProgress } = require("./plan-progress");
const { Plans } = require("./plans");
const { QuestionDialog } = require("./question");
const { ItemQueue } = require("./queue");
const { settings } = require("./settings");
const { StatusBar } = require("./status-bar");
const { TunnelPanel } = require("./tunnel");
const { label } = require("./text");
const { ChatView } = require("./view");
const { useInVsCode } = require("./vscode-chat");
const { Workspaces } = require("./workspaces");

/** Wait, without keeping Node alive for that alone. @param {number} length @returns {Promise<void>} */
const pause = (length) => new Promise((resolve) => /** @type {any} */ (setTimeout(resolve, length)).unref?.());

/** @param {vscode.ExtensionContext} context */
function activate(context) {
  const window = new WindowParts(context);
  context.subscriptions.push(window);
  window.start();
}

function deactivate() {
  // Everything is in the context's subscriptions. A gateway that this window has started exits when no window uses it
  // any more.
}

/** Everything that belongs to one window of the editor. */
class WindowParts {
  #context;
  #output = vscode.window.createOutputChannel("Tieline");
  #log = (/** @type {string} */ text) => this.#output.appendLine(`${new Date().toISOString()} ${text}`);
  /** Whether the user does not want to be disturbed in this window; undefined if the setting decides. */
  #quiet = /** @type {boolean | undefined} */ (undefined);
  #isQuiet = () => this.#quiet ?? settings.isQuiet;
  #isDisposed = false;
  /** The problem of the connection that was reported last. */
  #reported = "";

  /** @param {vscode.ExtensionContext} context */
  constructor(context) {
    this.#context = context;
    this.keys = new Keys(context.secrets, pause);
    this.host = new GatewayHost(context.logUri);
    this.connection = new Connection({
      address: () => settings.address,
      look: (base) => sayHello(base),
      start: (key) => this.host.start(key),
      cannotStart: () => this.host.cannotStart(),
      keys: this.keys,
      api: (base, key) => new GatewayApi({ base, key }),
      log: this.#log,
      pause,
      now: Date.now,
    });
    this.workspaces = new Workspaces(this.connection, {
      folders: () => [...(vscode.workspace.workspaceFolders ?? [])],
      isTrusted: () => vscode.workspace.isTrusted,
      mapped: () => settings.folders,
      autonomy: () => settings.autonomy,
      log: this.#log,
    });
    this.queue = new ItemQueue();
    this.inbox = new Inbox(this.connection, this.workspaces, this.queue, this.#log);
    this.documents = new Documents();
    this.progress = new PlanProgress(this.connection, (session, entries) => this.#onSteps(session, entries), pause);
    this.plans = new Plans(
      this.documents,
      this.queue,
      (item, body) => send(this.inbox, item, body),
      (workspace, session) => this.progress.follow(workspace, session),
    );
    const dialogs = {
      permission: new PermissionDialog(this.documents),
      form: new QuestionDialog(this.documents, this.workspaces),
    };
    const plans = {
      show: (/** @type {import("./items").Item} */ item) => this.plans.show(item).then(() => this.#refresh()),
    };
    this.desk = new Desk(this.queue, this.inbox, dialogs, plans, this.#isQuiet);
    const requests = new PageRequests(this.workspaces, this.connection, this.documents);
    this.view = new ChatView(
      context.extensionUri,
      this.connection,
      this.workspaces,
      (message) => void requests.handle(message),
      this.#log,
    );
    this.chat = new ChatCommands(this.view, this.workspaces);
    this.tunnel = new TunnelPanel(this.#log);
    this.status = new StatusBar();
  }

  start() {
    const { subscriptions } = this.#context;
    this.connection.onChange(() => void this.workspaces.sync());
    this.connection.onChange(() => this.#refresh());
    this.connection.onChange(() => void this.#reportProblem());
    this.workspaces.onChange(() => this.inbox.sync());
    this.workspaces.onChange(() => this.#refresh());
    this.queue.onChange(() => this.#onQueue());
    subscriptions.push(
      this.documents.register(),
      vscode.languages.registerCodeLensProvider({ scheme: ITEM_SCHEME }, this.plans),
      vscode.window.registerWebviewViewProvider("tieline.chat", this.view, {
        webviewOptions: { retainContextWhenHidden: true },
      }),
      vscode.workspace.onDidChangeWorkspaceFolders(() => void this.workspaces.sync()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.connection.connect()),
      vscode.workspace.onDidChangeConfiguration((event) => this.#onSettings(event)),
      this.#context.secrets.onDidChange(() => {
        if (this.connection.state === "locked") this.connection.connect();
      }),
      ...Object.entries(this.#commands()).map(([name, run]) => vscode.commands.registerCommand(`tieline.${name}`, run)),
    );
    this.connection.connect();
  }

  dispose() {
    this.#isDisposed = true;
    this.connection.disconnect();
    this.inbox.close();
    this.progress.dispose();
    this.tunnel.dispose();
    this.status.dispose();
    this.#output.dispose();
  }

  /** @returns {Record<string, (...args: any[]) => unknown>} */
  #commands() {
    return {
      open: () => this.view.open(),
      reloadView: () => this.view.reload(),
      askSelection: () => this.chat.askSelection(),
      addFile: (uri, selected) => this.chat.addFiles(uri, selected),
      chooseFolder: () => this.chat.chooseFolder(),
      showWaiting: () => this.desk.list(),
      showStatus: () => this.#showStatus(),
      showPlan: () => this.plans.showLatest(),
      showLog: () => this.#output.show(),
      decide: (which) => this.#decide(which),
      approvePlan: (which) => this.plans.approve(which),
      rejectPlan: (which) => this.plans.reject(which),
      connect: () => {
        this.host.want();
        this.connection.connect({ isAsked: true });
      },
      restartGateway: () => this.#attempt(() => this.connection.restart()),
      stopGateway: () => this.#attempt(() => this.connection.stop()),
      setKey: () => this.#setKey(),
      copyKey: () => this.#copyKey(),
      openTerminal: () => this.#openTerminal(),
      setAutonomy: () => changeAutonomy(this.workspaces),
      toggleDoNotDisturb: () => this.#toggleQuiet(),
      useInCursor: () => this.tunnel.open(),
      stopTunnel: () => this.tunnel.stop(),
      useInVsCode: () => this.#attempt(() => useInVsCode(this.connection, this.workspaces, this.keys, this.documents)),
    };
  }

  #onQueue() {
    this.plans.update();
    this.plans.refresh();
    this.#refresh();
    for (const id of this.#open) if (this.queue.state(id) === "gone") this.#closeDocuments(id);
    for (const { id, ask } of this.queue.items) if (ask.type !== "plan_review") this.#open.add(id);
    void this.desk.announce();
  }

  /** Items whose documents are closed when they are gone. @type {Set<string>} */
  #open = new Set();

  /** @param {string} id */
  #closeDocuments(id) {
    this.#open.delete(id);
    void this.documents.close(ITEM_SCHEME, id);
  }

  /** @param {string} session @param {unknown} entries */
  #onSteps(session, entries) {
    this.plans.setSteps(session, entries);
    this.#refresh();
  }

  #refresh() {
    if (this.#isDisposed) return;
    const { state, reason } = this.connection;
    const { current } = this.workspaces;
    const autonomy = current?.name ? current.autonomy : null;
    // While the gateway is away, items cannot be answered. The listing after the reconnect contains those that remain.
    const waiting = state === "connected" ? this.queue.items.length : 0;
    this.status.update({ state, reason, waiting, isQuiet: this.#isQuiet(), autonomy });
    this.status.showPlan(this.plans.progress);
    void this.view.update();
  }

  /** Show the waiting items, or the chat if there are none. Without a connection, show the reason. */
  async #showStatus() {
    const { state, reason } = this.connection;
    if (state === "connected") return this.queue.items.length ? this.desk.list() : this.view.open();
    if (state === "locked") return this.#setKey();
    const text = label(reason || "Tieline is not connected to a gateway.", 400);
    const chosen = await vscode.window.showInformationMessage(text, "Connect", "Show Log");
    if (chosen === "Connect") await vscode.commands.executeCommand("tieline.connect");
    if (chosen === "Show Log") this.#output.show();
  }

  /** @param {vscode.Uri | string | undefined} which */
  async #decide(which) {
    const id = typeof which === "string" ? which : itemOf(which ?? vscode.window.activeTextEditor?.document.uri);
    if (id) await this.desk.show(id);
  }

  async #setKey() {
    const { origin } = settings.address;
    const key = await vscode.window.showInputBox({
      title: `The key of the gateway at ${origin}`,
      prompt: "The value of TIELINE_KEY. It is kept in the editor's secret storage. An empty value deletes it.",
      password: true,
      ignoreFocusOut: true,
      validateInput: (text) =>
        /^[\x21-\x7e]*$/.test(text.trim()) ? undefined : "A key has only ASCII characters, and no spaces.",
    });
    if (key === undefined) return;
    await this.keys.set(origin, key.trim());
    this.connection.connect();
  }

  async #copyKey() {
    const key = await this.keys.get(settings.address.origin);
    if (!key) return void vscode.window.showInformationMessage("No key is stored for this gateway.");
    await vscode.env.clipboard.writeText(key);
    void vscode.window.setStatusBarMessage("Copied the gateway's key", 4000);
  }

  /** Open a terminal in which clients, such as `tieline run claude`, find the gateway's key. */
  async #openTerminal() {
    const key = await this.keys.get(settings.address.origin);
    const { current } = this.workspaces;
    const cwd = current?.folder.uri.scheme === "file" ? current.folder.uri : undefined;
    vscode.window.createTerminal({ name: "Tieline", cwd, env: key ? { TIELINE_KEY: key } : {} }).show();
  }

  /** Report a problem that only the user can solve, once. */
  async #reportProblem() {
    const { state, reason } = this.connection;
    if (state === "connected") this.#reported = "";
    if ((state !== "locked" && state !== "failed") || reason === this.#reported || this.#isQuiet()) return;
    this.#reported = reason;
    const button = state === "locked" ? "Enter Key" : "Show Log";
    const chosen = await vscode.window.showWarningMessage(`Tieline: ${label(reason, 400)}`, button);
    if (chosen === "Enter Key") await this.#setKey();
    else if (chosen) this.#output.show();
  }

  #toggleQuiet() {
    this.#quiet = !this.#isQuiet();
    this.#refresh();
    void this.desk.announce();
    const text = this.#quiet
      ? "Tieline only counts waiting items in the status bar."
      : "Tieline shows notifications again.";
    void vscode.window.setStatusBarMessage(text, 4000);
  }

  /** @param {vscode.ConfigurationChangeEvent} event */
  #onSettings(event) {
    if (["url", "command", "startGateway"].some((name) => event.affectsConfiguration(`tieline.${name}`)))
      this.connection.connect();
    else if (event.affectsConfiguration("tieline")) void this.workspaces.sync();
  }

  /** @param {() => Promise<void>} act */
  async #attempt(act) {
    try {
      await act();
    } catch (error) {
      void vscode.window.showErrorMessage(label(error instanceof Error ? error.message : error, 300));
    }
  }
}

module.exports = { activate, deactivate };
