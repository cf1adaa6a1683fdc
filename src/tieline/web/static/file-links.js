// Files and changes that the editor around the page can open. Outside an editor they are plain text.

import { h } from "./dom.js";
import { isEmbedded, tellHost } from "./embed.js";
import { visible } from "./invisible-text.js";

/** Create the name of a file. In an editor it is a button that opens the file, at a line if one is given. */
export function pathView(path, line = null, kind = "path") {
  if (!isEmbedded || !path) return h("span", { class: kind }, path ?? "");
  const open = (event) => {
    event.preventDefault(); // it may be part of a summary, which a click would open or close
    tellHost({ type: "openFile", path, ...(line !== null && { line }) });
  };
  return h(
    "button",
    { type: "button", class: `file-link ${kind}`, title: `Open ${visible(path)}`, onclick: open },
    path,
  );
}

/** Create a button that opens a change in the editor, or null outside an editor. */
export function diffButton(path, before, after, line) {
  if (!isEmbedded || !path) return null;
  return h(
    "button",
    {
      type: "button",
      class: "quiet small open-diff",
      "aria-label": `Open diff of ${path}`,
      onclick: () => tellHost({ type: "openDiff", path, before, after, line }),
    },
    "Open diff",
  );
}
