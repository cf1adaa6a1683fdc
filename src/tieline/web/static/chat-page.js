// The Chat page: connects the session list, the conversation and the composer.

import { patch, post } from "./api.js";
import { setTitle } from "./notifications.js";
import "./chat.js";
import { rememberChoice, rememberedChoice } from "./model-choice.js";
import { listenForCodeCopies } from "./clipboard.js";
import "./composer.js";
import { h, setText } from "./dom.js";
import { chatPath, isEmbedded, ownWorkspace } from "./embed.js";
import { connectHost } from "./embed-page.js";
import "./examples.js";
import "./inbox.js";
import { live } from "./live-state.js";
import "./key-dialog.js";
import "./context-meter.js";
import { attempt, notify } from "./notices.js";
import { ofThisTab } from "./page-storage.js";
import "./session-list.js";
import { goToInboxItems, listenForKeys } from "./shortcuts.js";
import "./top-bar.js";

const DEMO = "demo";
const OPEN = `tieline-open:${ownWorkspace ?? ""}`; // the session that was shown before the editor reloaded the frame
const [chat, composer, sessions, meter, top, title, welcome, examples] = [
  "tl-chat",
  "tl-composer",
  "tl-sessions",
  "tl-meter",
  "tl-top",
  ".session-name",
  ".welcome",
  "tl-examples",
].map((name) => document.querySelector(name));
/** Ids of the models whose modes were fetched again after their first answer. */
const refreshed = new Set();
let current = null;
/** The promise of the session for the first message of a new chat, while it is being created. */
let beginning = null;

/** Show the session that the URL names, or a new chat. */
function route() {
  const id = location.hash.slice(1) || (isEmbedded && ofThisTab.getItem(OPEN)) || null;
  show(id && live.sessions.has(id) ? id : null);
}

function show(id) {
  closeMenu();
  if (id === current && (id !== null || !chat.isEmpty)) return;
  current = id;
  if (isEmbedded) ofThisTab.setItem(OPEN, id ?? "");
  sessions.current = id;
  composer.session = id;
  chat.open(id);
  describe();
  if (matchMedia("(hover: hover)").matches) composer.focus();
}

function open(id) {
  if ((location.hash.slice(1) || null) !== id) address(id);
  show(id);
  closeMenu();
}

/** Name a session in the address. A frame shares its history with the editor, so it adds nothing to it. */
function address(id) {
  history[isEmbedded ? "replaceState" : "pushState"](null, "", id ? `#${id}` : chatPath);
}

/** Update the elements around the conversation: title, token usage, composer and welcome text. */
function describe() {
  const summary = live.sessions.get(current);
  setText(title, summary?.title ?? "New chat");
  setTitle(summary?.title ?? "");
  meter.usage = summary?.usage;
  composer.isRunning = Boolean(summary?.running);
  composer.workspace = summary?.workspace ?? "";
  composer.choice = summary ?? rememberedChoice(live.state);
  welcome.hidden = current !== null;
  document.querySelector(".example-tag").hidden = !summary?.example;
  document.querySelector(".own-model").hidden = !summary?.example || hasOtherModels();
  suggest();
}

/** Return whether there is a model other than the demo model. */
const hasOtherModels = () => live.state.models.some(({ backend }) => backend !== DEMO);

/** Show suggestions for a first message to the selected model, and the examples of the demo model. */
function suggest() {
  const { model } = rememberedChoice(live.state);
  const chosen = live.state.models.find(({ id }) => id === model);
  // The examples work in a folder of their own, not in the workspace of an editor.
  examples.hidden = isEmbedded || chosen?.backend !== DEMO || live.state.examples.items.length === 0;
  examples.show(live.state.examples, hasOtherModels());
  welcome.classList.toggle("has-examples", !examples.hidden && examples.isOpen);
  const hasRoom = examples.hidden || !examples.isOpen || live.state.tools.enabled;
  const ideas = hasRoom ? (chosen?.ideas ?? []) : [];
  const shown = document.querySelector(".ideas");
  const before = [...shown.children].map(({ textContent }) => textContent);
  if (before.join("\n") !== ideas.join("\n")) shown.replaceChildren(...ideas.map(idea));
}

function idea(text) {
  const write = () => {
    composer.text = text;
    composer.focus();
  };
  return h("button", { type: "button", class: "idea", onclick: write }, text);
}

async function send({ text, images, files, putBack }) {
  let session = current;
  try {
    session ??= await (beginning ??= begin().finally(() => (beginning = null)));
    await chat.send(session, { text, images, files });
  } catch (error) {
    putBack(session);
    notify(error.message, "bad");
  }
}

async function begin() {
  const { model, mode, effort } = rememberedChoice(live.state);
  if (!model) throw new Error("No model is available. The Connect page shows what is missing.");
  return create({ model, ...(mode && { mode }), ...(effort && { effort }) });
}

async function startExample({ example: { text, model, mode }, done }) {
  try {
    const session = await create({ model, ...(mode && { mode }), example: true });
    await chat.send(session, { text, images: [], files: [] });
  } catch (error) {
    notify(error.message, "bad");
  } finally {
    done();
  }
}

/** Create a session and return its id. Show it, unless the user has opened another one in the meantime. */
async function create(settings) {
  const summary = await post("/api/sessions", settings);
  const { id } = summary;
  live.learn(summary);
  if (current !== null) return id;
  address(id);
  current = id;
  if (isEmbedded) ofThisTab.setItem(OPEN, id);
  sessions.current = id;
  if (settings.example) composer.session = id;
  else composer.begin(id);
  await chat.open(id);
  describe();
  return id;
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

/** Fetch the modes of an agent after its first answer. It reports them only in a conversation. */
function learnModes({ model, running: isRunning }) {
  if (isRunning || refreshed.has(model) || !live.state.models.find(({ id }) => id === model)?.is_agent) return;
  refreshed.add(model);
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
  examples.addEventListener("start", (event) => startExample(event.detail));
  examples.addEventListener("models", () => composer.openModels());
  examples.addEventListener("change", suggest);
  top.addEventListener("menu", () => document.body.classList.toggle("shows-menu"));
  document.querySelector(".shade").addEventListener("click", closeMenu);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the fragment of the address names a session
    composer.focus();
  });
  document.querySelector(".to-end").addEventListener("click", () => chat.toEnd());
  addEventListener("hashchange", route);
  addEventListener("popstate", route);
  listenForCodeCopies(document.body);
  listenForKeys({
    escape: stop,
    models: () => composer.openModels(),
    fresh: () => open(null),
    items: () => goToInboxItems(chat.firstItem),
    write: () => composer.focus(),
  });
  live.on("state", (state) => {
    composer.state = state;
    setText(
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
connectHost(composer);
await live.start();
route();
document.body.classList.remove("is-loading");
