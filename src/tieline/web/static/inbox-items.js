// Inbox items: their origin and headline, and sending an answer.

import { post } from "./api.js";
import { live } from "./live-state.js";
import { notify } from "./notices.js";

// The default options, which the gateway omits.
const DEFAULT_OPTIONS = [
  { id: "allow", label: "Allow once", kind: "allow_once" },
  { id: "always", label: "Always allow", kind: "allow_always" },
  { id: "deny", label: "Deny", kind: "reject_once" },
];

export const optionsOf = (ask) => ask.options ?? DEFAULT_OPTIONS;

/** Return whether an item belongs to this session. */
export function belongsTo(item, summary) {
  const session = item.session ?? item.origin?.session;
  return Boolean(summary && session && session === summary.id);
}

/** The item in one line, for lists, notifications and screen readers. */
export function headline({ ask }) {
  if (ask.type === "permission") return ask.title;
  return ask.type === "plan_review" ? `Review the plan: ${ask.title}` : ask.message;
}

/** The client and the model that the item comes from. */
export function originText({ origin = {} }) {
  return [origin.client || origin.frontend, origin.model].filter(Boolean).join(" · ");
}

/** Send an answer and return whether it was accepted. `explain` may show an error next to the field that caused it. */
export async function answer(id, body, explain = () => false) {
  try {
    await post(`/api/inbox/${encodeURIComponent(id)}`, body);
  } catch (error) {
    if (error.status !== 404) {
      if (!explain(error)) notify(error.message, "bad");
      return false;
    }
    notify("This was already answered, or it has expired.");
  }
  live.decided(id);
  return true;
}
