// The keys that work anywhere on a page, and the sheet that lists them.

import { h, isTyping } from "./dom.js";

const MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const CONTROL = MAC ? "⌘" : "Ctrl";
const ALT = MAC ? "⌥" : "Alt";

const SHEET = [
  ["Enter", "Send the message"],
  ["Shift Enter", "New line"],
  ["Esc", "Stop the answer"],
  ["@", "Attach a file of the workspace"],
  [`${CONTROL} K`, "Choose the model"],
  [`${ALT} N`, "New chat"],
  [`${ALT} I`, "Go to what waits for you"],
  ["y  a  n", "Allow, always allow, deny (on a focused permission)"],
  ["/", "Write"],
  ["?", "This sheet"],
];

/** `actions`: escape, models, fresh, asks, write; each may be left out. */
export function listenForKeys(actions) {
  document.addEventListener("keydown", (event) => {
    const act = wanted(event, actions);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function wanted(event, { escape, models, fresh, asks, write }) {
  if (event.defaultPrevented || document.querySelector("dialog[open]")) return null;
  if (event.altKey) return { KeyN: fresh, KeyI: asks }[event.code];
  if (event.ctrlKey || event.metaKey) return { KeyK: models }[event.code];
  if (event.key === "Escape") return document.querySelector(":popover-open") ? null : escape;
  return isTyping(event) ? null : { "/": write, "?": showSheet }[event.key];
}

function showSheet() {
  const rows = SHEET.map(([keys, words]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, ...keys.split(" ").map((key) => (key ? h("kbd", {}, key) : " "))),
      h("td", {}, words),
    ),
  );
  const dialog = h(
    "dialog",
    {
      class: "dialog",
      "aria-label": "Keys",
      onclick: (event) => event.target === dialog && dialog.close(),
      onclose: () => dialog.remove(),
    },
    h("h2", {}, "Keys"),
    h("table", { class: "keys" }, h("tbody", {}, rows)),
    h("form", { method: "dialog", class: "actions" }, h("button", { autofocus: true }, "Close")),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** Go to the first thing that waits: here if there is one, else in the inbox. */
export function goToAsks(here) {
  const panel = document.querySelector("tl-inbox");
  if (here) here.focus();
  else panel.toggle(true);
}
