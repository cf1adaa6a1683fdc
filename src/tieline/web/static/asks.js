// What is asked of a person: whose it is, and sending the answer.

import { post } from "./api.js";
import { live } from "./live.js";
import { notify } from "./notices.js";

// What the gateway leaves out because it is the usual.
const USUAL = [
  { id: "allow", label: "Allow", kind: "allow_once" },
  { id: "always", label: "Always allow", kind: "allow_always" },
  { id: "deny", label: "Deny", kind: "reject_once" },
];

export const optionsOf = (ask) => ask.options ?? USUAL;

/** Whether an ask belongs to this conversation. */
export function belongs(item, summary) {
  const session = item.session ?? item.origin?.session;
  return Boolean(summary && session && session === summary.id);
}

/** One line that says what is asked, for lists, notifications and screen readers. */
export function headline({ ask }) {
  if (ask.type === "permission") return ask.title;
  return ask.type === "plan_review" ? `Review the plan: ${ask.title}` : ask.message;
}

/** Who asks, in words. */
export function whoAsks({ origin = {} }) {
  return [origin.client || origin.frontend, origin.model].filter(Boolean).join(" · ");
}

/** Send an answer; says whether it was taken. `explain` may show what is wrong beside the field it is about. */
export async function answer(id, body, explain = () => false) {
  try {
    await post(`/api/inbox/${encodeURIComponent(id)}`, body);
  } catch (error) {
    if (error.status !== 404) {
      if (!explain(error)) notify(error.message, "bad");
      return false;
    }
    notify("This was decided already, or its time was up.");
  }
  live.decided(id);
  return true;
}
