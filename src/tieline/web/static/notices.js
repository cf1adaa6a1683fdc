// Short notices at the edge of the page. Screen readers announce them, too.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const SHOWN = 6000;
const place = h("div", { class: "notices", role: "status", "aria-live": "polite", data: { test: "notices" } });
const spoken = h("div", { class: "hidden", role: "status", "aria-live": "polite" });
document.body.append(place, spoken);

/** Show a notice for a few seconds. */
export function notify(text, tone = "") {
  const notice = h(
    "div",
    { class: `notice ${tone}` },
    h("span", {}, text),
    h(
      "button",
      { type: "button", class: "quiet icon-button", "aria-label": "Close", onclick: () => notice.remove() },
      icon("cross"),
    ),
  );
  place.append(notice);
  setTimeout(() => notice.remove(), SHOWN);
}

/** Announce a text to screen readers only. */
export function announce(text) {
  spoken.textContent = "";
  requestAnimationFrame(() => (spoken.textContent = text));
}

/** Run an action and return its result. If it fails, show the error and resolve to undefined. */
export async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    notify(error.message, "bad");
    return undefined;
  }
}
