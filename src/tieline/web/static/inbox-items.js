// Inbox items: their origin, headline and options, and a function that answers them.

import { post } from "./api.js";
import { live } from "./live-state.js";
import { notify } from "./notices.js";
import { workspaceTitle } from "./workspace-titles.js";

// The options of a permission for which the gateway sends none.
const DEFAULT_OPTIONS = [
  { id: "allow", label: "Allow once", kind: "allow_once" },
  { id: "always", label: "Always allow", kind: "allow_always" },
  { id: "deny", label: "Deny", kind: "reject_once" },
];

export const optionsOf = (ask) => ask.options ?? DEFAULT_OPTIONS;

/** Return whether an item belongs to the session with this summary. */
export function belongsTo(item, summary) {
  const session = item.session ?? item.origin?.session;
  return Boolean(summary && session && session === summary.id);
}

/** Return one line that describes an item, for lists, notifications and screen readers. */
export function headline({ ask }) {
  if (ask.type === "permission") return ask.title;
  return ask.type === "plan_review" ? `Review the plan: ${ask.title}` : ask.message;
}

/** Return the names of the client, the model and the workspace from which an item comes. */
export function originText({ origin = {} }) {
  return [origin.client || origin.frontend, origin.model, workspaceTitle(origin.workspace)]
    .filter(Boolean)
    .join(" · ");
}

/** Send an answer and return whether it was accepted. `explain(error)` returns whether it has shown the error. */
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
