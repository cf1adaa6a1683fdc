// <tl-backends>: where answers come from, and actions for the upstreams that were added on this page.

import { post, remove } from "./api.js";
import { confirmAction } from "./confirm-dialog.js";
import { h } from "./dom.js";
import { formField, showProblem } from "./form-field.js";
import { attempt, notify } from "./notices.js";
import { statusRow, withCode } from "./status-row.js";
import "./upstream-test.js";

const SOURCES = { configuration: "configuration", page: "added here" };

/** Call `show`. Fires `changed` after an upstream was changed or removed. */
class Backends extends HTMLElement {
  #list = h("ul", { class: "rows", data: { test: "backends" } });
  #shown = "";

  connectedCallback() {
    this.append(this.#list);
  }

  show(backends, added) {
    const facts = JSON.stringify([backends, added]);
    if (facts === this.#shown) return; // keep the outcome of a test
    this.#shown = facts;
    const byName = new Map(added.map((upstream) => [upstream.name, upstream]));
    const unused = added.filter(({ name }) => !backends.some((one) => one.name === name && one.source === "page"));
    const hadFocus = this.contains(document.activeElement);
    this.#list.replaceChildren(
      ...backends.map((backend) => this.#backend(backend, backend.source === "page" ? byName.get(backend.name) : null)),
      ...unused.map((upstream) => this.#unused(upstream)),
    );
    if (hadFocus) this.querySelector("button")?.focus();
  }

  #backend({ name, ready: isReady, text = "", lack = "", source = "" }, upstream) {
    const tags = [
      !isReady && h("span", { class: "tag is-repair" }, lack || "not ready"),
      SOURCES[source] && h("span", { class: "tag" }, SOURCES[source]),
    ];
    const about = isReady ? h("span", { class: "muted" }, withCode(text)) : h("p", { class: "lack" }, withCode(text));
    const note = upstream?.note && isReady ? h("p", { class: "lack" }, upstream.note) : "";
    const row = statusRow(isReady, name, [...tags, about, note], this.#actions(upstream));
    return h("li", { data: { test: "backend" } }, row);
  }

  #unused(upstream) {
    const what = [h("span", { class: "tag" }, SOURCES.page), h("p", { class: "lack" }, upstream.note)];
    const actions = h("div", { class: "row-actions" }, this.#removal(upstream));
    return h("li", { data: { test: "backend" } }, statusRow(false, upstream.name, what, actions));
  }

  #actions(upstream) {
    if (!upstream) return "";
    const { name } = upstream;
    const result = h("tl-upstream-test", { data: { test: "test-result" } });
    const test = h(
      "button",
      { type: "button", class: "small", "aria-label": `Test ${name}`, data: { test: "test-added" } },
      "Test",
    );
    test.addEventListener("click", async () => {
      test.disabled = true;
      result.begin();
      const model = upstream.models[0] ?? "";
      const tested = await attempt(() => post(`/api/upstreams/${encodeURIComponent(name)}/test`, { model }));
      if (tested) result.show(tested);
      else result.clear();
      test.disabled = false;
      if (document.activeElement === document.body) test.focus();
    });
    const verb = upstream.has_key ? "Replace" : "Set";
    const key = h(
      "button",
      {
        type: "button",
        class: "small",
        "aria-label": `${verb} the key of ${name}`,
        data: { test: "replace-key" },
        onclick: () => this.#setKey(name, verb),
      },
      `${verb} key`,
    );
    return h("div", { class: "row-actions" }, test, key, this.#removal(upstream), result);
  }

  #removal({ name }) {
    return h(
      "button",
      {
        type: "button",
        class: "small danger-quiet",
        "aria-label": `Remove ${name}`,
        data: { test: "remove-added" },
        onclick: () => this.#remove(name),
      },
      "Remove",
    );
  }

  async #remove(name) {
    const isSure = await confirmAction(
      `Remove ${name}?`,
      "Its models can no longer be used, and its key is deleted from this computer.",
      "Remove",
    );
    if (!isSure) return;
    const done = await attempt(() => remove(`/api/upstreams/${encodeURIComponent(name)}`));
    if (done) notify(`${name} was removed.`);
    this.dispatchEvent(new CustomEvent("changed"));
  }

  async #setKey(name, verb) {
    if (!(await askForNewKey(name, verb))) return;
    notify(`The key of ${name} was ${verb === "Set" ? "set" : "replaced"}.`);
    this.dispatchEvent(new CustomEvent("changed"));
  }
}

/** Ask for a new key and store it. Resolve to whether it was stored. */
function askForNewKey(name, verb) {
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password",
      autocomplete: "new-password",
      required: true,
      data: { test: "new-key" },
    });
    const fields = { key: formField(`New key of ${name}`, input) };
    const form = h(
      "form",
      { noValidate: true },
      h("h2", {}, `${verb} the key`),
      fields.key.element,
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close("") }, "Cancel"),
        h("button", { type: "submit", class: "primary", data: { test: "save-key" } }, "Save"),
      ),
    );
    const dialog = h(
      "dialog",
      {
        class: "dialog",
        "aria-label": `${verb} the key of ${name}`,
        onclose: () => (resolve(dialog.returnValue === "saved"), dialog.remove()),
      },
      form,
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (!key) {
        fields.key.problem = "Enter the new key.";
        return;
      }
      try {
        await post(`/api/upstreams/${encodeURIComponent(name)}/key`, { key });
        dialog.close("saved");
      } catch (error) {
        if (!showProblem(fields, error)) notify(error.message, "bad");
      }
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

customElements.define("tl-backends", Backends);
