// Edits one of the user's messages in place.

import { h } from "./dom.js";

/** Show an editor for the message, and resolve to the new text, or to null if the user cancels. */
export function editMessage(turn) {
  return new Promise((resolve) => {
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
        h("button", { type: "button", class: "quiet", onclick: () => end(null) }, "Cancel"),
        h("button", { type: "submit", class: "primary", data: { test: "edit-send" } }, "Send as a new branch"),
      ),
    );
    const end = (text) => {
      form.remove();
      turn.classList.remove("is-edited");
      resolve(text);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (area.value.trim()) end(area.value);
    });
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") end(null);
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    turn.classList.add("is-edited");
    turn.prepend(form);
    area.style.height = `${area.scrollHeight + 2}px`;
    area.focus();
  });
}
