// <tl-top>: the bar at the top of every page: navigation, connection state and inbox.

import { h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { live } from "./live-state.js";

const PAGES = [
  ["chat", "/", "Chat"],
  ["traffic", "/traffic", "Traffic"],
  ["connect", "/connect", "Connect"],
  ["usage", "/usage", "Usage"],
];
const NOTICE_DELAY = 1500; // Shorter interruptions are not shown.
const SVG = "http://www.w3.org/2000/svg";

/** Fires `menu` when the user presses the button for the session list, which is visible on narrow screens. */
class TopBar extends HTMLElement {
  #count = h("span", { class: "count", hidden: true });
  #inbox = h(
    "button",
    {
      type: "button",
      class: "quiet inbox-button",
      "aria-label": "Inbox",
      "aria-expanded": "false",
      title: "Inbox (Alt+I)",
      data: { test: "inbox-button" },
    },
    icon("inbox"),
    h("span", { class: "inbox-word" }, "Inbox"),
    this.#count,
  );
  #yolo = h(
    "span",
    { class: "yolo", role: "note", title: "The gateway was started with --yolo", hidden: true, data: { test: "yolo" } },
    icon("warn"),
    h("span", {}, "All tools run without asking"),
  );
  #link = h("span", { class: "link-sign", role: "status", data: { test: "link" } });
  #alarm = 0;

  connectedCallback() {
    const current = this.getAttribute("page");
    const menu =
      current === "chat" &&
      h(
        "button",
        {
          type: "button",
          class: "quiet icon-button menu-button",
          "aria-label": "Chats",
          onclick: () => this.dispatchEvent(new CustomEvent("menu")),
        },
        icon("menu"),
      );
    const links = PAGES.map(([page, href, label]) =>
      h("a", { href, "aria-current": page === current ? "page" : null, data: { page } }, label),
    );
    const show = ({ key }) => {
      // Only an administrator may change the set-up, and without keys no usage is recorded.
      links.find(({ dataset }) => dataset.page === "connect").hidden = key?.is_admin === false;
      links.find(({ dataset }) => dataset.page === "usage").hidden = current !== "usage" && !key?.has_usage;
    };
    show(live.state ?? {});
    this.append(
      h(
        "header",
        { class: "top" },
        menu,
        h("a", { class: "brand", href: "/", "aria-label": "Tieline" }, mark(), h("span", {}, "Tieline")),
        h("nav", { "aria-label": "Pages" }, links),
        h("span", { class: "spring" }),
        this.#link,
        this.#yolo,
        this.#inbox,
      ),
    );
    const panel = () => document.querySelector("tl-inbox");
    this.#inbox.addEventListener("click", () => panel().toggle());
    document.addEventListener("toggled", (event) => this.#inbox.setAttribute("aria-expanded", String(event.detail)));
    live.on("inbox", (items) => this.#showCount(items.length));
    live.on("link", (link) => this.#showLink(link));
    live.on("state", (state) => {
      this.#yolo.hidden = !state.tools.yolo;
      show(state);
    });
    this.#showCount(live.inbox.items.length);
  }

  #showCount(count) {
    setText(this.#count, String(count));
    this.#count.hidden = count === 0;
    this.#inbox.classList.toggle("has-items", count > 0);
    this.#inbox.setAttribute("aria-label", count ? `Inbox: ${count} waiting` : "Inbox: nothing waiting");
  }

  #showLink(link) {
    if (link === "live") {
      clearTimeout(this.#alarm);
      this.#alarm = 0;
      setText(this.#link, "");
      this.#link.classList.remove("is-lost");
      return;
    }
    this.#alarm ||= setTimeout(() => {
      setText(this.#link, "Reconnecting…");
      this.#link.classList.add("is-lost");
    }, NOTICE_DELAY);
  }
}

/** Create the logo: two points and the line between them. */
function mark() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 64 64");
  svg.setAttribute("class", "mark");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", "M14 46C34 46 30 18 50 18");
  svg.append(path);
  for (const [x, y] of [
    [14, 46],
    [50, 18],
  ]) {
    const end = document.createElementNS(SVG, "circle");
    for (const [key, value] of [
      ["cx", x],
      ["cy", y],
      ["r", 9],
    ])
      end.setAttribute(key, value);
    svg.append(end);
  }
  return svg;
}

customElements.define("tl-top", TopBar);
