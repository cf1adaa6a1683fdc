// Short words at the edge of the page for what went wrong or was done; screen readers hear them too.

import { h } from "./dom.js";
import { icon } from "./icons.js";

const SHOWN = 6000;
const place = h("div", { class: "notices", role: "status", "aria-live": "polite", data: { test: "notices" } });
const spoken = h("div", { class: "hidden", role: "status", "aria-live": "polite" });
document.body.append(place, spoken);

/** Show a notice for a while. */
export function notify(words, tone = "") {
  const notice = h(
    "div",
    { class: `notice ${tone}` },
    h("span", {}, words),
    h(
      "button",
      { type: "button", class: "quiet icon-button", "aria-label": "Close", onclick: () => notice.remove() },
      icon("cross"),
    ),
  );
  place.append(notice);
  setTimeout(() => notice.remove(), SHOWN);
}

/** Say something only to those who listen instead of look. */
export function announce(words) {
  spoken.textContent = "";
  requestAnimationFrame(() => (spoken.textContent = words));
}

/** Do something and show what goes wrong. */
export async function attempt(doing) {
  try {
    return await doing();
  } catch (error) {
    notify(error.message, "bad");
    return undefined;
  }
}
