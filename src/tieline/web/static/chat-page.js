// The page at `/`: joins the side list, the conversation and the composer.

import { patch, post } from "./api.js";
import { setTitle } from "./attention.js";
import "./chat.js";
import { rememberChoice, rememberedChoice } from "./choices.js";
import { listenForCodeCopies } from "./clipboard.js";
import "./composer.js";
import { h, say } from "./dom.js";
import "./inbox.js";
import { live } from "./live.js";
import "./login.js";
import "./meter.js";
import { attempt, notify } from "./notices.js";
import "./sessions.js";
import { goToAsks, listenForKeys } from "./shortcuts.js";
import "./top-bar.js";

const [chat, composer, sessions, meter, top, title, welcome] = [
  "tl-chat",
  "tl-composer",
  "tl-sessions",
  "tl-meter",
  "tl-top",
  ".session-name",
  ".welcome",
].map((name) => document.querySelector(name));
const asked = new Set();
let current = null;

/** The conversation of the address, or the first page of a new one. */
function route() {
  const id = location.hash.slice(1) || null;
  show(id && live.sessions.has(id) ? id : null);
}

function show(id) {
  closeMenu();
  if (id === current && (id !== null || !chat.isEmpty)) return;
  current = id;
  sessions.current = id;
  composer.session = id;
  chat.open(id);
  describe();
  if (matchMedia("(hover: hover)").matches) composer.focus();
}

function open(id) {
  if ((location.hash.slice(1) || null) !== id) history.pushState(null, "", id ? `#${id}` : "/");
  show(id);
  closeMenu();
}

/** Everything round the conversation that says something about it. */
function describe() {
  const summary = live.sessions.get(current);
  say(title, summary?.title ?? "New chat");
  setTitle(summary?.title ?? "");
  meter.usage = summary?.usage;
  composer.isRunning = Boolean(summary?.running);
  composer.choice = summary ?? rememberedChoice(live.state);
  welcome.hidden = current !== null;
  suggest();
}

/** Suggestions that the selected model can follow. */
function suggest() {
  const { model } = rememberedChoice(live.state);
  const ideas = live.state.models.find(({ id }) => id === model)?.ideas ?? [];
  const shown = document.querySelector(".ideas");
  const isShown = ideas.length === shown.children.length && ideas.every((text, at) => shown.children[at].textContent === text);
  if (!isShown) shown.replaceChildren(...ideas.map(idea));
}

function idea(text) {
  const write = () => {
    composer.text = text;
    composer.focus();
  };
  return h("button", { type: "button", class: "idea", onclick: write }, text);
}

async function send({ text, images, files, putBack }) {
  try {
    if (current === null) await begin();
    await chat.send({ text, images, files });
  } catch (error) {
    putBack();
    notify(error.message, "bad");
  }
}

async function begin() {
  const { model, mode, effort } = rememberedChoice(live.state);
  if (!model) throw new Error("There is no model to ask. The page Connect says what is missing.");
  const summary = await post("/api/sessions", { model, ...(mode && { mode }), ...(effort && { effort }) });
  live.learn(summary);
  history.pushState(null, "", `#${summary.id}`);
  current = summary.id;
  sessions.current = current;
  composer.session = current;
  await chat.open(current);
  describe();
}

async function choose(change) {
  rememberChoice({ ...(live.sessions.get(current) ?? rememberedChoice(live.state)), ...change });
  suggest();
  if (current === null) return;
  const summary = await attempt(() => patch(`/api/sessions/${current}`, change));
  if (summary) live.learn(summary);
  describe();
}

function stop() {
  if (live.sessions.get(current)?.running) chat.stop();
}

/** An agent tells its modes in its first conversation. */
function learnModes({ model, running: isRunning }) {
  if (isRunning || asked.has(model) || !live.state.models.find(({ id }) => id === model)?.is_agent) return;
  asked.add(model);
  live.refresh();
}

function closeMenu() {
  document.body.classList.remove("shows-menu");
}

function listen() {
  sessions.addEventListener("open", (event) => open(event.detail));
  composer.addEventListener("send", (event) => send(event.detail));
  composer.addEventListener("stop", stop);
  composer.addEventListener("choose", (event) => choose(event.detail));
  top.addEventListener("menu", () => document.body.classList.toggle("shows-menu"));
  document.querySelector(".shade").addEventListener("click", closeMenu);
  document.querySelector(".to-end").addEventListener("click", () => chat.toEnd());
  addEventListener("hashchange", route);
  addEventListener("popstate", route);
  listenForCodeCopies(document.body);
  listenForKeys({
    escape: stop,
    models: () => composer.openModels(),
    fresh: () => open(null),
    asks: () => goToAsks(chat.firstAsk),
    write: () => composer.focus(),
  });
  live.on("state", (state) => {
    composer.state = state;
    say(
      document.querySelector(".workspace"),
      state.tools.enabled && state.tools.workspace ? `Tools work in ${state.tools.workspace}` : "",
    );
    describe();
  });
  live.on("session", (summary) => summary.id === current && describe());
  live.on("session", learnModes);
  live.on("gone", (id) => id === current && open(null));
  live.on("reset", () => current !== null && !live.sessions.has(current) && open(null));
}

listen();
await live.start();
route();
document.body.classList.remove("is-loading");
