// Connects the Chat page with the editor that frames it: theme, attachments, text, focus, links and state.

import { isEmbedded, onHostMessage, tellHost } from "./embed.js";
import { applyTheme } from "./embed-theme.js";
import { live } from "./live-state.js";

const MAX_FILES = 20; // per message, as in the gateway

/** Handle messages from the editor, and report the state of the page to it. */
export function connectHost(composer) {
  if (!isEmbedded) return;
  const actions = {
    theme: applyTheme,
    attach: ({ files }) => attach(composer, files),
    insert: ({ text }) => typeof text === "string" && composer.insert(text),
    focus: () => composer.focus(),
  };
  onHostMessage((message) => Object.hasOwn(actions, message.type) && actions[message.type](message));
  openLinksOutside();
  tellState();
  tellHost({ type: "ready" });
}

function attach(composer, files) {
  if (!Array.isArray(files)) return;
  files.filter((path) => typeof path === "string" && path).slice(0, MAX_FILES).forEach((path) => composer.attach(path));
  composer.focus();
}

/** Let the editor open links. A frame can neither be navigated nor open a window. */
function openLinksOutside() {
  const open = (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link) return;
    const { href, origin, pathname, search, hash, protocol } = new URL(link.href);
    if (origin === location.origin && pathname === location.pathname) return;
    event.preventDefault();
    if (origin === location.origin) tellHost({ type: "openExternal", path: pathname + search + hash });
    else if (protocol === "http:" || protocol === "https:") tellHost({ type: "openExternal", path: href });
  };
  addEventListener("click", open);
  addEventListener("auxclick", open);
}

/** Tell the editor whether an answer is in progress, and how many sessions there are. */
function tellState() {
  let told = "";
  const tell = () => {
    const running = [...live.sessions.values()].some((summary) => summary.running);
    const state = { type: "state", running, sessions: live.sessions.size };
    if (JSON.stringify(state) === told) return;
    told = JSON.stringify(state);
    tellHost(state);
  };
  for (const type of ["state", "session", "gone"]) live.on(type, tell);
}
