// Sends JSON requests to the gateway. Every request that changes something carries the page's token.
//
// If the gateway has a key, the page exchanges it for a pass. The pass is kept in the local storage of this origin,
// which pages from other ports of the host cannot read, and is sent in a header. A cookie would be sent to all ports.
// A page in a frame of an editor gets its pass with the page, and keeps it only until the editor's window is closed.

import { isEmbedded, ownPass, ownWorkspace } from "./embed.js";
import { lasting, ofThisTab } from "./page-storage.js";

const PASS = "tieline-pass";
const passes = isEmbedded ? ofThisTab : lasting;

if (ownPass) passes.setItem(PASS, ownPass);

let token = "";
let unlock = null;

/** An error reported by the gateway. */
export class ApiError extends Error {
  constructor(status, { message, param = null }) {
    super(message);
    this.status = status;
    this.param = param; // the field that caused it
  }
}

/** Set the function that asks the user for the gateway's key. It must resolve when the key is correct. */
export function setUnlock(askForKey) {
  unlock = askForKey;
}

/** Fetch something, of a workspace if one is given. A page in a frame has a workspace of its own. */
export const get = (path, workspace = "") => call("GET", path, undefined, workspace);
export const post = (path, body = {}) => call("POST", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);

/** Fetch the state of the gateway, and keep its token, which changes when the gateway restarts. */
export async function getState() {
  const state = await call("GET", "/api/state");
  token = state.token;
  return state;
}

/** Exchange the gateway's key for a pass, and store the pass. */
export async function login(key) {
  const response = await send("POST", "/api/login", { key });
  if (!response.ok) throw new ApiError(response.status, await readError(response));
  const { pass = "" } = await response.json();
  passes.setItem(PASS, pass);
}

/** Return the headers with the pass, if there is one, and with the workspace, if the request is limited to one. */
export function accessHeaders(workspace = "") {
  const pass = passes.getItem(PASS);
  const name = ownWorkspace ?? (workspace || null);
  return { ...(pass && { "x-tieline-pass": pass }), ...(name !== null && { "x-tieline-workspace": name }) };
}

/** Ask the user for the key, after the gateway has refused the stream. */
export async function locked() {
  if (unlock) await unlock();
}

async function call(method, path, body, workspace) {
  let response = await send(method, path, body, workspace);
  if (response.status === 401 && unlock) {
    await unlock();
    response = await send(method, path, body, workspace);
  }
  if (response.status === 403 && method !== "GET") {
    // A restarted gateway has another token, and the page may not have noticed the restart yet.
    const before = token;
    await getState();
    if (token !== before) response = await send(method, path, body);
  }
  if (!response.ok) throw new ApiError(response.status, await readError(response));
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

async function send(method, path, body, workspace) {
  const headers = { accept: "application/json", ...accessHeaders(workspace) };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET") headers["x-tieline-token"] = token;
  try {
    return await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new ApiError(0, { message: "Cannot reach the gateway. Is it still running?" });
  }
}

async function readError(response) {
  const text = await response.text();
  try {
    const { error, message = text } = JSON.parse(text);
    return error ?? { message };
  } catch {
    // A proxy may answer with a web page, which is not a message.
    const isPlain = response.headers.get("content-type")?.startsWith("text/plain");
    return { message: (isPlain && text) || `The gateway answered ${response.status}.` };
  }
}
