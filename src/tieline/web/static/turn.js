// <tl-turn>: one message of a conversation, complete or in progress.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { imageView } from "./image-view.js";
import { PlanView } from "./plan-view.js";
import "./decided-plan.js";
import { Prose } from "./prose.js";
import { Thinking } from "./thinking.js";
import "./tool-card.js";
import { endingView } from "./turn-ending.js";
import { TurnFoot } from "./turn-foot.js";

class Turn extends HTMLElement {
  turn = null;
  #body = h("div", { class: "turn-body" });
  #foot = new TurnFoot(this);
  #parts = [];
  #cards = new Map();
  #plan = null;
  #ending = null;
  #isFilled = false;
  #isBuilt = false;

  /** Set the message. `fill` builds its elements later. */
  set(turn) {
    this.turn = turn;
    this.id = `turn-${turn.id}`;
    this.setAttribute("role", "article");
    this.setAttribute("aria-label", turn.role === "user" ? "You" : "Answer");
    this.dataset.role = turn.role;
    this.dataset.test = `turn-${turn.role}`;
  }

  /** An estimate of the height in pixels. The scrollbar needs it, because messages off-screen are not laid out. */
  get guessedHeight() {
    return guessedHeight(this.turn);
  }

  get isFilled() {
    return this.#isFilled;
  }

  /** Whether the message is still in progress. */
  get isLive() {
    return this.turn.role === "assistant" && !this.turn.ending;
  }

  /** The text of the message, for copying and editing. */
  get text() {
    return this.turn.parts
      .filter((part) => part.type === "text")
      .map((part) => part.text ?? "")
      .join("\n\n");
  }

  fill() {
    if (this.#isFilled) return;
    this.#isFilled = true;
    if (!this.#isBuilt) this.append(this.#body, this.#foot.element);
    this.#isBuilt = true;
    const { parts, activities = [], plan, ending: end } = this.turn;
    parts.forEach((part, at) => {
      activities.filter((one) => one.at === at).forEach((one) => this.#act(one.activity, one));
      this.#addPart(at, part, false);
    });
    activities.filter((one) => one.at >= parts.length).forEach((one) => this.#act(one.activity, one));
    if (plan) this.#showPlan(plan);
    if (end) this.#end(end);
    this.#foot.update();
  }

  /** Apply new events of a message in progress. */
  receive(events) {
    if (!this.isLive) return; // a message that was fetched when it was complete
    this.fill();
    for (const event of events) this.#receive(event);
  }

  /** Add a finished Markdown block of a text part. */
  block({ part, block, html, until }) {
    this.fill();
    const view = this.#parts[part];
    if (view instanceof Prose) view.block(block, html, until);
  }

  /** Set the complete message. Elements that already match are kept. */
  complete(turn) {
    const isSame =
      this.#isFilled &&
      turn.parts.every((part, at) => matches(this.#parts[at], part)) &&
      turn.parts.length >= this.#parts.length;
    this.set(turn);
    if (!this.#isFilled) return;
    if (!isSame) {
      this.#reset();
      this.fill();
      return;
    }
    turn.parts.forEach((part, at) => this.#parts[at]?.end?.(part));
    for (const one of turn.activities ?? []) this.#act(one.activity, one);
    if (turn.plan) this.#showPlan(turn.plan);
    if (turn.ending) this.#end(turn.ending);
    this.#foot.update();
  }

  /** Update the row below the message. `facts` describe its position in the conversation. */
  place(facts) {
    this.#foot.place(facts);
  }

  #reset() {
    this.#isFilled = false;
    this.#parts = [];
    this.#cards.clear();
    this.#plan = this.#ending = null;
    this.#body.replaceChildren();
  }

  #receive(event) {
    switch (event.type) {
      case "started":
        this.turn.model ??= event.model;
        return;
      case "usage":
        this.turn.usage = event;
        return;
      case "activity":
        this.#act(event);
        return;
      case "plan":
        this.#showPlan(event);
        return;
      case "finished":
      case "failed":
        this.turn.ending = event;
        this.#end(event);
        this.#foot.update();
        return;
      default:
        this.#receivePart(event);
    }
  }

  #receivePart({ type, index, part, text }) {
    if (type === "part_start") {
      this.turn.parts[index] = { ...part };
      this.#addPart(index, part, true);
    } else if (type === "part_delta") {
      if (!this.#parts[index]) this.#addPart(index, { type: "text" }, true);
      this.#parts[index].add?.(text);
    } else if (type === "part_end") {
      this.turn.parts[index] = part;
      if (this.#parts[index]?.end) this.#parts[index].end(part);
      else this.#addPart(index, part, false);
    }
  }

  #addPart(at, part, isLive) {
    const old = this.#parts[at];
    const view = viewOf(part, isLive, this.turn.role);
    this.#parts[at] = view;
    if (old?.element) old.element.replaceWith(view.element);
    else this.#body.insertBefore(view.element, this.#ending);
  }

  #act(activity, times) {
    let card = this.#cards.get(activity.id);
    if (!card) {
      card = document.createElement(activity.kind === "plan" ? "tl-decided-plan" : "tl-tool");
      this.#cards.set(activity.id, card);
      this.#body.insertBefore(card, this.#ending);
    }
    card.show(activity, times);
  }

  #showPlan(plan) {
    if (!this.#plan) {
      this.#plan = new PlanView();
      const before = this.isLive ? this.#ending : (this.#body.querySelector("tl-tool") ?? this.#ending);
      this.#body.insertBefore(this.#plan.element, before);
    }
    this.turn.plan = plan;
    this.#plan.show(plan);
  }

  #end(end) {
    const view = endingView(end);
    if (this.#ending) this.#ending.remove();
    this.#ending = view;
    if (view) this.#body.append(view);
    for (const card of this.#cards.values()) card.stop();
  }
}

/** Create the view of a part. It has an `element`; the view of a part that can grow also has `add` and `end`. */
function viewOf(part, isLive, role) {
  switch (part.type) {
    case "text":
      return role === "user" ? { element: h("p", { class: "said" }, part.text ?? "") } : new Prose(part);
    case "thinking":
      return new Thinking(part, isLive);
    case "image":
      return { element: isLive ? h("span", { class: "muted" }, "…") : imageView(part) };
    case "file":
      return {
        element: h(
          "span",
          { class: "chip", data: { test: "file" } },
          icon("file"),
          part.name ?? part.media_type ?? "File",
        ),
      };
    case "tool_call":
      return new Call(part);
    default:
      return { element: h("span", { hidden: true }) };
  }
}

/** The view of a call of a client's tool. Its arguments arrive as pieces of text. */
class Call {
  element = document.createElement("tl-tool");
  #part;
  #text = "";

  constructor(part) {
    this.#part = part;
    this.element.showCall(part);
  }

  add(text) {
    this.#text += text;
  }

  end(part) {
    this.element.showCall({ ...this.#part, ...part, arguments: part.arguments ?? this.#text });
  }
}

const CLASSES = { text: Prose, thinking: Thinking, tool_call: Call };

function matches(view, part) {
  return view !== undefined && (!(part.type in CLASSES) || view instanceof CLASSES[part.type]);
}

function guessedHeight({ role, parts, activities = [] }) {
  const letters = parts.reduce((sum, part) => sum + (part.type === "text" ? (part.text ?? "").length : 80), 0);
  const lines = parts.reduce(
    (sum, part) => sum + (part.type === "text" ? ((part.text ?? "").match(/\n/g)?.length ?? 0) : 0),
    0,
  );
  const rows = Math.max(1, Math.ceil(letters / (role === "user" ? 70 : 90)), lines);
  return 64 + 25 * rows + 44 * activities.length;
}

customElements.define("tl-turn", Turn);
