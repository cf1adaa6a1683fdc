// The page at `/connect`: what this gateway reaches, and what to put into each client to reach it.

import { setTitle } from "./attention.js";
import { listenForCodeCopies } from "./clipboard.js";
import "./connect.js";
import "./inbox.js";
import { live } from "./live.js";
import "./login.js";
import { goToAsks, listenForKeys } from "./shortcuts.js";
import "./top-bar.js";

const view = document.querySelector("tl-connect");

setTitle("Connect");
listenForCodeCopies(document.body);
listenForKeys({ asks: () => goToAsks(null) });
await live.start();
await view.load();
live.on("state", () => view.load());
document.body.classList.remove("is-loading");
