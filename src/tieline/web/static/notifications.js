// Draws attention to inbox items: a count in the title and icon of the tab, and a desktop notification.

import { isEmbedded } from "./embed.js";
import { headline, originText } from "./inbox-items.js";
import { live } from "./live-state.js";
import { announce } from "./notices.js";

const SIZE = 64;
const name = document.title;
let title = name;
let shown = -1;
const seen = new Set();

/** Return whether to offer notifications. A page in a frame cannot: browsers do not let it ask for permission, and the
 * editor shows its own notifications. */
export const canRequestNotifications = () =>
  !isEmbedded && "Notification" in globalThis && Notification.permission === "default";
export const requestNotifications = () => Notification.requestPermission();

/** Set the title of the tab. The count of inbox items is added to it. */
export function setTitle(text) {
  title = text ? `${text} · ${name}` : name;
  showTitle();
}

live.on("inbox", (items) => {
  const fresh = items.filter(({ id }) => !seen.has(id));
  seen.clear();
  items.forEach(({ id }) => seen.add(id));
  fresh.forEach(notifyUser);
  if (items.length !== shown) {
    shown = items.length;
    showTitle();
    showIcon();
  }
});

function notifyUser(item) {
  announce(`Waiting for you: ${headline(item)}`);
  if (document.hasFocus() || !("Notification" in globalThis) || Notification.permission !== "granted") return;
  try {
    // Browsers show only one notification per tag, even if several tabs create it.
    const notification = new Notification(headline(item), { body: originText(item), tag: `tieline-${item.id}` });
    notification.onclick = () => {
      focus();
      notification.close();
    };
  } catch {
    // On Android, only a service worker can show notifications. The title and the icon still show the count.
  }
}

function showTitle() {
  document.title = shown > 0 ? `(${shown}) ${title}` : title;
}

function showIcon() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE;
  const pen = canvas.getContext("2d");
  draw(pen);
  if (shown > 0) badge(pen, shown > 9 ? "9+" : String(shown));
  let link = document.querySelector('link[rel="icon"]');
  if (!link) {
    link = document.createElement("link");
    link.rel = "icon";
    document.head.append(link);
  }
  link.href = canvas.toDataURL("image/png");
}

/** Draw the logo: two points and the line between them. */
function draw(pen) {
  pen.strokeStyle = pen.fillStyle = "#12806c";
  pen.lineWidth = 8;
  pen.lineCap = "round";
  pen.beginPath();
  pen.moveTo(14, 46);
  pen.bezierCurveTo(34, 46, 30, 18, 50, 18);
  pen.stroke();
  for (const [x, y] of [
    [14, 46],
    [50, 18],
  ]) {
    pen.beginPath();
    pen.arc(x, y, 10, 0, 2 * Math.PI);
    pen.fill();
  }
}

function badge(pen, text) {
  pen.fillStyle = "#c8452f";
  pen.beginPath();
  pen.arc(44, 44, 20, 0, 2 * Math.PI);
  pen.fill();
  pen.fillStyle = "#fff";
  pen.font = "bold 28px sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, 44, 46);
}
