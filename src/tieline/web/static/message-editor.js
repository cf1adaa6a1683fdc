// Edits one of the user's messages in place.

import { h } from "./dom.js";

/** Show an editor for the message. It is closed when the user cancels, or when `send(text)` resolves to true. */
export function editMessage(turn, send) {
  const area = h("textarea", {
    class: "edit-area",
    value: turn.text,
    "aria-label": "Edit message",
    data: { test: "edit" },
  });
  const form = h(
    "form",
    { class: "edit-form" },
    area,
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", class: "quiet", onclick: () => close() }, "Cancel"),
      h("button", { type: "submit", class: "primary", data: { test: "edit-send" } }, "Send as a new branch"),
    ),
  );
  let isSending = false;
  const close = () => {
    form.remove();
    turn.classList.remove("is-edited");
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isSending || !area.value.trim()) return;
    isSending = true;
    if (await send(area.value)) close();
    isSending = false;
  });
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) form.requestSubmit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  turn.classList.add("is-edited");
  turn.prepend(form);
  area.style.height = `${area.scrollHeight + 2}px`;
  area.focus();
}
