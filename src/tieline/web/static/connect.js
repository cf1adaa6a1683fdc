// <tl-connect>: settings for clients, the state of backends and agents, the Cursor login, and granted rules.

import { get } from "./api.js";
import "./cursor-login.js";
import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { live } from "./live-state.js";
import { attempt } from "./notices.js";
import "./granted-rules.js";

class Connect extends HTMLElement {
  #backends = h("ul", { class: "rows", data: { test: "backends" } });
  #agents = h("ul", { class: "rows", data: { test: "agents" } });
  #cursor = h("tl-cursor", { data: { test: "cursor" } });
  #tabs = h("div", { class: "snippet-tabs", role: "tablist", "aria-label": "Clients" });
  #snippet = h("div", { class: "snippet", role: "tabpanel", data: { test: "snippet" } });
  #rules = document.createElement("tl-rules");
  #snippets = [];
  #chosen = location.hash.slice(1);

  connectedCallback() {
    this.#tabs.addEventListener("keydown", (event) => this.#key(event));
    this.append(
      block(
        "Clients",
        "Copy the settings for your client. The address and a model are filled in.",
        h("div", { class: "snippets", id: "snippets" }, this.#tabs, this.#snippet),
      ),
      block("Backends", "Where answers come from.", this.#backends),
      block("Cursor", "", this.#cursor),
      block("Agents", "Coding agents on this computer that can be used like models.", this.#agents),
      block("Always allowed", "What tools may do in this workspace without asking.", this.#rules),
    );
  }

  async load() {
    const facts = await attempt(() => get("/api/connect"));
    if (!facts) return;
    setText(document.querySelector(".address"), facts.address);
    document.querySelector(".key-needed").hidden = !facts.key_needed;
    this.#backends.replaceChildren(...facts.backends.map(backend));
    this.#showAgents(facts.agents);
    this.#showCursor(facts.cursor);
    this.#showSnippets(facts.snippets);
    if (live.state.tools.enabled) this.#rules.load();
  }

  #showAgents(agents) {
    const [ready, others] = [agents.filter((one) => one.ready), agents.filter((one) => !one.ready)];
    const wasOpen = this.#agents.querySelector(":scope > .fold-row > details")?.open ?? false;
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
            h("ul", {}, others.map(agent)),
          ),
        )
      : "";
    this.#agents.replaceChildren(...ready.map(agent), rest);
    this.#agents.closest("section").hidden = agents.length === 0;
  }

  #showCursor(cursor) {
    this.#cursor.closest("section").hidden = cursor.state === "off";
    this.#cursor.show(cursor);
  }

  #showSnippets(snippets) {
    this.#snippets = snippets;
    if (!snippets.some(({ id }) => id === this.#chosen)) this.#chosen = snippets[0]?.id;
    this.#tabs.replaceChildren(
      ...snippets.map(({ id, title }) =>
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            role: "tab",
            id: `tab-${id}`,
            "aria-selected": String(id === this.#chosen),
            tabIndex: id === this.#chosen ? 0 : -1,
            data: { test: `snippet-${id}` },
            onclick: () => this.#choose(id),
          },
          title,
        ),
      ),
    );
    this.#showSnippet();
  }

  #choose(id) {
    this.#chosen = id;
    history.replaceState(null, "", `#${id}`);
    for (const tab of this.#tabs.children) {
      const isChosen = tab.id === `tab-${id}`;
      tab.setAttribute("aria-selected", String(isChosen));
      tab.tabIndex = isChosen ? 0 : -1;
    }
    this.#showSnippet();
  }

  #showSnippet() {
    const snippet = this.#snippets.find(({ id }) => id === this.#chosen);
    if (!snippet) return;
    this.#snippet.setAttribute("aria-labelledby", `tab-${snippet.id}`);
    const copy = h(
      "button",
      { type: "button", class: "quiet small copy-code", "aria-label": "Copy" },
      icon("copy"),
      h("span", {}, "Copy"),
    );
    this.#snippet.replaceChildren(
      snippet.about ? h("p", { class: "muted" }, snippet.about) : "",
      snippet.text &&
        h(
          "div",
          { class: "code" },
          h("div", { class: "code-head" }, h("span", { class: "code-language" }, snippet.language ?? ""), copy),
          h("pre", { tabIndex: 0 }, h("code", {}, snippet.text)),
        ),
    );
  }

  #key(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const tabs = [...this.#tabs.children];
    const next = tabs[(tabs.indexOf(event.target) + by + tabs.length) % tabs.length];
    next.click();
    next.focus();
  }
}

function block(title, about, content) {
  return h(
    "section",
    { class: "connect-block" },
    h("h2", {}, title),
    about && h("p", { class: "muted" }, about),
    content,
  );
}

function backend({ name, ready, text = "", lack = "" }) {
  const what = withCode(text);
  return h(
    "li",
    { data: { test: "backend" } },
    ready
      ? row(true, name, what, "")
      : row(false, name, h("span", { class: "tag is-repair" }, lack || "not ready"), h("p", { class: "lack" }, what)),
  );
}

/** Create a text in which the parts between backticks are formatted as code. */
function withCode(text) {
  return h(
    "span",
    {},
    text.split("`").map((piece, at) => (at % 2 ? h("code", {}, piece) : piece)),
  );
}

function agent({ title, id, ready, install = "", login = "" }) {
  const steps = ready
    ? [["If you need to log in:", login]]
    : [
        ["Install:", install],
        ["Then log in:", login],
      ];
  const todo = h(
    "div",
    { class: "todo" },
    steps
      .filter(([, command]) => command)
      .map(([label, command]) =>
        h(
          "div",
          { class: "code todo-line" },
          h("span", { class: "muted" }, label),
          h("pre", {}, command),
          h(
            "button",
            { type: "button", class: "quiet small copy-code", "aria-label": `Copy: ${command}` },
            icon("copy"),
          ),
        ),
      ),
  );
  const extra = ready ? h("details", { class: "fold" }, h("summary", {}, "Log in"), todo) : todo;
  return h("li", { data: { test: "agent" } }, row(ready, title, `acp/${id}`, extra));
}

function row(isReady, title, text, extra) {
  return h(
    "div",
    { class: "row" },
    h("span", { class: `lamp ${isReady ? "is-on" : ""}`, role: "img", "aria-label": isReady ? "ready" : "not ready" }),
    h("div", { class: "row-words" }, h("strong", {}, title), h("span", { class: "muted" }, text), extra),
  );
}

customElements.define("tl-connect", Connect);
