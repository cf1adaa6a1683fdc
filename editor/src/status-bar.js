// The status bar: the connection and the number of waiting items, the autonomy, and the progress of a plan.

"use strict";

const vscode = require("vscode");
const { label, plural } = require("./text");

/** @type {Record<string, string>} */
const AUTONOMY_TEXTS = {
  ask: "$(shield) Asks First",
  edits: "$(edit) Edits Allowed",
  all: "$(warning) Everything Allowed",
};

/** @type {Record<string, string>} */
const AUTONOMY_HELP = {
  ask: "Everything that writes or runs needs your permission.",
  edits: "Files in the folder may be edited without asking. Commands need your permission.",
  all: "Everything is allowed without asking, including commands.",
};

/**
 * Return the text, tooltip and colour of the main item.
 * @param {{state: string, reason: string, waiting: number, isQuiet: boolean}} facts
 */
function mainText({ state, reason, waiting, isQuiet }) {
  const bell = isQuiet ? "$(bell-slash)" : "$(bell-dot)";
  if (waiting > 0)
    return {
      text: `${bell} Tieline: ${waiting}`,
      tooltip: `${plural(waiting, "item")} waiting for you`,
      color: "warning",
    };
  switch (state) {
    case "connected":
      return {
        text: `${isQuiet ? "$(bell-slash)" : "$(comment-discussion)"} Tieline`,
        tooltip: "Connected",
        color: "",
      };
    case "searching":
      return { text: "$(sync~spin) Tieline", tooltip: "Looking for the gateway", color: "" };
    case "starting":
      return { text: "$(sync~spin) Tieline", tooltip: "Starting the gateway", color: "" };
    case "locked":
      return { text: "$(key) Tieline", tooltip: reason, color: "warning" };
    case "failed":
      return { text: "$(error) Tieline", tooltip: reason, color: "warning" };
    default:
      return { text: "$(debug-disconnect) Tieline", tooltip: reason || "Not connected", color: "" };
  }
}

class StatusBar {
  #main = vscode.window.createStatusBarItem("tieline.status", vscode.StatusBarAlignment.Right, 101);
  #autonomy = vscode.window.createStatusBarItem("tieline.autonomy", vscode.StatusBarAlignment.Right, 100);
  #plan = vscode.window.createStatusBarItem("tieline.plan", vscode.StatusBarAlignment.Right, 99);

  constructor() {
    this.#main.name = "Tieline";
    this.#main.command = "tieline.showStatus";
    this.#autonomy.name = "Tieline: Autonomy";
    this.#autonomy.command = "tieline.setAutonomy";
    this.#plan.name = "Tieline: Plan";
    this.#plan.command = "tieline.showPlan";
  }

  dispose() {
    this.#main.dispose();
    this.#autonomy.dispose();
    this.#plan.dispose();
  }

  /** @param {{state: string, reason: string, waiting: number, isQuiet: boolean, autonomy: string | null}} facts */
  update(facts) {
    const { text, tooltip, color } = mainText(facts);
    this.#main.text = text;
    this.#main.tooltip = label(facts.isQuiet ? `${tooltip} (do not disturb)` : tooltip, 300);
    this.#main.backgroundColor = color ? new vscode.ThemeColor(`statusBarItem.${color}Background`) : undefined;
    this.#main.show();
    if (facts.autonomy === null) return this.#autonomy.hide();
    this.#autonomy.text = AUTONOMY_TEXTS[facts.autonomy] ?? AUTONOMY_TEXTS.ask;
    this.#autonomy.tooltip = `Tieline: ${AUTONOMY_HELP[facts.autonomy] ?? ""}`;
    this.#autonomy.backgroundColor =
      facts.autonomy === "all" ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
    this.#autonomy.show();
  }

  /**
   * Show the progress of a plan; null hides it.
   * @param {{done: number, total: number, title: string} | null} progress
   */
  showPlan(progress) {
    if (progress === null) return this.#plan.hide();
    this.#plan.text = `$(checklist) ${progress.done}/${progress.total}`;
    this.#plan.tooltip = label(`Plan: ${progress.title}`, 200);
    this.#plan.show();
  }
}

module.exports = { StatusBar, mainText, AUTONOMY_HELP };
