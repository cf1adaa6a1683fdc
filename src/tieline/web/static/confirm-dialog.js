// A dialog that asks for confirmation before an action that cannot be undone.

import { h } from "./dom.js";

/** Show a question with the consequence of an action, and resolve to whether the user confirmed. */
export function confirmAction(question, consequence, action) {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog",
      {
        class: "dialog",
        "aria-label": question,
        onclose: () => (resolve(dialog.returnValue === "yes"), dialog.remove()),
      },
      h(
        "form",
        { method: "dialog" },
        h("h2", {}, question),
        h("p", { class: "muted" }, consequence),
        h(
          "div",
          { class: "actions" },
          h("button", { value: "no", class: "quiet" }, "Cancel"),
          h("button", { value: "yes", class: "danger", autofocus: true, data: { test: "confirm" } }, action),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}
