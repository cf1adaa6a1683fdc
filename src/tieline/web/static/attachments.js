// The attachments of a message: images and workspace files, each with a button that removes it.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { imagesAmong, readImage } from "./image-upload.js";
import { notify } from "./notices.js";

/** Each draft has its own attachments. Those of the current draft are shown in `element`. */
export class Attachments {
  #drafts = new Map();
  #shown;
  #changed;
  element = h("ul", { class: "attachments", hidden: true, "aria-label": "Attachments" });

  /** `changed` is called when the attachments shown have changed. */
  constructor(draft, changed) {
    this.#shown = this.#of(draft);
    this.#changed = changed;
  }

  /** Show the attachments of another draft. */
  set draft(draft) {
    this.#shown = this.#of(draft);
    this.#render();
  }

  /** Give a draft another name. */
  rename(draft, name) {
    this.#drafts.set(name, this.#of(draft));
    this.#drafts.delete(draft);
  }

  get isEmpty() {
    return this.#shown.images.length === 0 && this.#shown.files.length === 0;
  }

  /** Whether an image that was added is still being read. */
  get isReading() {
    return this.#shown.reading > 0;
  }

  /** Remove all attachments and return them in the form of the API, with a function that puts them back in a draft. */
  take() {
    const { images, files } = this.#shown;
    this.#shown.images = [];
    this.#shown.files = [];
    this.#render();
    const putBack = (draft) => {
      const to = this.#of(draft);
      to.images = [...images, ...to.images];
      to.files = [...new Set([...files, ...to.files])];
    };
    return { images: images.map(({ media_type, data }) => ({ media_type, data })), files, putBack };
  }

  addFile(path) {
    if (!this.#shown.files.includes(path)) this.#shown.files.push(path);
    this.#render();
  }

  /** Add the images among these files, and return whether there were any. */
  async addImages(files) {
    const to = this.#shown;
    const images = imagesAmong(files);
    to.reading += images.length;
    for (const file of images) {
      try {
        const image = await readImage(file);
        to.images.push(image);
      } catch (error) {
        notify(error.message, "bad");
      }
      to.reading -= 1;
      this.#render();
    }
    return images.length > 0;
  }

  #of(draft) {
    if (!this.#drafts.has(draft)) this.#drafts.set(draft, { images: [], files: [], reading: 0 });
    return this.#drafts.get(draft);
  }

  #render() {
    const shown = this.#shown;
    const images = shown.images.map((image) =>
      this.#item(
        h("img", { src: `data:${image.media_type};base64,${image.data}`, alt: image.name }),
        image.name,
        () => (shown.images = shown.images.filter((one) => one !== image)),
        "attached-image",
      ),
    );
    const files = shown.files.map((path) =>
      this.#item(
        h("span", { class: "chip" }, icon("file"), h("bdi", {}, path)),
        path,
        () => (shown.files = shown.files.filter((one) => one !== path)),
        "attached-file",
      ),
    );
    this.element.replaceChildren(...images, ...files);
    this.element.hidden = this.isEmpty;
    this.#changed();
  }

  #item(view, name, drop, test) {
    const remove = () => {
      drop();
      this.#render();
      (this.element.querySelector(".drop") ?? document.querySelector("#composer")).focus();
    };
    return h(
      "li",
      { title: name, data: { test } },
      view,
      h(
        "button",
        { type: "button", class: "drop", "aria-label": `Remove ${name}`, onclick: remove },
        icon("cross"),
      ),
    );
  }
}
