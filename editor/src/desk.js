// Brings inbox items to the user: one notification at a time, and one dialog at a time, only after a click.
//
// A dialog never opens by itself, so it cannot catch what the user is typing. Notifications do not take the focus.

"use strict";

const vscode = require("vscode");
const { headline, originText } = require("./items");
const { label } = require("./text");

const MOST_LISTED = 200;
const MOST_STALE = 30; // Notifications of settled items that may stay open: an extension cannot close them.
const LATE = "This was already answered, or it has expired.";

/** @typedef {import("./items").Item} Item */
/** @typedef {{ask(item: any, gone: AbortSignal, refusal?: Refusal): Promise<unknown>}} Dialog */
/** @typedef {{message: string, param: string | null}} Refusal */

class Desk {
  #queue;
  #inbox;
  #dialogs;
  #plans;
  #isQuiet;
  #current = "";
  #shown = 0;

  /**
   * @param {import("./queue").ItemQueue} queue
   * @param {import("./inbox").Inbox} inbox
   * @param {{permission: Dialog, form: Dialog}} dialogs
   * @param {{show(item: Item): Promise<void>}} plans
   * @param {() => boolean} isQuiet whether the user does not want to be disturbed
   */
  constructor(queue, inbox, dialogs, plans, isQuiet) {
    this.#queue = queue;
    this.#inbox = inbox;
    this.#dialogs = dialogs;
    this.#plans = plans;
    this.#isQuiet = isQuiet;
  }

  /** Show a notification of the next item, unless one is shown, a dialog is open, or the user must not be disturbed. */
  async announce() {
    if (this.#isQuiet() || this.#queue.opened || this.#shown >= MOST_STALE) return;
    if (this.#current && this.#queue.state(this.#current) !== "gone") return;
    const item = this.#queue.announce();
    if (!item) return;
    this.#current = item.id;
    this.#shown += 1;
    const isOpened = await this.#notify(item);
    this.#shown -= 1;
    if (this.#current === item.id) this.#current = "";
    if (isOpened) return this.show(item.id);
    // After the user has closed a notification, the others that wait are only counted in the status bar.
    if (this.#queue.state(item.id) !== "gone") while (this.#queue.announce());
    else void this.announce();
  }

  /** Open the dialog or the document of an item. @param {string} id */
  async show(id) {
    const item = this.#queue.get(id);
    if (!item) return void vscode.window.showInformationMessage(LATE);
    if (item.ask.type === "plan_review") return this.#plans.show(item);
    if (!this.#queue.open(id))
      return void vscode.window.showInformationMessage("Another dialog is open. Please answer that one first.");
    try {
      await this.#ask(item);
    } finally {
      this.#queue.close(id);
      void this.announce();
    }
  }

  /** Open the only item that waits, or let the user choose one. */
  async list() {
    const { items } = this.#queue;
    if (items.length === 0) return void vscode.window.showInformationMessage("Nothing is waiting for you.");
    if (items.length === 1) return this.show(items[0].id);
    const picked = await vscode.window.showQuickPick(
      items.slice(0, MOST_LISTED).map((item) => ({
        label: `${ICONS[item.ask.type]} ${headline(item)}`,
        description: originText(item),
        id: item.id,
      })),
      { title: `${items.length} waiting for you`, matchOnDescription: true },
    );
    if (picked) await this.show(picked.id);
  }

  /** @param {Item} item */
  async #ask(item) {
    const dialog = item.ask.type === "permission" ? this.#dialogs.permission : this.#dialogs.form;
    const gone = this.#queue.signal(item.id);
    /** @type {Refusal | undefined} */
    let refusal;
    for (;;) {
      const body = await dialog.ask(item, gone, refusal);
      if (gone.aborted) return void vscode.window.showInformationMessage(LATE);
      if (body === null) return;
      const problem = await send(this.#inbox, item, body);
      if (problem.outcome !== "refused") return;
      void vscode.window.showErrorMessage(`The answer was not accepted: ${label(problem.message, 300)}`);
      // Only a form can be corrected. Its dialog opens again at the field, unless the item is being used elsewhere.
      if (!problem.param || item.ask.type !== "form" || !this.#queue.open(item.id)) return;
      refusal = problem;
    }
  }

  /** Show a notification. Return whether the user wants to open the item. @param {Item} item */
  async #notify(item) {
    const more = this.#queue.items.length - 1;
    const text = `${originText(item)}: ${headline(item)}${more > 0 ? ` (and ${more} more)` : ""}`;
    if (item.ask.type === "form") return Boolean(await vscode.window.showInformationMessage(text, "Answer"));
    if (item.ask.type === "plan_review") return Boolean(await vscode.window.showInformationMessage(text, "Review"));
    return Boolean(await vscode.window.showWarningMessage(text, "Review"));
  }
}

/**
 * Send an answer, and tell the user if it was late.
 * @param {import("./inbox").Inbox} inbox
 * @param {Item} item
 * @param {unknown} body
 */
async function send(inbox, item, body) {
  const sent = await inbox.answer(item, body);
  if (sent.outcome === "late") void vscode.window.showInformationMessage(sent.message);
  return sent;
}

const ICONS = { permission: "$(shield)", plan_review: "$(checklist)", form: "$(question)" };

module.exports = { Desk, send };
