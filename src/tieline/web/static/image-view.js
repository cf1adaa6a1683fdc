// Images of a conversation. Only data in the message is shown; nothing is loaded from other servers.

import { h } from "./dom.js";

const SHOWN = /^image\/(png|jpeg|gif|webp|avif|bmp|svg\+xml)$/;

/** Create an element that shows an image, or a link or text if the image cannot be shown. */
export function imageView({ media_type: type = "", data, url }, alt = "Image") {
  if (data && SHOWN.test(type)) {
    const image = h("img", { src: `data:${type};base64,${data}`, alt, loading: "lazy", decoding: "async" });
    return h(
      "button",
      {
        type: "button",
        class: "picture",
        "aria-label": `${alt}: enlarge`,
        data: { test: "picture" },
        onclick: () => enlarge(image.src, alt),
      },
      image,
    );
  }
  if (url && /^https?:/.test(url) && URL.canParse(url))
    return h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, `Image at ${new URL(url).host}`);
  return h("span", { class: "muted" }, "Image that cannot be shown");
}

function enlarge(src, alt) {
  const dialog = h(
    "dialog",
    { class: "lightbox", "aria-label": alt, onclick: () => dialog.close(), onclose: () => dialog.remove() },
    h("img", { src, alt }),
  );
  document.body.append(dialog);
  dialog.showModal();
}
