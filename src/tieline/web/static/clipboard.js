// Copies text to the clipboard, and shows a confirmation on the button that was pressed.

import { icon } from "./icons.js";
import { notify } from "./notices.js";

const SAID = 1600;

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    if (!copyBySelection(text)) {
      notify("The browser does not allow this page to copy.", "bad");
      return;
    }
  }
  if (button) confirm(button);
}

/** Copy by selecting the text. The clipboard API is not available over plain HTTP from another machine. */
function copyBySelection(text) {
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return isCopied;
}

function confirm(button) {
  if (button.dataset.copied) return;
  button.dataset.copied = "yes";
  const label = button.querySelector("span");
  const before = label?.textContent;
  const old = button.querySelector("svg");
  const done = icon("check");
  old?.replaceWith(done);
  if (label) label.textContent = "Copied";
  setTimeout(() => {
    delete button.dataset.copied;
    done.replaceWith(old);
    if (label) label.textContent = before;
  }, SAID);
}

/** Handle clicks on the copy buttons of all code blocks inside `root`. */
export function listenForCodeCopies(root) {
  root.addEventListener("click", (event) => {
    const button = event.target.closest?.(".copy-code");
    if (button) copyText(button.closest(".code").querySelector("pre").textContent, button);
  });
}
