// The folders of this window, and the gateway's workspaces for them.
//
// A folder is registered only if the user trusts it: the gateway's tools and agents work in registered folders.

"use strict";

const { ApiError } = require("./api");
const { label } = require("./text");

const MOST_FOLDERS = 16;
const NOWHERE = "This folder is not on the gateway's machine. The setting tieline.folders can map it.";

/**
 * @typedef {{uri: import("vscode").Uri, name: string}} Folder
 * @typedef {object} Workspace
 * @property {Folder} folder
 * @property {string} path on the gateway's machine
 * @property {string} realPath the same with links resolved, as the gateway and its agents name it
 * @property {string} name the gateway's name for it; empty while it is not registered
 * @property {string} autonomy
 * @property {string} problem why it is not registered
 */

/**
 * Return a folder's path on the gateway's machine, or null if it has none.
 * @param {import("vscode").Uri} uri
 * @param {Record<string, string>} mapped
 */
function pathOf(uri, mapped) {
  const named = mapped[uri.toString()] ?? mapped[uri.toString(true)];
  if (typeof named === "string" && named) return named;
  if (uri.scheme === "file") return uri.fsPath;
  // A folder of a virtual file system may still be on the gateway's machine. An authority means that it is remote.
  return uri.authority === "" ? uri.path : null;
}

class Workspaces {
  #connection;
  #host;
  /** @type {Workspace[]} */
  #all = [];
  #round = 0;
  /** The URI of the folder that the view shows; empty for the first one. */
  #chosen = "";
  /** The autonomy that the user chose in this window, by path. @type {Map<string, string>} */
  #autonomy = new Map();
  /** The setting that was sent last. */
  #setting = "";
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /**
   * @param {import("./connection").Connection} connection
   * @param {{folders(): Folder[], isTrusted(): boolean, mapped(): Record<string, string>, autonomy(): string,
   *   log(text: string): void}} host
   */
  constructor(connection, host) {
    this.#connection = connection;
    this.#host = host;
  }

  /** Call `listener` after every change. Return a function that removes it. @param {() => void} listener */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  get all() {
    return this.#all;
  }

  get registered() {
    return this.#all.filter(({ name }) => name !== "");
  }

  /** The workspace of the view, or null if the window has no folder. */
  get current() {
    return this.#all.find(({ folder }) => folder.uri.toString() === this.#chosen) ?? this.#all[0] ?? null;
  }

  /** @param {string} name */
  named(name) {
    return this.#all.find((one) => one.name === name) ?? null;
  }

  /** Show another folder in the view. @param {Folder} folder */
  choose(folder) {
    this.#chosen = folder.uri.toString();
    this.#emit();
  }

  /** Register the folders with the gateway. While it is away, they keep their names. */
  async sync() {
    this.#applySetting();
    this.#round += 1;
    const round = this.#round;
    const { api } = this.#connection;
    const folders = this.#host.folders().slice(0, MOST_FOLDERS);
    const isTrusted = this.#host.isTrusted();
    const enter = (/** @type {Folder} */ folder) =>
      isTrusted ? this.#register(folder, api) : this.#unregistered(folder);
    const all = await Promise.all(folders.map(enter));
    if (round !== this.#round) return;
    this.#all = all;
    this.#emit();
  }

  /**
   * Change the autonomy of a workspace. Throw an ApiError if the gateway refuses it.
   * @param {Workspace} workspace
   * @param {string} autonomy
   */
  async setAutonomy(workspace, autonomy) {
    const { api } = this.#connection;
    if (!api || !workspace.name) throw new Error("Tieline is not connected to a gateway.");
    const changed = await api.patch(`/api/workspaces/${encodeURIComponent(workspace.name)}`, { autonomy });
    const given = String(changed?.autonomy ?? autonomy);
    this.#autonomy.set(workspace.path, given);
    // The folder may have been registered again since `workspace` was read.
    for (const one of this.#all) if (one.path === workspace.path) one.autonomy = given;
    this.#emit();
  }

  /** A changed setting replaces the choices made in this window. A removed setting means “ask”. */
  #applySetting() {
    const setting = this.#host.autonomy();
    if (setting === this.#setting) return;
    this.#autonomy.clear();
    if (!setting) for (const { path } of this.#all) this.#autonomy.set(path, "ask");
    this.#setting = setting;
  }

  /**
   * @param {Folder} folder
   * @param {import("./api").GatewayApi | null} api
   * @returns {Promise<Workspace>}
   */
  async #register(folder, api) {
    const none = this.#unregistered(folder);
    const { path } = none;
    if (none.problem) return none;
    if (!api) return this.#all.find((known) => known.path === path && known.name !== "") ?? none;
    const autonomy = this.#autonomy.get(path) ?? this.#host.autonomy();
    try {
      const made = await api.post("/api/workspaces", { path, ...(autonomy && { autonomy }) });
      const { name, path: realPath, autonomy: given } = made;
      return { ...none, name: String(name), realPath: String(realPath ?? path), autonomy: String(given ?? "ask") };
    } catch (error) {
      const problem = error instanceof ApiError ? error.message : "The gateway's answer was not understood.";
      this.#host.log(`The folder ${path} was not registered: ${problem}`);
      return { ...none, problem: label(problem, 400) };
    }
  }

  /** Return a folder that is not registered. @param {Folder} folder @returns {Workspace} */
  #unregistered(folder) {
    const path = pathOf(folder.uri, this.#host.mapped());
    return {
      folder,
      path: path ?? "",
      realPath: path ?? "",
      name: "",
      autonomy: "ask",
      problem: path === null ? NOWHERE : "",
    };
  }

  #emit() {
    for (const listener of this.#listeners) listener();
  }
}

module.exports = { Workspaces, pathOf };
