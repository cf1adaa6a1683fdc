// The page in a frame of an editor: the window that frames it, the workspace it shows, and messages between the two.
//
// The gateway writes these facts into attributes of <html> when it serves the page for a frame. Outside a frame they
// are missing, and nothing is sent or received. Messages are sent only to the origin that the editor gave to the
// gateway, and are accepted only from that origin and from the parent window.

const root = document.documentElement;
const { embed: host = "", workspace = "", pass = "" } = root.dataset;
delete root.dataset.pass;

export const isEmbedded = host !== "";

/** The name of the workspace to which this page is limited, or null if it shows all workspaces. */
export const ownWorkspace = isEmbedded ? workspace : null;

/** The pass that came with the page, if the gateway has a key. */
export const ownPass = pass;

/** The path of the Chat page. A frame cannot be navigated, because its address is valid only once. */
export const chatPath = isEmbedded ? location.pathname : "/";

/** Send a message to the editor. */
export function tellHost(message) {
  if (isEmbedded) window.parent.postMessage(message, host);
}

/** Call `received` with every message from the editor. */
export function onHostMessage(received) {
  if (!isEmbedded) return;
  addEventListener("message", ({ source, origin, data }) => {
    if (source !== window.parent || origin !== host) return;
    if (data !== null && typeof data === "object" && typeof data.type === "string") received(data);
  });
}
