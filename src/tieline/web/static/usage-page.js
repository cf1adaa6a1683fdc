// The Usage page: charts and sums of the usage and, for an administrator, the keys of clients.

import { setTitle } from "./notifications.js";
import { setText } from "./dom.js";
import "./inbox.js";
import "./key-dialog.js";
import "./key-list.js";
import { live } from "./live-state.js";
import { goToInboxItems, listenForKeys } from "./shortcuts.js";
import "./top-bar.js";
import "./usage.js";

const usage = document.querySelector("tl-usage");
const keys = document.querySelector("tl-keys");

setTitle("Usage");
listenForKeys({ items: () => goToInboxItems(null) });
await live.start();
const { key } = live.state;
setText(document.querySelector(".whose"), key.is_admin ? "All keys" : `Your key: ${key.name}`);
keys.hidden = !key.has_keys;
await Promise.all([usage.load(), key.has_keys && keys.load()]);
document.body.classList.remove("is-loading");
