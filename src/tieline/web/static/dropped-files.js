// Files that are dragged from the explorer of an editor: their addresses, as paths in the workspace.

import { isEmbedded } from "./embed.js";

// Outside an editor, the second type is that of a dragged link, which the browser inserts as text.
const TYPES = ["application/vnd.code.uri-list", ...(isEmbedded ? ["text/uri-list"] : [])];

/** Return whether dragged data contains file addresses. */
export const hasAddresses = (transfer) => TYPES.some((type) => transfer?.types.includes(type));

/** Return the dropped files as paths relative to the folder `workspace`, and how many were outside of it. */
export function droppedPaths(transfer, workspace) {
  const text = TYPES.map((type) => transfer.getData(type)).find(Boolean) ?? "";
  const addresses = text.split(/\r?\n/).filter((line) => line && !line.startsWith("#"));
  const folder = normal(workspace ?? "");
  const paths = addresses.map((address) => relative(pathOf(address), folder));
  const inside = paths.filter((path) => path !== null);
  return { paths: inside, outside: paths.length - inside.length };
}

/** Return the path of an address of any scheme, since a remote workspace does not have `file:` addresses. */
function pathOf(address) {
  try {
    const { protocol, pathname } = new URL(address);
    return /^https?:$/.test(protocol) ? null : normal(decodeURIComponent(pathname));
  } catch {
    return null;
  }
}

/** Write a path with slashes and, on Windows, with the drive in upper case and without a slash before it. */
function normal(path) {
  return path
    .replaceAll("\\", "/")
    .replace(/^\/?([a-z]):/i, (_, drive) => `${drive.toUpperCase()}:`)
    .replace(/(?<=.)\/$/, "");
}

function relative(path, folder) {
  return path !== null && folder && path.startsWith(`${folder}/`) ? path.slice(folder.length + 1) : null;
}
