// Calls to the gateway: JSON in, JSON out, the page's token on everything that changes something.
//
// Where the gateway has a key, it gives the page a pass for it. That is kept in the storage of this origin, which no
// other port of the host can read, and goes along in a header; a cookie would go to all of them.

const PASS = "tieline-pass";

let token = "";
let unlock = null;

/** What the gateway says went wrong, in its own words. */
export class ApiError extends Error {
  constructor(status, { message, param = null }) {
    super(message);
    this.status = status;
    this.param = param; // the field it is about
  }
}

/** Who asks the person for the gateway's key; resolves once it was right. */
export function setUnlock(ask) {
  unlock = ask;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);

/** Everything the page starts with; also renews the token, which is another one after a restart. */
export async function getState() {
  const state = await call("GET", "/api/state");
  token = state.token;
  return state;
}

/** Try a key; the gateway answers with a pass that stands in for it. */
export async function login(key) {
  const response = await send("POST", "/api/login", { key });
  if (!response.ok) throw new ApiError(response.status, await complaint(response));
  const { pass = "" } = await response.json();
  localStorage.setItem(PASS, pass);
}

/** Headers that show this page may use the gateway. */
export function passHeaders() {
  const pass = localStorage.getItem(PASS);
  return pass ? { "x-tieline-pass": pass } : {};
}

/** The gateway asked for its key somewhere else (on the stream). */
export async function locked() {
  if (unlock) await unlock();
}

async function call(method, path, body) {
  let response = await send(method, path, body);
  if (response.status === 401 && unlock) {
    await unlock();
    response = await send(method, path, body);
  }
  if (response.status === 403 && method !== "GET") {
    // A restarted gateway has another token; the page may not have heard of the restart yet.
    const before = token;
    await getState();
    if (token !== before) response = await send(method, path, body);
  }
  if (!response.ok) throw new ApiError(response.status, await complaint(response));
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

async function send(method, path, body) {
  const headers = { accept: "application/json", ...passHeaders() };
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
    throw new ApiError(0, { message: "The gateway cannot be reached. Is it still running?" });
  }
}

async function complaint(response) {
  const text = await response.text();
  try {
    const { error, message = text } = JSON.parse(text);
    return error ?? { message };
  } catch {
    return { message: text || `The gateway answered ${response.status}.` };
  }
}
