// The Connect page: models, agents and settings for clients.

import { setTitle } from "./notifications.js";
import { listenForCodeCopies } from "./clipboard.js";
import "./connect.js";
import "./inbox.js";
import { live } from "./live-state.js";
import "./key-dialog.js";
import { goToInboxItems, listenForKeys } from "./shortcuts.js";
import "./top-bar.js";

const view = document.querySelector("tl-connect");

setTitle("Connect");
listenForCodeCopies(document.body);
listenForKeys({ items: () => goToInboxItems(null) });
await live.start();
live.on("state", () => view.load());
await view.load();
document.body.classList.remove("is-loading");
view.start();
