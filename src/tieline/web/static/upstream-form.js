// <tl-upstream-form>: adds a model provider: its address, its key and a test. The key is sent once and never shown.

import { post } from "./api.js";
import { h } from "./dom.js";
import { formField, showProblem } from "./form-field.js";
import { rememberChoice } from "./model-choice.js";
import { announce, notify } from "./notices.js";
import "./picker.js";
import "./upstream-test.js";

const PLAIN = "This address does not use TLS: anyone on the network path can read the key and your messages.";
const COST = "The test makes one short request to a model, which may cost a fraction of a cent.";

/** Call `show` with the presets and the names in use. Fires `added` after an upstream was added. */
class UpstreamForm extends HTMLElement {
  #presets = [];
  #taken = [];
  #tested = null;
  #provider = h("select", { name: "provider", data: { test: "provider" }, onchange: () => this.#choose() });
  #fields = {
    provider: formField("Provider", this.#provider),
    key: formField("API key", this.#input("password", "api-key", { autocomplete: "new-password" })),
    base_url: formField("Address", this.#input("url", "base-url", { placeholder: "https://host/v1" })),
    name: formField("Name", this.#input("text", "name"), { hint: "Its models are called name/model." }),
    models: formField("Models", this.#input("text", "models"), {
      hint: "Only if the server does not list them: names, separated by commas.",
      optional: true,
    }),
  };
  #result = h("tl-upstream-test", { data: { test: "test-result" } });
  #model = Object.assign(document.createElement("tl-picker"), { label: "Model for the test" });
  #again = h(
    "div",
    { class: "test-model", hidden: true },
    h("span", { class: "muted" }, "Test with another model:"),
    this.#model,
  );
  #test = h("button", { type: "button", data: { test: "test" }, onclick: () => this.#runTest() }, "Test");
  #add = h("button", { type: "submit", class: "primary", data: { test: "add" } }, "Add");
  #close = h("button", { type: "button", class: "quiet", onclick: () => this.close() }, "Cancel");
  #form = h(
    "form",
    { class: "setup-form", noValidate: true, autocomplete: "off" },
    h("h3", {}, "Add a model"),
    h("div", { class: "form-grid" }, Object.values(this.#fields).map(({ element }) => element)),
    h("p", { class: "form-hint muted" }, COST),
    this.#result,
    this.#again,
    h("div", { class: "actions" }, this.#close, this.#test, this.#add),
  );
  #done = h("div", { class: "setup-done", tabIndex: -1, hidden: true, data: { test: "added" } });

  connectedCallback() {
    this.append(this.#form, this.#done);
    this.#form.addEventListener("submit", (event) => this.#submit(event));
    this.#model.addEventListener("pick", (event) => this.#runTest(event.detail));
    this.hidden = true;
  }

  show(presets, taken) {
    this.#taken = taken;
    if (this.#presets.length === presets.length) return;
    this.#presets = presets;
    this.#provider.replaceChildren(...presets.map(({ id, title }) => h("option", { value: id }, title)));
    this.#choose();
  }

  open() {
    this.hidden = false;
    this.#done.hidden = true;
    this.#form.hidden = false;
    this.scrollIntoView({ block: "nearest" });
    this.#provider.focus();
  }

  close() {
    this.#reset();
    this.hidden = true;
    this.dispatchEvent(new CustomEvent("closed"));
  }

  #input(type, test, more = {}) {
    return h("input", { type, spellcheck: false, data: { test }, oninput: () => this.#changed(), ...more });
  }

  /** Fill in the settings of the chosen provider. */
  #choose() {
    const preset = this.#preset;
    const { base_url: address, name, key, models } = this.#fields;
    address.input.value = preset.base_url;
    name.input.value = this.#freeName(preset.name ?? preset.id);
    key.input.required = preset.key === "required";
    key.hint = preset.key === "required" ? "" : "Leave it empty if the server needs none.";
    models.input.value = "";
    this.#changed();
  }

  get #preset() {
    return this.#presets.find(({ id }) => id === this.#provider.value) ?? this.#presets[0];
  }

  #freeName(name) {
    if (!name || !this.#taken.includes(name)) return name;
    for (let number = 2; ; number += 1) if (!this.#taken.includes(`${name}-${number}`)) return `${name}-${number}`;
  }

  /** Discard the outcome of the last test, which no longer applies. */
  #changed() {
    for (const field of Object.values(this.#fields)) field.problem = "";
    this.#fields.base_url.hint = isPlain(this.#fields.base_url.input.value) ? PLAIN : "";
    this.#fields.base_url.element.classList.toggle("is-warning", isPlain(this.#fields.base_url.input.value));
    this.#tested = null;
    this.#result.clear();
    this.#again.hidden = true;
  }

  get #entered() {
    const value = (name) => this.#fields[name].input.value.trim();
    const models = value("models")
      .split(",")
      .map((model) => model.trim())
      .filter(Boolean);
    const [name, address, key] = ["name", "base_url", "key"].map(value);
    return { provider: this.#provider.value, name, base_url: address, key, models };
  }

  /** Return whether a required key is missing, and say so. */
  #lacksKey() {
    const { key } = this.#fields;
    if (!key.input.required || key.input.value.trim()) return false;
    key.problem = `Enter the API key of ${this.#preset.title}.`;
    key.input.focus();
    return true;
  }

  async #runTest(model = "") {
    if (this.#lacksKey()) return;
    const entered = this.#entered;
    this.#result.begin();
    await this.#busy(this.#test, async () => {
      const tested = await post("/api/upstream-test", { ...entered, model: model || entered.models[0] || "" });
      if (JSON.stringify(entered) !== JSON.stringify(this.#entered)) return;
      this.#tested = tested;
      this.#result.show(tested);
      this.#model.options = tested.models.map((id) => ({ value: id, label: id }));
      this.#model.value = tested.model || null;
      this.#again.hidden = tested.models.length < 2;
    });
  }

  async #submit(event) {
    event.preventDefault();
    if (this.#lacksKey()) return;
    const entered = this.#entered;
    await this.#busy(this.#add, async () => {
      await post("/api/upstreams", entered);
      this.#taken = [...this.#taken, entered.name];
      this.#showDone(entered.name, this.#tested?.model || entered.models[0] || "");
      this.#reset();
      this.dispatchEvent(new CustomEvent("added", { detail: entered.name }));
    });
  }

  async #busy(button, work) {
    this.#test.disabled = this.#add.disabled = true;
    try {
      await work();
    } catch (error) {
      this.#result.clear();
      if (!showProblem(this.#fields, error)) notify(error.message, "bad");
    } finally {
      this.#test.disabled = this.#add.disabled = false;
      if (document.activeElement === document.body && !this.#form.hidden) button.focus();
    }
  }

  #showDone(name, model) {
    const chat = () => {
      if (model) rememberChoice({ model: `${name}/${model}`, mode: null, effort: null });
      location.href = "/";
    };
    this.#form.hidden = true;
    this.#done.hidden = false;
    this.#done.replaceChildren(
      h("p", {}, h("strong", {}, name), " was added. Its models can be used now, on this page and by all clients."),
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", class: "quiet", onclick: () => this.open() }, "Add another"),
        h(
          "button",
          { type: "button", class: "primary", data: { test: "chat-now" }, onclick: chat },
          model ? `Chat with ${model}` : "Chat",
        ),
      ),
    );
    this.#done.focus();
    announce(`${name} was added.`);
  }

  #reset() {
    for (const name of ["key", "models"]) this.#fields[name].input.value = "";
    this.#provider.selectedIndex = 0;
    if (this.#presets.length) this.#choose();
  }
}

/** Return whether requests to an address cross a network without encryption. */
function isPlain(address) {
  try {
    const { protocol, hostname } = new URL(address);
    return protocol === "http:" && !/^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
  } catch {
    return false;
  }
}

customElements.define("tl-upstream-form", UpstreamForm);
