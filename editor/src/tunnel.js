// "Use in Cursor's Chat": opens a tunnel, shows what to enter in Cursor's settings, and reports the first request.

"use strict";

const vscode = require("vscode");
const { trustedConfig } = require("./gateway-host");
const { nodeModule } = require("./node");
const { settings } = require("./settings");
const { label } = require("./text");
const { TunnelProcess } = require("./tunnel-process");

const COPY = { iconPath: new vscode.ThemeIcon("copy"), tooltip: "Copy" };

class TunnelPanel {
  #log;
  #process;
  #hasRequest = false;
  /** @type {(() => void) | null} */
  #endProgress = null;

  /** @param {(text: string) => void} log */
  constructor(log) {
    this.#log = log;
    this.#process = new TunnelProcess({
      opened: () => this.#onOpened(),
      requested: (model, status) => this.#onRequest(model, status),
      closed: (reason) => this.#onClosed(reason),
    });
  }

  /** Open the tunnel after a confirmation, or show the values of the open one. */
  async open() {
    if (nodeModule("child_process") === null)
      return void vscode.window.showInformationMessage(
        "This editor runs in a browser and cannot start programs. Run “tieline tunnel” in a terminal instead.",
      );
    if (!vscode.workspace.isTrusted)
      return void vscode.window.showInformationMessage("Trust this folder first: the tunnel may use its tieline.toml.");
    if (this.#process.state === "open") return this.#show();
    if (this.#process.state === "opening" || !(await isConfirmed())) return;
    this.#hasRequest = false;
    this.#process.start(settings.command, await trustedConfig());
    this.#showProgress();
  }

  stop() {
    if (this.#process.state === "closed") return void vscode.window.showInformationMessage("No tunnel is open.");
    this.#process.stop();
  }

  dispose() {
    this.#process.stop();
  }

  #onOpened() {
    this.#endProgress?.();
    this.#show();
  }

  /** @param {string} model @param {number} status */
  #onRequest(model, status) {
    if (this.#hasRequest) return;
    this.#hasRequest = true;
    const outcome = status >= 400 ? `It failed with status ${status}.` : "It works.";
    void vscode.window.showInformationMessage(`Cursor's first request has arrived, for ${model}. ${outcome}`);
  }

  /** @param {string} reason */
  #onClosed(reason) {
    this.#endProgress?.();
    if (!reason) return void vscode.window.showInformationMessage("The tunnel is closed.");
    this.#log(`The tunnel is closed:\n${reason}`);
    void vscode.window.showErrorMessage(`The tunnel is closed: ${label(reason, 300)}`);
  }

  #showProgress() {
    const options = {
      location: vscode.ProgressLocation.Notification,
      title: "Opening the tunnel …",
      cancellable: true,
    };
    void vscode.window.withProgress(options, (_, cancelled) => {
      cancelled.onCancellationRequested(() => this.#process.stop());
      return new Promise((resolve) => (this.#endProgress = () => resolve(undefined)));
    });
  }

  /** Show the values, each with a button that copies it. */
  #show() {
    const { tunnel } = this.#process;
    if (!tunnel) return;
    const row = (/** @type {string} */ name, /** @type {string} */ value, isSecret = false) => ({
      label: name,
      description: isSecret ? `${value.slice(0, 4)}…` : label(value, 200),
      buttons: [COPY],
      value,
    });
    /** @type {vscode.QuickPick<vscode.QuickPickItem & {value?: string}>} */
    const control = vscode.window.createQuickPick();
    control.title = "Cursor: Settings → Models → API Keys";
    control.placeholder = "Enter copies a value. The tunnel stays open when you close this list.";
    control.ignoreFocusOut = true;
    control.items = [
      row("Override OpenAI Base URL", tunnel.url),
      row("OpenAI API Key", tunnel.key, true),
      ...tunnel.models.map((model) => row("Model", model)),
      { label: "$(debug-stop) Stop the Tunnel" },
    ];
    const copy = async (/** @type {string} */ value, /** @type {string} */ name) => {
      await vscode.env.clipboard.writeText(value);
      void vscode.window.setStatusBarMessage(`Copied: ${name}`, 3000);
    };
    control.onDidTriggerItemButton(({ item }) => item.value !== undefined && copy(item.value, item.label));
    control.onDidAccept(() => {
      const [chosen] = control.selectedItems;
      if (chosen?.value !== undefined) return void copy(chosen.value, chosen.label);
      if (chosen) this.#process.stop();
      control.hide();
    });
    control.onDidHide(() => control.dispose());
    control.show();
  }
}

async function isConfirmed() {
  const detail =
    "Cursor's servers call the models, so they must reach this machine: “tieline tunnel” opens a temporary public " +
    "address. Anyone with the address and its random key can use your models at your expense until you stop it.";
  const text = "Open a tunnel for Cursor's chat?";
  return (await vscode.window.showWarningMessage(text, { modal: true, detail }, "Open the Tunnel")) !== undefined;
}

module.exports = { TunnelPanel };
