// Keyboard shortcuts that work anywhere on a page, and the dialog that lists them.

import { h, isTyping } from "./dom.js";

const MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const CONTROL = MAC ? "⌘" : "Ctrl";
const ALT = MAC ? "⌥" : "Alt";

const SHEET = [
  ["Enter", "Send the message"],
  ["Shift Enter", "New line"],
  ["Esc", "Stop the answer"],
  ["@", "Attach a file from the workspace"],
  [`${CONTROL} K`, "Choose the model"],
  [`${ALT} N`, "New chat"],
  [`${ALT} I`, "Go to what is waiting for you"],
  ["y  a  n", "Allow once, always allow, deny (on a focused permission)"],
  ["/", "Go to the message box or filter"],
  ["?", "Show this list"],
];

/** Listen for shortcuts. `actions` may have the functions escape, models, fresh, items and write. */
export function listenForKeys(actions) {
  document.addEventListener("keydown", (event) => {
    const act = wanted(event, actions);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function wanted(event, { escape, models, fresh, items, write }) {
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return null;
  // On Windows, AltGr, which types characters, counts as Ctrl and Alt.
  if (event.altKey) return event.ctrlKey ? null : { KeyN: fresh, KeyI: items }[event.code];
  if (event.ctrlKey || event.metaKey) return { KeyK: models }[event.code];
  if (event.key === "Escape") return isTaken(event) ? null : escape;
  return isTyping(event) ? null : { "/": write, "?": showSheet }[event.key];
}

/** Return whether the browser itself uses Escape: to close a popover or to clear a search field. */
function isTaken({ target }) {
  return document.querySelector(":popover-open") || (target.type === "search" && target.value);
}

function showSheet() {
  const rows = SHEET.map(([keys, label]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, ...keys.split(" ").map((key) => (key ? h("kbd", {}, key) : " "))),
      h("td", {}, label),
    ),
  );
  const dialog = h(
    "dialog",
    {
      class: "dialog",
      "aria-label": "Keyboard shortcuts",
      onclick: (event) => event.target === dialog && dialog.close(),
      onclose: () => dialog.remove(),
    },
    h("h2", {}, "Keyboard shortcuts"),
    h("table", { class: "keys" }, h("tbody", {}, rows)),
    h("form", { method: "dialog", class: "actions" }, h("button", { autofocus: true }, "Close")),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** Focus the inbox item `here`, or, if it is null, open the inbox panel. */
export function goToInboxItems(here) {
  const panel = document.querySelector("tl-inbox");
  if (here) here.focus();
  else panel.toggle(true);
}
