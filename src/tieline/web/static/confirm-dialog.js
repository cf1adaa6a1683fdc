// A dialog that asks the user to confirm an action.

import { h } from "./dom.js";

/** Show a question with the consequence of an action, and resolve to whether the user confirmed.
 *
 * If the action runs a `command`, the command is shown in full, and "Cancel" has the focus. */
export function confirmAction(question, consequence, action, { command = "", isDangerous = true } = {}) {
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
        command && h("pre", { class: "dialog-command", data: { test: "command" } }, command),
        h(
          "div",
          { class: "actions" },
          h("button", { value: "no", class: "quiet", autofocus: command !== "" }, "Cancel"),
          h(
            "button",
            {
              value: "yes",
              class: isDangerous ? "danger" : "primary",
              autofocus: command === "",
              data: { test: "confirm" },
            },
            action,
          ),
        ),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  });
}
