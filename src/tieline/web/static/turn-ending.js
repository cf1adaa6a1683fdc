// How an answer ended, where that needs words: an error, a limit, a refusal, a stop.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { duration, label } from "./words.js";

const REASONS = {
  max_tokens: "Cut off: the answer reached its longest length.",
  context_full: "Cut off: the conversation fills the model's context.",
  refusal: "The model declined to answer.",
  paused: "Paused by the upstream.",
  cancelled: "Stopped.",
};

/** An element, or null for an answer that simply ended. */
export function ending(end) {
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
      h("strong", {}, label(kind ?? "failed")),
      h("p", {}, message),
      wait ? h("p", { class: "muted" }, `Try again in ${duration(wait)}.`) : null,
    ),
  );
}
