// Copies text and says so on the button that was pressed.

import { icon } from "./icons.js";
import { notify } from "./notices.js";

const SAID = 1600;

export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    if (!copyBySelection(text)) {
      notify("The browser does not let this page copy.", "bad");
      return;
    }
  }
  if (button) confirm(button);
}

/** Off this machine and without TLS there is no clipboard to write to; selecting and copying still works. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "hidden";
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

function confirm(button) {
  if (button.dataset.copied) return;
  button.dataset.copied = "yes";
  const words = button.querySelector("span");
  const before = words?.textContent;
  const old = button.querySelector("svg");
  const done = icon("check");
  old?.replaceWith(done);
  if (words) words.textContent = "Copied";
  setTimeout(() => {
    delete button.dataset.copied;
    done.replaceWith(old);
    if (words) words.textContent = before;
  }, SAID);
}

/** Every copy button on server-rendered code of this page. */
export function listenForCodeCopies(root) {
  root.addEventListener("click", (event) => {
    const button = event.target.closest?.(".copy-code");
    if (button) copyText(button.closest(".code").querySelector("pre").textContent, button);
  });
}
