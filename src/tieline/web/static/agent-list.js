// <tl-agents>: the coding agents on this computer, and the installation of others.

import { get, post, remove } from "./api.js";
import { confirmAction } from "./confirm-dialog.js";
import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { announce, attempt } from "./notices.js";
import { statusRow } from "./status-row.js";

const POLL = 1000;

/** Call `show`. Fires `changed` after an installation. */
class Agents extends HTMLElement {
  #list = h("ul", { class: "rows", data: { test: "agents" } });
  #title = h("strong");
  #lamp = h("span", { class: "lamp", role: "img" });
  #state = h("p", { role: "status", data: { test: "install-state" } });
  #output = h("pre", { class: "install-output", tabIndex: 0, "aria-label": "Output of the installation" });
  #cancel = h(
    "button",
    { type: "button", class: "small", hidden: true, data: { test: "install-cancel" }, onclick: () => this.#stop() },
    "Cancel",
  );
  #progress = h(
    "div",
    { class: "install rows", hidden: true, data: { test: "install" } },
    h("div", { class: "row" }, this.#lamp, h("div", { class: "row-words" }, this.#title, this.#state), this.#cancel),
    this.#output,
  );
  #agents = [];
  #canInstall = false;
  #shown = "";
  #isRunning = false;
  #timer = 0;

  connectedCallback() {
    this.append(this.#progress, this.#list);
  }

  /** Show the agents. `installation` is the latest installation, or null if the page may not install agents. */
  show(agents, installation) {
    this.#agents = agents;
    this.#canInstall = installation !== null;
    const facts = JSON.stringify([agents, this.#canInstall]);
    if (facts !== this.#shown) this.#render(); // otherwise keep the focus, and what is open
    this.#shown = facts;
    if (installation) this.#follow(installation);
  }

  #render() {
    const [ready, others] = [this.#agents.filter((one) => one.ready), this.#agents.filter((one) => !one.ready)];
    const wasOpen = this.#list.querySelector(":scope > .fold-row > details")?.open ?? false;
    const summary = ready.length
      ? `${others.length} more can be installed`
      : `None installed yet; ${others.length} can be installed`;
    const rest = others.length
      ? h(
          "li",
          { class: "fold-row" },
          h(
            "details",
            { open: wasOpen, data: { test: "other-agents" } },
            h("summary", {}, summary),
            h(
              "ul",
              {},
              others.map((agent) => this.#agent(agent)),
            ),
          ),
        )
      : "";
    this.#list.replaceChildren(...ready.map((agent) => this.#agent(agent)), rest);
  }

  #agent(agent) {
    const { title, id, ready: isReady, install = "", login = "", command = "" } = agent;
    const steps = isReady
      ? [["If you need to log in:", login]]
      : [
          ["Install:", install],
          ["Then log in:", login],
        ];
    const lines = steps.filter(([, line]) => line).map(([label, line]) => todoLine(label, line));
    if (!isReady && command && this.#canInstall) lines.push(this.#button(agent));
    const todo = h("div", { class: "todo" }, lines);
    const extra = isReady ? h("details", { class: "fold" }, h("summary", {}, "Log in"), todo) : todo;
    const name = h("span", { class: "muted" }, `acp/${id}`);
    return h("li", { data: { test: "agent" } }, statusRow(isReady, title, name, extra));
  }

  #button(agent) {
    return h(
      "button",
      {
        type: "button",
        class: "small",
        disabled: this.#isRunning,
        "aria-label": `Install ${agent.title}`,
        data: { test: `install-${agent.id}` },
        onclick: () => this.#install(agent),
      },
      "Install…",
    );
  }

  async #install({ id, title, command }) {
    const isSure = await confirmAction(
      `Install ${title}?`,
      "This command runs on your computer, with your permissions. It downloads programs from the internet:",
      "Install",
      { command, isDangerous: false },
    );
    if (!isSure) return;
    const installation = await attempt(() => post("/api/agents/install", { agent: id, command }));
    if (installation) this.#follow(installation);
    this.#progress.scrollIntoView({ block: "nearest" });
  }

  /** Show an installation, and ask for its progress until it is over. */
  #follow(installation) {
    const { state, agent, output, text, command } = installation;
    const wasRunning = this.#isRunning;
    this.#isRunning = state === "running";
    this.#progress.hidden = state === "none";
    const title = this.#agents.find(({ id }) => id === agent)?.title ?? agent;
    setText(this.#title, this.#isRunning ? `Installing ${title}` : title);
    setText(this.#state, this.#isRunning ? "This may take some minutes." : text);
    this.#state.className = state === "failed" ? "trouble" : "muted";
    this.#lamp.className = `lamp ${this.#isRunning ? "is-busy" : state === "done" ? "is-on" : ""}`;
    const name = this.#isRunning ? "installing" : state === "done" ? "ready" : "not installed";
    this.#lamp.setAttribute("aria-label", name);
    this.#cancel.hidden = !this.#isRunning;
    const isAtEnd = this.#output.scrollTop + this.#output.clientHeight >= this.#output.scrollHeight - 4;
    setText(this.#output, `$ ${command}\n${output}`);
    if (isAtEnd) this.#output.scrollTop = this.#output.scrollHeight;
    if (wasRunning !== this.#isRunning) this.#render();
    clearTimeout(this.#timer);
    if (this.#isRunning) this.#timer = setTimeout(() => this.#poll(), POLL);
    else if (wasRunning) {
      announce(text);
      this.dispatchEvent(new CustomEvent("changed"));
    }
  }

  async #poll() {
    try {
      this.#follow(await get("/api/agents/install"));
    } catch {
      this.#timer = setTimeout(() => this.#poll(), POLL);
    }
  }

  async #stop() {
    this.#cancel.disabled = true;
    const installation = await attempt(() => remove("/api/agents/install"));
    this.#cancel.disabled = false;
    if (installation) this.#follow(installation);
  }
}

function todoLine(label, command) {
  return h(
    "div",
    { class: "code todo-line" },
    h("span", { class: "muted" }, label),
    h("pre", {}, command),
    h("button", { type: "button", class: "quiet small copy-code", "aria-label": `Copy: ${command}` }, icon("copy")),
  );
}

customElements.define("tl-agents", Agents);
