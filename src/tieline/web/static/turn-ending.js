// Shows how an answer ended, unless it ended normally: an error, a limit, a refusal or a stop.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { formatDuration, humanize } from "./format.js";

const REASONS = {
  max_tokens: "Cut off: the answer reached its length limit.",
  context_full: "Cut off: the model's context window is full.",
  refusal: "The model declined to answer.",
  paused: "Paused by the upstream.",
  cancelled: "Stopped.",
};

/** Create an element that describes an ending. Return null for a normal one. */
export function endingView(end) {
  if (end.type === "failed") return failure(end);
  const words = REASONS[end.reason];
  if (!words) return null;
  return h("p", { class: "ending", data: { test: "ending" } }, words, end.detail ? ` ${end.detail}` : "");
}

function failure({ kind, message, retry_after: wait }) {
  if (kind === "cancelled") return h("p", { class: "ending", data: { test: "ending" } }, REASONS.cancelled);
  return h(
    "div",
    { class: "failure", role: "alert", data: { test: "failure" } },
    icon("warn"),
    h(
      "div",
      {},
      h("strong", {}, humanize(kind ?? "failed")),
      h("p", {}, message),
      wait ? h("p", { class: "muted" }, `Try again in ${formatDuration(wait)}.`) : null,
    ),
  );
}
