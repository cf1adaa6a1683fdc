// The attachments of a message: images and workspace files, each with a button that removes it.

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { imagesAmong, readImage } from "./image-upload.js";
import { notify } from "./notices.js";

export class Attachments {
  #images = [];
  #files = [];
  #changed;
  element = h("ul", { class: "attachments", hidden: true, "aria-label": "Attachments" });

  constructor(changed) {
    this.#changed = changed;
  }

  get isEmpty() {
    return this.#images.length === 0 && this.#files.length === 0;
  }

  /** Remove all attachments and return them in the form of the API, with a function `putBack` that restores them. */
  take() {
    const taken = {
      images: this.#images.map(({ media_type, data }) => ({ media_type, data })),
      files: [...this.#files],
    };
    const before = { images: this.#images, files: this.#files };
    this.#images = [];
    this.#files = [];
    this.#render();
    const putBack = () => {
      [this.#images, this.#files] = [before.images, before.files];
      this.#render();
    };
    return { ...taken, putBack };
  }

  addFile(path) {
    if (!this.#files.includes(path)) this.#files.push(path);
    this.#render();
  }

  /** Add the images among these files, and return whether there were any. */
  async addImages(files) {
    const images = imagesAmong(files);
    for (const file of images) {
      try {
        this.#images.push(await readImage(file));
        this.#render();
      } catch (error) {
        notify(error.message, "bad");
      }
    }
    return images.length > 0;
  }

  #render() {
    const images = this.#images.map((image) =>
      this.#item(
        h("img", { src: `data:${image.media_type};base64,${image.data}`, alt: image.name }),
        image.name,
        () => (this.#images = this.#images.filter((one) => one !== image)),
        "attached-image",
      ),
    );
    const files = this.#files.map((path) =>
      this.#item(
        h("span", { class: "chip" }, icon("file"), h("bdi", {}, path)),
        path,
        () => (this.#files = this.#files.filter((one) => one !== path)),
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
