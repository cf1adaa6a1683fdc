// <tl-tool>: one activity of an agent or of the gateway's tools: title, status, arguments, changes and output.

import { describeCall, parseTitle } from "./call-title.js";
import { diffView } from "./diff-view.js";
import { h, setText } from "./dom.js";
import { isEmbedded } from "./embed.js";
import { pathView } from "./file-links.js";
import { icon } from "./icons.js";
import { Output } from "./tool-output.js";
import { everySecond } from "./ticker.js";
import { formatDuration, now } from "./format.js";

const STATES = { pending: "waiting", in_progress: "running", completed: "done", failed: "failed", stopped: "stopped" };
const INSTANT = 0.005; // Shorter durations, in seconds, are not shown: a refused call never ran.
const SHORT = 70; // A shorter subject fits into the title, so it is not repeated in the arguments.
const MARKS = { pending: "circle", in_progress: "circle", completed: "check", failed: "cross", stopped: "stop" };

class ToolCard extends HTMLElement {
  #activity = null;
  #began = now();
  #ended = null;
  #isTouched = false;
  #untick = null;
  #kind = h("span", { class: "tool-kind" });
  #verb = h("span", { class: "tool-verb" });
  #subject = h("span", { class: "tool-subject" });
  #exit = h("span", { class: "tool-exit", hidden: true, data: { test: "exit-code" } });
  #wait = h("span", { class: "tool-wait" }, "waiting for you");
  #clock = h("span", { class: "tool-time" });
  #state = h("span", { class: "tool-state" });
  #arguments = h("dl", { class: "arguments" });
  #diffs = h("div", { class: "diffs" });
  #output = null;
  #details = h(
    "details",
    {},
    h(
      "summary",
      { onclick: () => (this.#isTouched = true) },
      this.#kind,
      h("span", { class: "tool-title" }, this.#verb, " ", this.#subject),
      this.#exit,
      this.#wait,
      this.#clock,
      this.#state,
    ),
    h("div", { class: "tool-body" }, this.#arguments, this.#diffs),
  );

  connectedCallback() {
    if (this.#details.parentNode !== this) this.append(this.#details);
    this.dataset.test = "tool";
    this.#tick();
  }

  disconnectedCallback() {
    this.#untick?.();
    this.#untick = null;
  }

  /** Show an activity. Each update contains the complete activity. */
  show(activity, times = {}) {
    const { kind, title, status = "pending", output = "", diffs = [], paths = [], exit_code: code = null } = activity;
    const before = this.#activity;
    if (before?.status === "pending" && status !== "pending") this.#began = now(); // waiting does not count as running
    setText(this.#exit, code ? `exit ${code}` : "");
    this.#exit.hidden = !code;
    this.#activity = { kind, title, status, diffs: JSON.stringify(diffs) };
    this.#setTimes(status, times);
    if (before?.title !== title || before.kind !== kind) this.#fillTitle(kind, parseTitle(title), paths[0]);
    if (before?.status !== status) this.#setState(status);
    this.#fold(kind, diffs, output, status); // first, because collapsed output cannot be scrolled to its end
    const text = isRedundant(output, diffs, status) ? "" : output;
    if (text || this.#output) this.#showOutput(kind, text);
    if (before?.diffs !== this.#activity.diffs || before.status !== status) this.#showDiffs(diffs, status);
    this.#tick();
  }

  /** Mark an unfinished activity as stopped, because the answer has ended. */
  stop() {
    if (!this.#activity || isOver(this.#activity.status)) return;
    this.#setState("stopped");
    this.#tick();
  }

  /** Show a call of a client's tool. The client runs it, so its status is not known. */
  showCall({ name, arguments: text = "" }) {
    this.#fillTitle("other", describeCall(name, text));
    this.#clock.hidden = this.#state.hidden = true;
  }

  #setTimes(status, { began, ended }) {
    if (began) this.#began = began;
    this.#ended = isOver(status) ? (ended ?? this.#ended ?? now()) : null;
  }

  #fillTitle(kind, { verb, subject, given, path }, named = "") {
    this.dataset.kind = kind;
    this.#kind.replaceChildren(icon(kind));
    setText(this.#verb, verb);
    const file = isEmbedded ? path || named : "";
    if (file && (!subject || subject === file)) this.#subject.replaceChildren(pathView(file, null, "tool-file"));
    else setText(this.#subject, subject);
    this.#subject.title = subject;
    this.#arguments.replaceChildren(
      ...Object.entries(given ?? {}).flatMap(([name, value]) => [
        h("dt", {}, name),
        h("dd", {}, typeof value === "string" ? value : JSON.stringify(value)),
      ]),
    );
    this.#arguments.hidden =
      given === null ||
      (Object.keys(given).length === 1 && subject === Object.values(given)[0] && subject.length < SHORT);
  }

  #setState(status) {
    this.dataset.status = status;
    this.#state.replaceChildren(icon(MARKS[status]), h("span", { class: "hidden" }, STATES[status]));
    this.#state.title = STATES[status];
  }

  #showOutput(kind, text) {
    if (!this.#output) {
      this.#output = new Output(kind === "execute");
      this.#details.lastElementChild.append(this.#output.element);
    }
    this.#output.set(text);
  }

  /** Show file changes instead of the arguments. */
  #showDiffs(diffs, status) {
    const isMade = status !== "failed";
    this.#diffs.replaceChildren(...diffs.map((diff) => diffView(diff, isMade)));
    this.#arguments.hidden ||= diffs.length > 0;
  }

  /** Expand commands, changes and failures, unless the user has expanded or collapsed the card. */
  #fold(kind, diffs, output, status) {
    if (this.#isTouched) return;
    const isTelling = kind === "execute" || status === "failed";
    this.#details.open = diffs.length > 0 || (isTelling && output.trim() !== "");
  }

  #tick() {
    if (!this.#activity) return;
    const isRunning = this.dataset.status === "in_progress";
    setText(this.#clock, this.#passed());
    if (isRunning && !this.#untick && this.isConnected)
      this.#untick = everySecond(() => setText(this.#clock, this.#passed()));
    if (!isRunning && this.#untick) {
      this.#untick();
      this.#untick = null;
    }
  }

  #passed() {
    if (this.dataset.status === "stopped" || this.dataset.status === "pending") return "";
    if (this.#ended) {
      const length = this.#ended - this.#began;
      return length < INSTANT ? "" : formatDuration(length);
    }
    const length = now() - this.#began;
    return length < 1 ? "" : formatDuration(Math.floor(length));
  }
}

const isOver = (status) => status === "completed" || status === "failed";

/** Return whether the output is only one line that confirms the changes shown. */
const isRedundant = (output, diffs, status) =>
  diffs.length > 0 && status === "completed" && !output.trim().includes("\n");

customElements.define("tl-tool", ToolCard);
