// The script of the view: frames the gateway's page, and passes messages between the page and the extension.

"use strict";

(() => {
  // @ts-ignore: provided by the editor
  const editor = acquireVsCodeApi();
  const main = /** @type {HTMLElement} */ (document.querySelector("main"));
  const address = main.dataset.address ?? "";
  const SILENCE = 20_000; // Milliseconds after which a page that is not ready counts as a problem.
  /** @type {HTMLIFrameElement | null} */
  let frame = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let alarm;

  /** The colours that the page uses, and the editor's variables with them. The first one that is set counts. */
  const COLORS = {
    background: ["sideBar-background", "editor-background"],
    foreground: ["foreground"],
    muted: ["descriptionForeground"],
    surface: ["sideBarSectionHeader-background", "editorWidget-background"],
    raised: ["input-background"],
    hover: ["list-hoverBackground"],
    border: ["contrastBorder", "widget-border", "panel-border"],
    borderStrong: ["contrastBorder", "input-border", "panel-border"],
    accent: ["button-background"],
    accentHover: ["button-hoverBackground"],
    onAccent: ["button-foreground"],
    link: ["textLink-foreground"],
    focus: ["focusBorder"],
    error: ["errorForeground"],
    warning: ["editorWarning-foreground"],
    good: ["testing-iconPassed"],
    added: ["diffEditor-insertedTextBackground"],
    removed: ["diffEditor-removedTextBackground"],
  };

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const read = (/** @type {string} */ name) => style.getPropertyValue(`--vscode-${name}`).trim();
    /** @type {Record<string, string>} */
    const colors = {};
    for (const [name, variables] of Object.entries(COLORS)) {
      const value = variables.map(read).find(Boolean);
      if (value) colors[name] = value;
    }
    const { classList } = document.body;
    const kind = classList.contains("vscode-high-contrast-light")
      ? "contrast-light"
      : classList.contains("vscode-high-contrast")
        ? "contrast-dark"
        : classList.contains("vscode-light")
          ? "light"
          : "dark";
    return { type: "theme", kind, colors };
  }

  /** @param {unknown} message */
  function toPage(message) {
    frame?.contentWindow?.postMessage(message, new URL(address).origin);
  }

  /** Show either the frame or the text. @param {boolean} isReady */
  function setReady(isReady) {
    clearTimeout(alarm);
    main.hidden = isReady;
    document.body.classList.toggle("is-ready", isReady);
  }

  /** @param {string} text */
  function showProblem(text) {
    setReady(false);
    const note = document.createElement("p");
    note.setAttribute("role", "status");
    note.textContent = text;
    const again = document.createElement("button");
    again.textContent = "Try Again";
    again.addEventListener("click", () => editor.postMessage({ type: "reload" }));
    main.replaceChildren(note, again);
  }

  /** @param {string} path */
  function embed(path) {
    frame?.remove();
    frame = document.createElement("iframe");
    frame.title = "Tieline chat";
    frame.allow = "clipboard-read; clipboard-write";
    frame.src = address + path;
    document.body.append(frame);
    setReady(false);
    // The frame stays: on a busy machine, the page may still become ready.
    alarm = setTimeout(() => {
      editor.postMessage({ type: "silent" });
      showProblem("The page has not loaded yet. The gateway is busy, refuses it, or cannot be reached from here.");
    }, SILENCE);
  }

  /** @param {any} message */
  function onPageMessage(message) {
    if (message === null || typeof message !== "object" || typeof message.type !== "string") return;
    if (message.type === "ready") {
      setReady(true);
      toPage(theme());
    }
    editor.postMessage({ type: "page", message });
  }

  window.addEventListener("message", (event) => {
    if (frame && event.source === frame.contentWindow) {
      if (event.origin === new URL(address).origin) onPageMessage(event.data);
      return;
    }
    // Messages of the extension come from this webview's own window.
    if (event.origin !== location.origin) return;
    const { type, path, message, text } = event.data ?? {};
    if (type === "embed") embed(path);
    else if (type === "page") {
      if (message?.type === "focus") frame?.focus();
      toPage(message);
    } else if (type === "problem") {
      frame?.remove();
      frame = null;
      showProblem(text);
    }
  });

  document.addEventListener("click", ({ target }) => {
    if (target instanceof HTMLElement && target.dataset.command)
      editor.postMessage({ type: "command", command: target.dataset.command });
  });

  const observer = new MutationObserver(() => toPage(theme()));
  observer.observe(document.body, { attributes: true, attributeFilter: ["class", "data-vscode-theme-kind"] });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["style"] });

  if (address) {
    const outer = [...(location.ancestorOrigins ?? [])];
    editor.postMessage({ type: "origins", origins: [location.origin, ...outer] });
  }
})();
