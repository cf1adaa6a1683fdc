// The dialog that asks for a key. It stays open until the key is correct.

import { login, setUnlock } from "./api.js";
import { h } from "./dom.js";

let asking = null;

setUnlock(() => {
  asking ??= askForKey().finally(() => (asking = null));
  return asking;
});

function askForKey() {
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password",
      id: "key",
      autocomplete: "current-password",
      required: true,
      data: { test: "key" },
    });
    const problem = h("p", { class: "field-problem", role: "alert", hidden: true });
    const form = h(
      "form",
      {},
      h("h2", {}, "This gateway is locked"),
      h(
        "p",
        { class: "muted" },
        "Enter your key. The gateway's own key is set in the environment variable TIELINE_KEY or in its configuration.",
      ),
      h("label", { htmlFor: "key", class: "hidden" }, "Key"),
      input,
      problem,
      h(
        "div",
        { class: "actions" },
        h("button", { type: "submit", class: "primary", data: { test: "unlock" } }, "Unlock"),
      ),
    );
    const dialog = h(
      "dialog",
      // Opened again: browsers close a dialog at the second Escape, even if `cancel` is prevented.
      { class: "dialog", "aria-label": "Key required", onclose: () => dialog.showModal() },
      form,
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await login(input.value);
        dialog.remove();
        resolve();
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        input.select();
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
