// Plans that wait for a review, as documents with buttons, and their steps while they are carried out.

"use strict";

const vscode = require("vscode");
const { ITEM_SCHEME, fileName, itemOf } = require("./documents");
const { originText, readSteps } = require("./items");
const { pickOption } = require("./permission");
const { approvals, planText, progressOf } = require("./plan-text");
const { label } = require("./text");

const MOST_PLANS = 20; // that are followed after their decision
const MOST_FEEDBACK = 10_000;
const REJECTED = "Rejected";

/**
 * A plan with its document. `isOver`: it was rejected, or it was decided elsewhere and no steps have arrived since.
 * @typedef {import("./plan-text").PlanState & {uri: vscode.Uri, isOver: boolean}} ShownPlan
 */
/** @typedef {(item: import("./items").Item, body: unknown) => Promise<{outcome: string, message: string}>} Send */

/** @implements {vscode.CodeLensProvider} */
class Plans {
  #documents;
  #queue;
  #send;
  #follow;
  /** @type {Map<string, ShownPlan>} */
  #shown = new Map();
  #changed = new vscode.EventEmitter();
  onDidChangeCodeLenses = this.#changed.event;
  #latest = "";
  /** The plans whose answer is being sent. @type {Set<string>} */
  #deciding = new Set();

  /**
   * @param {import("./documents").Documents} documents
   * @param {import("./queue").ItemQueue} queue
   * @param {Send} send
   * @param {(workspace: string, session: string) => void} follow called to follow the plan of a session
   */
  constructor(documents, queue, send, follow) {
    this.#documents = documents;
    this.#queue = queue;
    this.#send = send;
    this.#follow = follow;
  }

  /** The plan that was shown or decided last, with its progress; null if there is none. */
  get progress() {
    const plan = this.#shown.get(this.#latest);
    if (!plan || plan.isOver || plan.steps.length === 0) return null;
    return { ...progressOf(plan.steps), title: plan.item.ask.title };
  }

  /** Open the document of a plan. @param {import("./items").Item} item */
  async show(item) {
    const { ask } = item;
    if (ask.type !== "plan_review") return;
    const known = this.#shown.get(item.id);
    const plan = known ?? this.#add({ ...item, ask });
    this.#latest = item.id;
    this.#write(plan);
    await this.#documents.show(plan.uri, { isFocused: true });
    if (item.session && !known) this.#follow(item.workspace, item.session);
  }

  /** Open the document of the plan that was shown last. */
  async showLatest() {
    const plan = this.#shown.get(this.#latest);
    if (!plan) return;
    this.#write(plan); // its text is dropped when its document is closed
    await this.#documents.show(plan.uri, { isFocused: true });
  }

  /** Approve the plan of a document, or of an item's id. @param {vscode.Uri | string | undefined} which */
  async approve(which) {
    const plan = this.#waiting(which);
    if (!plan) return;
    const options = approvals(plan.item.ask);
    const gone = this.#queue.signal(plan.item.id);
    const choice = { title: "Approve", options, isDenial: false };
    const option = options.length > 1 ? await pickOption(choice, gone) : options[0];
    if (options.length > 1 && !option) return;
    await this.#decide(plan, { approved: true, feedback: "", ...(option && { option: option.id }) }, "Approved.");
  }

  /** Ask for feedback, and reject the plan. @param {vscode.Uri | string | undefined} which */
  async reject(which) {
    const plan = this.#waiting(which);
    if (!plan) return;
    const feedback = await this.#feedback(plan);
    if (feedback === undefined) return;
    const decision = feedback ? `${REJECTED}: ${feedback}` : `${REJECTED}.`;
    await this.#decide(plan, { approved: false, feedback }, decision);
  }

  /** Replace the steps of a session's plan. @param {string} session @param {unknown} entries */
  setSteps(session, entries) {
    for (const plan of this.#shown.values()) {
      if (plan.item.session !== session) continue;
      plan.steps = readSteps(entries);
      plan.isOver = plan.decision.startsWith(REJECTED);
      this.#write(plan);
    }
  }

  /** Update the documents of plans that were decided elsewhere. */
  update() {
    for (const plan of this.#shown.values()) {
      const { id } = plan.item;
      // A listing without the item may arrive before the response to the answer that was sent here.
      if (plan.decision || this.#deciding.has(id) || this.#queue.state(id) !== "gone") continue;
      plan.decision = "This plan was decided elsewhere, or it has expired.";
      plan.isOver = true;
      this.#write(plan);
    }
  }

  /** @param {vscode.TextDocument} document */
  provideCodeLenses({ uri }) {
    const id = itemOf(uri);
    if (id === null || this.#queue.state(id) === "gone") return [];
    const top = new vscode.Range(0, 0, 0, 0);
    const lens = (/** @type {string} */ title, /** @type {string} */ command) =>
      new vscode.CodeLens(top, { title, command, arguments: [id] });
    const plan = this.#shown.get(id);
    if (!plan) return [lens("$(shield) Decide…", "tieline.decide")];
    if (plan.decision) return [];
    const isPick = approvals(plan.item.ask).length > 1;
    return [
      lens(isPick ? "$(check) Approve…" : "$(check) Approve", "tieline.approvePlan"),
      lens("$(close) Reject with Feedback…", "tieline.rejectPlan"),
    ];
  }

  refresh() {
    this.#changed.fire(undefined);
  }

  /** @param {import("./plan-text").PlanState["item"]} item @returns {ShownPlan} */
  #add(item) {
    const name = `${fileName(item.ask.title)}.tieline-plan`;
    const uri = this.#documents.put(ITEM_SCHEME, item.id, name, "");
    const plan = { item, steps: item.ask.steps, decision: "", uri, isOver: false };
    this.#shown.set(item.id, plan);
    if (this.#shown.size > MOST_PLANS) this.#shown.delete([...this.#shown.keys()][0]);
    return plan;
  }

  /** @param {ShownPlan} plan */
  #write(plan) {
    const { path } = plan.uri;
    const name = path.slice(path.indexOf("/", 1) + 1);
    this.#documents.put(ITEM_SCHEME, plan.item.id, name, planText(plan, originText(plan.item)));
    this.#changed.fire(undefined);
  }

  /** Return the plan that a command names, or null and a message. @param {vscode.Uri | string | undefined} which */
  #waiting(which) {
    const active = vscode.window.activeTextEditor?.document.uri;
    const id = typeof which === "string" ? which : itemOf(which ?? active);
    const plan = this.#shown.get(id ?? "");
    if (plan && !plan.decision && this.#queue.state(plan.item.id) !== "gone") return plan;
    void vscode.window.showInformationMessage("This plan was already decided, or it has expired.");
    return null;
  }

  /** @param {ShownPlan} plan */
  async #feedback(plan) {
    const cancel = new vscode.CancellationTokenSource();
    this.#queue.signal(plan.item.id).addEventListener("abort", () => cancel.cancel(), { once: true });
    const feedback = await vscode.window.showInputBox(
      {
        title: `Reject: ${label(plan.item.ask.title, 80)}`,
        prompt: "What should change? (optional; Escape does not reject)",
        ignoreFocusOut: true,
        validateInput: (text) => (text.length > MOST_FEEDBACK ? `At most ${MOST_FEEDBACK} characters.` : undefined),
      },
      cancel.token,
    );
    cancel.dispose();
    return feedback?.trim();
  }

  /** @param {ShownPlan} plan @param {unknown} body @param {string} decision */
  async #decide(plan, body, decision) {
    this.#deciding.add(plan.item.id);
    const { outcome, message } = await this.#send(plan.item, body);
    this.#deciding.delete(plan.item.id);
    if (outcome === "refused")
      void vscode.window.showErrorMessage(`The answer was not accepted: ${label(message, 300)}`);
    if (outcome === "accepted") {
      plan.decision = decision;
      plan.isOver = decision.startsWith(REJECTED);
      this.#write(plan);
    }
    this.update();
  }
}

module.exports = { Plans };
