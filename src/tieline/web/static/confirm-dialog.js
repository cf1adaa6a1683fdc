// A dialog that asks for confirmation before an action that cannot be undone.

import { h } from "./dom.js";

/** Show a question with the consequence of an action, and resolve to whether the user confirmed.
 *
 * A `command` that would be run is shown in full. Then, the button that confirms does not have the focus. */
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
