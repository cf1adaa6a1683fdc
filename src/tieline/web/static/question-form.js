// The body of a question card: a form whose fields are checked before it is sent.

import { answer } from "./inbox-items.js";
import { h } from "./dom.js";
import { fieldView } from "./fields.js";

export function questionBody(item) {
  const { ask } = item;
  const fields = (ask.fields ?? []).map((field) => fieldView(field, ask.message));
  const accept = h(
    "button",
    { type: "submit", class: "primary", data: { test: "answer" } },
    ask.url ? "Done" : "Send answer",
  );
  const decline = h(
    "button",
    {
      type: "button",
      class: "quiet",
      data: { test: "decline" },
      onclick: () => send({ action: "decline", values: {} }),
    },
    "Decline",
  );
  const form = h(
    "form",
    { class: "question", noValidate: true },
    h("p", { class: "item-title" }, ask.message),
    place(ask.url),
    ...fields.map((field) => field.element),
    h("div", { class: "actions item-actions" }, accept, decline),
  );

  async function send(body) {
    if (accept.disabled) return;
    accept.disabled = decline.disabled = true;
    const isTaken = await answer(item.id, body, explain);
    accept.disabled = decline.disabled = isTaken;
  }

  /** Show an error next to the field that caused it. Return whether there is such a field. */
  function explain({ param, message }) {
    const field = fields.find(({ name }) => param === `values.${name}`);
    field?.complain(message);
    return Boolean(field);
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wrong = fields.filter((field) => !field.check());
    if (wrong.length) {
      wrong[0].focus();
      return;
    }
    const given = fields.map((field) => [field.name, field.value]).filter(([, value]) => value !== null);
    send({ action: "accept", values: Object.fromEntries(given) });
  });
  return [form];
}

/** Create a link to the web page on which a question is to be answered. */
function place(url) {
  if (!url || !/^https?:/.test(url)) return "";
  const link = h("a", { class: "button", href: url, target: "_blank", rel: "noopener noreferrer" });
  if (!link.host) return ""; // not a valid URL
  link.append(`Open ${link.host}`);
  return h("p", {}, link, h("span", { class: "muted path" }, ` ${url}`));
}
