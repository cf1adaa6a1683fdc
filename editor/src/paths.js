// Resolves paths from the page inside a workspace folder, and paths of files relative to it.

"use strict";

const LIMIT = 4096;

/**
 * Return the parts of a path below the folder, or null if it is outside of it. `root` is the folder's path on the
 * gateway's machine; a path may be absolute below it, or relative to it.
 * @param {string} root
 * @param {unknown} path
 * @returns {string[] | null}
 */
function insideFolder(root, path) {
  if (typeof path !== "string" || path === "" || path.length > LIMIT || path.includes("\0")) return null;
  const isWindows = isWindowsPath(root);
  const [base, given] = [slashes(root, isWindows), slashes(path, isWindows)];
  let relative = given;
  if (given.startsWith("/") || isWindowsPath(given)) {
    const prefix = base.endsWith("/") ? base : `${base}/`;
    const isBelow = isWindows ? given.toLowerCase().startsWith(prefix.toLowerCase()) : given.startsWith(prefix);
    if (!isBelow) return null;
    relative = given.slice(prefix.length);
  }
  /** @type {string[]} */
  const parts = [];
  for (const part of relative.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) return null;
  }
  // A colon would name a drive or an alternate stream.
  if (isWindows && parts.some((part) => part.includes(":"))) return null;
  return parts.length ? parts : null;
}

/**
 * Return the path of a URI relative to a folder's URI, or null if it is not below the folder.
 * @param {{scheme: string, authority: string, path: string}} folder
 * @param {{scheme: string, authority: string, path: string}} uri
 */
function relativePath(folder, uri) {
  if (uri.scheme !== folder.scheme || uri.authority !== folder.authority) return null;
  const prefix = folder.path.endsWith("/") ? folder.path : `${folder.path}/`;
  return uri.path.startsWith(prefix) && uri.path.length > prefix.length ? uri.path.slice(prefix.length) : null;
}

/** @param {string} path */
const isWindowsPath = (path) => /^[a-z]:[\\/]/i.test(path) || path.startsWith("\\\\");
/** @param {string} path @param {boolean} isWindows */
const slashes = (path, isWindows) => (isWindows ? path.replaceAll("\\", "/") : path);

module.exports = { insideFolder, relativePath };
