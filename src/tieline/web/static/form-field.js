// A labelled form field with a hint and an error message.

import { freshId, h, setText } from "./dom.js";

/** Create a field around `input`. It has `element`, `input`, `hint` (a text to set) and `problem` (an error to set). */
export function formField(label, input, { hint = "", optional: isOptional = false } = {}) {
  const id = freshId("field");
  const hintText = h("p", { class: "form-hint muted", id: `${id}-hint` }, hint);
  const problemText = h("p", { class: "field-problem", id: `${id}-problem`, role: "alert", hidden: true });
  input.id = id;
  input.setAttribute("aria-describedby", `${id}-hint ${id}-problem`);
  const element = h(
    "div",
    { class: "form-field" },
    h("label", { htmlFor: id }, label, isOptional && h("span", { class: "muted" }, " (optional)")),
    input,
    hintText,
    problemText,
  );
  hintText.hidden = hint === "";
  return {
    element,
    input,
    set hint(text) {
      setText(hintText, text);
      hintText.hidden = text === "";
    },
    set problem(text) {
      setText(problemText, text);
      problemText.hidden = text === "";
      if (text) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    },
  };
}

/** Show an error of the gateway at the field that caused it. Return false if there is no such field. */
export function showProblem(fields, error) {
  const name = error.param?.split(/[.[]/)[0];
  const field = fields[name];
  if (!field) return false;
  field.problem = error.message;
  field.input.focus();
  return true;
}
