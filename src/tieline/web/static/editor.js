// Lets a person write one of their messages anew, in the place where it stands.

import { h } from "./dom.js";

/** The new text, or null if they thought better of it. */
export function editor(turn) {
  return new Promise((resolve) => {
    const area = h("textarea", {
      class: "edit-area",
      value: turn.text,
      "aria-label": "Edit the message",
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
