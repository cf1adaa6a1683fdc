// <tl-leg>: the details of one request: the client's request, the upstream's answer, the client's answer, and repairs.

import { get } from "./api.js";
import { h } from "./dom.js";
import { icon } from "./icons.js";
import { messageEntry, eventList } from "./leg-events.js";
import { state } from "./leg-table.js";
import { formatDateTime, formatDuration, formatUsage, plural } from "./format.js";

const LATEST = 12; // Number of messages of a long history that are shown at first.

/** Fires `close` when the user closes the details. */
class LegDetail extends HTMLElement {
  #id = null;
  #loads = 0;
  #head = h("div", { class: "leg-head" });
  #body = h("div", { class: "leg-body" });
  #timer = 0;

  connectedCallback() {
    this.setAttribute("role", "complementary");
    this.setAttribute("aria-label", "Request");
    this.tabIndex = -1;
    const close = h(
      "button",
      { type: "button", class: "quiet icon-button", "aria-label": "Close", onclick: () => this.#leave() },
      icon("cross"),
    );
    this.append(h("header", { class: "panel-head" }, h("h2", {}, "Request"), close), this.#head, this.#body);
    this.addEventListener("keydown", (event) => event.key === "Escape" && (event.stopPropagation(), this.#leave()));
  }

  async open(id) {
    const isOther = id !== this.#id;
    const mine = (this.#loads += 1);
    this.#id = id;
    this.hidden = false;
    if (isOther) {
      this.#head.replaceChildren();
      this.#body.replaceChildren(h("p", { class: "muted none" }, "Loading…"));
      this.scrollTop = 0;
    }
    try {
      const detail = await get(`/api/traffic/${encodeURIComponent(id)}`);
      if (mine === this.#loads) this.#show(detail);
    } catch (error) {
      if (mine === this.#loads)
        this.#body.replaceChildren(
          h(
            "p",
            { class: "muted none" },
            error.status === 404 ? "This request is no longer available." : error.message,
          ),
        );
    }
  }

  close() {
    this.hidden = true;
    this.#id = null;
    this.#loads += 1;
  }

  /** Load the request again, after a short delay, if it is the one that has changed. */
  learn(leg) {
    if (leg.id !== this.#id) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#id === leg.id && this.open(leg.id), 250);
  }

  #leave() {
    this.dispatchEvent(new CustomEvent("close"));
  }

  #show({ leg, request, events, notes, shown }) {
    const isOver = leg.status !== "running";
    this.#head.replaceChildren(...summary(leg));
    this.#body.replaceChildren(
      ...(notes?.length
        ? [
            section(
              "Repairs and notes",
              h(
                "ul",
                { class: "notes" },
                notes.map(({ kind, message }) =>
                  h("li", { data: { test: "note-line" } }, h("span", { class: "tag is-repair" }, kind), message),
                ),
              ),
            ),
          ]
        : []),
      section("1. What the client sent", ...sent(request)),
      section(
        `2. What ${leg.backend || "the upstream"} answered`,
        events.length ? eventList(events, isOver) : h("p", { class: "muted" }, isOver ? "Nothing." : "Nothing yet."),
      ),
      section(
        "3. What the client received",
        shown
          ? eventList(shown.map((event) => ({ event })), isOver)
          : h("p", { class: "muted" }, "The same, unchanged."),
      ),
      raw("Everything as JSON", { request, events, shown }),
    );
  }
}

function summary(leg) {
  const facts = [
    ["Client", leg.client || "unknown"],
    ["Route", `${leg.frontend} → ${leg.backend || "?"}`],
    ["Started", formatDateTime(leg.at)],
    ["First byte", formatDuration(leg.first_byte) || (leg.status === "running" ? "not yet" : "none")],
    ["Duration", formatDuration(leg.duration) || "in progress"],
    ["Tokens", leg.usage ? formatUsage(leg.usage) : "unknown"],
  ];
  return [
    h("p", { class: "leg-title" }, h("strong", {}, leg.model), ...state(leg)),
    leg.title ? h("p", { class: "muted leg-words" }, `“${leg.title}”`) : "",
    leg.message ? h("p", { class: "leg-message" }, leg.message) : "",
    h(
      "dl",
      { class: "facts" },
      facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  ];
}

function sent(request) {
  const { messages = [], tools = [], ...settings } = request ?? {};
  const list = h("ol", { class: "story" }, messages.slice(-LATEST).map(messageEntry));
  const hidden = messages.slice(0, -LATEST);
  const showHidden = () => (list.prepend(...hidden.map(messageEntry)), more.remove());
  const more =
    hidden.length > 0 &&
    h(
      "button",
      { type: "button", class: "quiet small", onclick: showHidden },
      `Show ${plural(hidden.length, "earlier message")}`,
    );
  return [
    more || "",
    list,
    tools.length
      ? h(
          "details",
          { class: "fold" },
          h("summary", {}, plural(tools.length, "tool")),
          h(
            "ul",
            { class: "tool-names" },
            tools.map(({ name, description = "" }) =>
              h("li", {}, h("code", {}, name), h("span", { class: "muted" }, ` ${description.slice(0, 160)}`)),
            ),
          ),
        )
      : "",
    raw("Settings", settings),
  ];
}

function section(title, ...content) {
  return h("section", { class: "leg-section" }, h("h3", {}, title), ...content);
}

/** Create a collapsed section with JSON, which is formatted only when the section is opened. */
function raw(title, value) {
  const fold = h("details", { class: "fold" }, h("summary", {}, title));
  fold.addEventListener(
    "toggle",
    () => fold.childElementCount === 1 && fold.append(h("pre", { class: "raw" }, JSON.stringify(value, null, 2))),
    { once: true },
  );
  return fold;
}

customElements.define("tl-leg", LegDetail);
