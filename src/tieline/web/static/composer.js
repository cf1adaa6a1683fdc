// <tl-composer>: the message box, with attachments and the choice of model, mode and effort.

import { get } from "./api.js";
import { Attachments } from "./attachments.js";
import { effortOptions, modeOptions, modelOptions } from "./model-choice.js";
import { h } from "./dom.js";
import { droppedPaths, hasAddresses } from "./dropped-files.js";
import { icon } from "./icons.js";
import { notify } from "./notices.js";
import { ofThisTab } from "./page-storage.js";
import "./picker.js";

const DRAFT = "tieline-draft:";
const NEW = "new"; // the draft of a new chat

/** Fires `send` ({text, images, files, putBack(session)}), `stop` and `choose` ({model?, mode?, effort?}). */
class Composer extends HTMLElement {
  #draft = NEW;
  #isRunning = false;
  #state = null;
  #choice = {};
  #workspace = "";
  #attached = new Attachments(NEW, () => this.#update());
  #area = h("textarea", {
    id: "composer",
    rows: 1,
    placeholder: "Ask anything",
    "aria-label": "Message",
    data: { test: "composer" },
  });
  #model = picker("Model", "model-picker");
  #mode = picker("Mode", "mode-picker");
  #effort = picker("Effort", "effort-picker");
  #files = picker("Attach a file from the workspace", "file-picker", "clip");
  #chooser = h("input", { type: "file", accept: "image/*", multiple: true, hidden: true });
  #picture = h(
    "button",
    {
      type: "button",
      class: "quiet icon-button",
      title: "Add images",
      "aria-label": "Add images",
      onclick: () => this.#chooser.click(),
    },
    icon("image"),
  );
  #send = h(
    "button",
    { type: "submit", class: "primary round", "aria-label": "Send", title: "Send (Enter)", data: { test: "send" } },
    icon("send"),
  );
  #stop = h(
    "button",
    {
      type: "button",
      class: "primary round stop",
      "aria-label": "Stop",
      title: "Stop (Esc)",
      hidden: true,
      data: { test: "stop" },
      onclick: () => this.#fire("stop"),
    },
    icon("stop"),
  );
  #form = h(
    "form",
    { class: "composer" },
    this.#attached.element,
    this.#area,
    h(
      "div",
      { class: "composer-row" },
      this.#files,
      this.#picture,
      this.#chooser,
      this.#model,
      this.#mode,
      this.#effort,
      h("span", { class: "spring" }),
      this.#stop,
      this.#send,
    ),
  );

  connectedCallback() {
    if (this.#form.isConnected) return;
    this.append(this.#form);
    this.#area.addEventListener("input", () => this.#typed());
    this.#area.addEventListener("keydown", (event) => this.#key(event));
    this.#area.addEventListener("paste", (event) => this.#paste(event));
    this.#form.addEventListener("submit", (event) => this.#submit(event));
    this.#chooser.addEventListener("change", () =>
      this.#attached.addImages(this.#chooser.files).then(() => (this.#chooser.value = "")),
    );
    this.#listenForDrops();
    this.#files.source = (query) => findFiles(query, this.#workspace);
    this.#files.placeholder = "Search files…";
    this.#files.addEventListener("pick", (event) => this.#attachListed(event.detail));
    this.#effort.options = effortOptions();
    this.#model.addEventListener("pick", (event) => this.#chooseModel(event.detail));
    this.#mode.addEventListener("pick", (event) => this.#choose({ mode: event.detail }));
    this.#effort.addEventListener("pick", (event) => this.#choose({ effort: event.detail }));
    this.#update();
  }

  /** The state of the gateway, with the available models. */
  set state(state) {
    this.#state = state;
    this.#model.options = modelOptions(state);
    this.#showFiles();
    this.#showChoice();
  }

  /** The name of the workspace whose files can be attached; "" is the one that the state describes. */
  set workspace(name) {
    this.#workspace = name;
    this.#showFiles();
  }

  /** The current choice: {model, mode, effort}. */
  set choice(choice) {
    this.#choice = choice;
    this.#showChoice();
  }

  set isRunning(isRunning) {
    if (this.#isRunning === isRunning) return;
    this.#isRunning = isRunning;
    this.#update();
  }

  /** Switch to the draft of a conversation. Each conversation has its own. */
  set session(id) {
    this.#draft = id ?? NEW;
    this.#area.value = savedText(this.#draft);
    this.#attached.draft = this.#draft;
    this.#grow();
  }

  /** Keep the draft of a new chat as the draft of the session that was created for it. */
  begin(id) {
    saveText(id, this.#area.value);
    saveText(NEW, "");
    this.#attached.rename(NEW, id);
    this.#draft = id;
  }

  set text(text) {
    this.#area.value = text;
    this.#typed();
  }

  focus() {
    this.#area.focus();
  }

  /** Insert text at the cursor, without sending it. */
  insert(text) {
    this.#area.setRangeText(text, this.#area.selectionStart, this.#area.selectionEnd, "end");
    this.#typed();
    this.focus();
  }

  /** Attach a file of the workspace. */
  attach(path) {
    this.#attached.addFile(path);
  }

  openModels() {
    this.#model.open();
  }

  get #hasFiles() {
    return Boolean(this.#workspace || this.#state?.tools.workspace);
  }

  #showFiles() {
    this.#files.hidden = !this.#hasFiles;
  }

  #showChoice() {
    if (!this.#state) return;
    const { model, mode = null, effort = null } = this.#choice;
    this.#model.value = model;
    const modes = modeOptions(this.#state.models.find(({ id }) => id === model));
    this.#mode.hidden = modes.length === 0;
    this.#mode.options = modes;
    this.#mode.value = mode;
    this.#effort.value = effort;
  }

  #chooseModel(model) {
    const modes = this.#state.models.find(({ id }) => id === model)?.modes ?? [];
    const keepsMode = this.#choice.mode === null || modes.includes(this.#choice.mode);
    this.#choose(keepsMode ? { model } : { model, mode: null });
    this.focus();
  }

  #choose(change) {
    this.choice = { ...this.#choice, ...change };
    this.#fire("choose", change);
  }

  #typed() {
    saveText(this.#draft, this.#area.value);
    this.#grow();
    this.#update();
    if (this.#hasFiles && /(^|\s)@$/.test(this.#area.value.slice(0, this.#area.selectionStart)))
      this.#files.open();
  }

  /** Attach a file from the list, and remove the "@" that opened it. */
  #attachListed(path) {
    const { value, selectionStart: at } = this.#area;
    if (value[at - 1] === "@") this.text = value.slice(0, at - 1) + value.slice(at);
    this.attach(path);
    this.focus();
  }

  #key(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    if (!event.repeat) this.#form.requestSubmit();
  }

  #submit(event) {
    event.preventDefault();
    if (this.#isRunning) {
      notify("The answer is not finished yet. Press Esc to stop it.");
      return;
    }
    if (this.#attached.isReading) {
      notify("An image is still being prepared. Send the message again in a moment.");
      return;
    }
    const text = this.#area.value;
    if (!text.trim() && this.#attached.isEmpty) return;
    const { images, files, putBack } = this.#attached.take();
    this.text = "";
    const restore = (session) => {
      const draft = session ?? NEW;
      const typed = savedText(draft); // what the user has typed in the meantime
      saveText(draft, typed.trim() ? `${text}\n\n${typed}` : text);
      putBack(draft);
      if (draft === this.#draft) this.session = session;
    };
    this.#fire("send", { text: text.trim() ? text : "", images, files, putBack: restore });
  }

  #paste(event) {
    const files = event.clipboardData.files;
    if (files.length === 0 || event.clipboardData.getData("text/plain")) return;
    event.preventDefault();
    this.#attached.addImages(files);
  }

  /** Accept files dropped anywhere on the page. */
  #listenForDrops() {
    const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files") || hasAddresses(dataTransfer);
    addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.classList.add("is-target");
    });
    addEventListener("dragleave", (event) => event.relatedTarget === null && this.classList.remove("is-target"));
    addEventListener("drop", async (event) => {
      this.classList.remove("is-target");
      if (!hasFiles(event)) return;
      event.preventDefault();
      if (hasAddresses(event.dataTransfer)) this.#dropAddresses(event.dataTransfer);
      else if (!(await this.#attached.addImages(event.dataTransfer.files)))
        notify(
          "Only images can be dropped here. To attach a file from the workspace, use the paper clip or type @.",
        );
      this.focus();
    });
  }

  /** Attach files that were dragged from an editor. */
  #dropAddresses(transfer) {
    const { paths, outside } = droppedPaths(transfer, this.#state?.tools.workspace);
    paths.forEach((path) => this.attach(path));
    if (outside) notify("Only files of this workspace can be attached.");
  }

  #grow() {
    if (CSS.supports("field-sizing", "content")) return;
    this.#area.style.height = "auto";
    this.#area.style.height = `${this.#area.scrollHeight}px`;
  }

  #update() {
    this.#stop.hidden = !this.#isRunning;
    this.#send.hidden = this.#isRunning;
    this.#send.disabled = !this.#area.value.trim() && this.#attached.isEmpty;
  }

  #fire(type, detail = null) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

const savedText = (draft) => ofThisTab.getItem(DRAFT + draft) ?? "";
const saveText = (draft, text) => ofThisTab.setItem(DRAFT + draft, text);

function picker(label, test, sign) {
  const element = document.createElement("tl-picker");
  element.label = label;
  element.dataset.test = test;
  if (sign) element.dataset.icon = sign;
  return element;
}

async function findFiles(query, workspace) {
  try {
    const { files } = await get(`/api/files?query=${encodeURIComponent(query)}`, workspace);
    return files.map((path) => ({ value: path, label: path.slice(path.lastIndexOf("/") + 1), hint: path }));
  } catch {
    return [];
  }
}

customElements.define("tl-composer", Composer);
