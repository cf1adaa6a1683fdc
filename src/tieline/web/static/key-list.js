// <tl-keys>: the stored keys of clients: a form that creates one, and buttons that rotate or revoke one.

import { get, post } from "./api.js";
import { copyText } from "./clipboard.js";
import { confirmAction } from "./confirm-dialog.js";
import { h } from "./dom.js";
import { formField } from "./form-field.js";
import { icon } from "./icons.js";
import { announce, attempt, notify } from "./notices.js";

const LIMITS = [
  ["requests_per_minute", "Requests per minute"],
  ["tokens_per_minute", "Tokens per minute"],
  ["tokens_per_day", "Tokens per day"],
  ["tokens_per_month", "Tokens per month"],
  ["cost_per_day", "Dollars per day"],
  ["cost_per_month", "Dollars per month"],
];
const SWITCHES = [
  ["tools", "The gateway's own tools"],
  ["agents", "Coding agents"],
  ["page", "This page"],
  ["admin", "Everything (admin)"],
];
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }); // the time is known only to the hour

class KeyList extends HTMLElement {
  #list = h("ul", { class: "rows", "aria-label": "Keys", tabIndex: -1, data: { test: "keys" } });
  #fields = {
    name: formField("Name", input("text", "key-name", { required: true })),
    models: formField("Models", input("text", "key-models"), {
      hint: "Patterns such as anthropic/*, separated by commas. Empty: all models.",
      optional: true,
    }),
    expires: formField("Last day", input("date", "key-expires"), { optional: true }),
    ...Object.fromEntries(
      LIMITS.map(([name, label]) => [
        name,
        formField(label, input("number", name, { min: 0, step: "any" }), { optional: true }),
      ]),
    ),
  };
  #switches = SWITCHES.map(([name, label]) => [
    name,
    label,
    h("input", { type: "checkbox", defaultChecked: name === "page", data: { test: `key-${name}` } }),
  ]);
  #create = h("button", { type: "submit", class: "primary", data: { test: "create-key" } }, "Create a key");
  #shown = h("div", { class: "setup-done", tabIndex: -1, hidden: true, data: { test: "new-key" } });

  connectedCallback() {
    const form = h(
      "form",
      { class: "setup-form", noValidate: true, autocomplete: "off", onsubmit: (event) => this.#submit(event) },
      h("h3", {}, "New key"),
      h("div", { class: "form-grid" }, Object.values(this.#fields).map(({ element }) => element)),
      h(
        "fieldset",
        { class: "key-switches" },
        h("legend", {}, "May use"),
        this.#switches.map(([, label, box]) => h("label", {}, box, " ", label)),
      ),
      h("div", { class: "actions" }, this.#create),
    );
    this.append(
      h(
        "section",
        { class: "connect-block", id: "keys" },
        h("h2", {}, "Keys"),
        h("p", { class: "muted" }, "Each client can have a key of its own, with permissions and limits."),
        this.#list,
        this.#shown,
        form,
      ),
    );
  }

  async load() {
    const found = await attempt(() => get("/api/keys"));
    if (!found) return;
    const hadFocus = this.#list.contains(document.activeElement);
    this.#list.replaceChildren(...found.keys.map((key) => this.#row(key)));
    if (hadFocus) this.#list.focus();
  }

  #row(key) {
    const used = key.last_used ? `last used on ${day.format(new Date(key.last_used * 1000))}` : "not used yet";
    const action = (label, run, danger = false) =>
      h(
        "button",
        {
          type: "button",
          class: danger ? "danger-quiet small" : "quiet small",
          "aria-label": `${label} ${key.name}`,
          data: { test: label.toLowerCase() },
          onclick: run,
        },
        label,
      );
    const buttons =
      key.state === "revoked"
        ? []
        : [action("Rotate", () => this.#rotate(key.name)), action("Revoke", () => this.#revoke(key.name), true)];
    return h(
      "li",
      { data: { test: "key-row", name: key.name } },
      h(
        "div",
        { class: "row" },
        h(
          "span",
          { class: "row-words" },
          h("strong", {}, key.name),
          key.state !== "valid" && h("span", { class: "muted" }, ` (${key.state})`),
          h("br"),
          h("span", { class: "muted" }, `${key.text}; ${used}`),
        ),
        buttons,
      ),
    );
  }

  async #submit(event) {
    event.preventDefault();
    const form = event.target;
    const fields = Object.values(this.#fields);
    for (const field of fields) field.problem = "";
    // The value of an unfinished number or date is empty, so the key would be created without this limit.
    const unfinished = fields.find(({ input: { validity } }) => validity.badInput);
    if (unfinished) {
      complain(unfinished, unfinished.input.validationMessage);
      return;
    }
    this.#create.disabled = true;
    try {
      this.#show(await post("/api/keys", { name: this.#fields.name.input.value.trim(), rules: this.#rules }));
      form.reset();
    } catch (error) {
      const field = this.#fields[error.param?.replace("rules.", "")];
      if (field) complain(field, error.message);
      else notify(error.message, "bad");
    } finally {
      this.#create.disabled = false;
    }
    await this.load();
  }

  get #rules() {
    const rules = Object.fromEntries(this.#switches.map(([name, , box]) => [name, box.checked]));
    const text = (name) => this.#fields[name].input.value.trim();
    rules.models = text("models")
      .split(",")
      .map((model) => model.trim())
      .filter(Boolean);
    if (text("expires")) rules.expires = text("expires");
    for (const [name] of LIMITS) if (text(name)) rules[name] = Number(text(name));
    return rules;
  }

  async #rotate(name) {
    const consequence = "Clients that use the old key stop working at once. The new key is shown only once.";
    if (!(await confirmAction(`Replace the key ${name}?`, consequence, "Replace"))) return;
    const made = await attempt(() => post(`/api/keys/${encodeURIComponent(name)}/rotate`));
    if (made) this.#show(made);
    await this.load();
  }

  async #revoke(name) {
    const consequence = "Clients that use it stop working at once. This cannot be undone.";
    if (!(await confirmAction(`Revoke the key ${name}?`, consequence, "Revoke"))) return;
    const revoked = await attempt(() => post(`/api/keys/${encodeURIComponent(name)}/revoke`));
    await this.load();
    if (revoked) announce(`The key ${name} was revoked.`);
  }

  #show({ name, key }) {
    const copy = h("button", { type: "button", class: "primary" }, icon("copy"), h("span", {}, "Copy"));
    copy.addEventListener("click", () => copyText(key, copy));
    const hide = () => {
      this.#shown.replaceChildren();
      this.#shown.hidden = true;
    };
    this.#shown.replaceChildren(
      h("p", {}, "The key of ", h("strong", {}, name), " is shown only once:"),
      h("pre", { class: "dialog-command", data: { test: "key-value" } }, key),
      h("div", { class: "actions" }, h("button", { type: "button", class: "quiet", onclick: hide }, "Done"), copy),
    );
    this.#shown.hidden = false;
    this.#shown.focus();
    announce(`The key of ${name} is shown.`);
  }
}

function complain(field, text) {
  field.problem = text;
  field.input.focus();
}

function input(type, test, more = {}) {
  return h("input", { type, spellcheck: false, data: { test }, ...more });
}

customElements.define("tl-keys", KeyList);
