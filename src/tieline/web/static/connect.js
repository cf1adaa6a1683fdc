// <tl-connect>: models and how to add them, the Cursor login, agents, settings for clients, and granted rules.

import { get } from "./api.js";
import "./agent-list.js";
import "./backend-list.js";
import "./client-settings.js";
import "./cursor-login.js";
import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { live } from "./live-state.js";
import { attempt } from "./notices.js";
import "./granted-rules.js";
import "./upstream-form.js";

const ADD = "#add-model";
const AGENTS = "acp"; // This backend is shown only if it is ready: agents have their own list.

class Connect extends HTMLElement {
  #backends = document.createElement("tl-backends");
  #form = document.createElement("tl-upstream-form");
  #add = h(
    "button",
    { type: "button", class: "primary", data: { test: "add-model" }, onclick: () => this.#openForm() },
    icon("plus"),
    h("span", {}, "Add a model"),
  );
  #cursor = h("tl-cursor", { data: { test: "cursor" } });
  #agents = document.createElement("tl-agents");
  #clients = document.createElement("tl-clients");
  #rules = document.createElement("tl-rules");
  #loading = null;

  connectedCallback() {
    this.append(
      block(
        "models",
        "Models",
        "Where answers come from. Add a provider with its key, or a server on this computer.",
        this.#backends,
        h("div", { class: "actions setup-actions", id: ADD.slice(1) }, this.#add),
        this.#form,
      ),
      block("cursor-account", "Cursor", "The models of your Cursor account.", this.#cursor),
      block("agents", "Agents", "Coding agents on this computer that can be used like models.", this.#agents),
      block(
        "clients",
        "Clients",
        "Choose your client and a model, and copy the settings. The address is filled in.",
        this.#clients,
      ),
      block("rules", "Always allowed", "What tools may do in this workspace without asking.", this.#rules),
    );
    this.#form.addEventListener("added", () => this.#changed());
    this.#form.addEventListener("closed", () => this.#closeForm());
    this.#backends.addEventListener("changed", () => this.#changed());
    this.#agents.addEventListener("changed", () => live.refresh());
    addEventListener("hashchange", () => location.hash === ADD && this.#openForm());
  }

  /** Fetch and show the facts. Of several calls, only the last one counts; the others wait for it. */
  load() {
    const { query } = this.#clients;
    const loading = attempt(() => get(`/api/connect${query}`)).then((facts) => {
      if (loading !== this.#loading) return this.#loading;
      return facts && this.#show(facts, query);
    });
    this.#loading = loading;
    return loading;
  }

  #show(facts, query) {
    const { setup } = facts;
    setText(document.querySelector(".address"), facts.address);
    document.querySelector(".key-needed").hidden = !facts.key_needed;
    const backends = facts.backends.filter(({ name, ready: isReady }) => isReady || name !== AGENTS);
    this.#backends.show(backends, setup?.added ?? []);
    if (setup) this.#form.show(setup.presets, facts.backends.map(({ name }) => name));
    this.#add.hidden = !setup || !this.#form.hidden;
    this.#agents.show(facts.agents, setup?.installation ?? null);
    this.#agents.closest("section").hidden = facts.agents.length === 0;
    this.#cursor.closest("section").hidden = facts.cursor.state === "off";
    this.#cursor.show(facts.cursor);
    if (query === this.#clients.query) this.#clients.show(facts.snippets, facts.model);
    if (live.state.tools.enabled) this.#rules.load();
  }

  /** Open the form if the address asks for it. Call this once, when the page is shown. */
  start() {
    if (location.hash === ADD && !this.#add.hidden) this.#openForm();
  }

  #openForm() {
    if (this.#add.hidden && this.#form.hidden) return;
    this.#add.hidden = true;
    this.#form.open();
  }

  #closeForm() {
    this.#add.hidden = false;
    this.#add.focus();
  }

  async #changed() {
    await live.refresh();
  }
}

function block(id, title, about, ...content) {
  return h("section", { class: "connect-block", id }, h("h2", {}, title), h("p", { class: "muted" }, about), content);
}

customElements.define("tl-connect", Connect);
