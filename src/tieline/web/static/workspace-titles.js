// The titles of workspaces other than the default one, for pages that show the sessions and items of all of them.

import { get } from "./api.js";
import { isEmbedded } from "./embed.js";

const titles = new Map();
const listeners = new Set();
let loading = null;

/** Return the title of a workspace, or "" for the default one and in a frame, which shows only one workspace. */
export function workspaceTitle(name) {
  if (!name || isEmbedded) return "";
  if (!titles.has(name)) loading ??= load().finally(() => (loading = null));
  return titles.get(name) ?? name;
}

/** Call `listener` when titles have been fetched. Return a function that stops this. */
export function onWorkspaceTitles(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

async function load() {
  try {
    const { workspaces } = await get("/api/workspaces");
    const before = titles.size;
    for (const { name, title } of workspaces) titles.set(name, title || name);
    if (titles.size > before) listeners.forEach((listener) => listener());
  } catch {
    // The name of a workspace is shown instead of its title.
  }
}
