// The input fields of a question form, one function for each kind of field.

import { get } from "./api.js";
import { checkField } from "./field-check.js";
import { freshId, h } from "./dom.js";

const INPUTS = { email: "email", uri: "url", url: "url", date: "date", "date-time": "datetime-local" };
const OTHER = "other:";

/** Create a field: {name, element, value, check(), complain(), focus()}. A title equal to `message` is hidden. */
export function fieldView(field, message) {
  const { kind = "text", title = "", description = "", name, required } = field;
  const id = freshId("field");
  const control = CONTROLS[kind](field, id);
  const problem = h("p", { class: "field-problem", id: `${id}-problem`, role: "alert", hidden: true });
  const isGroup = kind === "yes_no" || kind === "choice";
  const isSaid = title === message;
  const label = [title || name, required ? "" : h("span", { class: "muted" }, " (optional)")];
  const caption = isGroup
    ? h("legend", { class: isSaid ? "hidden" : "" }, label)
    : h("label", { htmlFor: id, class: isSaid ? "hidden" : "" }, label);
  const element = h(
    isGroup ? "fieldset" : "div",
    { class: "field", data: { test: `field-${name}`, kind } },
    caption,
    description && h("p", { class: "muted field-about", id: `${id}-about` }, description),
    control.element,
    problem,
  );
  control.input.setAttribute("aria-describedby", `${id}-about ${id}-problem`);

  function check() {
    return showProblem(checkField(field, control.value));
  }

  /** Show a problem, or hide it if the text is empty. Return whether the field is valid. */
  function showProblem(text) {
    problem.textContent = text;
    problem.hidden = !text;
    control.input.setAttribute("aria-invalid", String(Boolean(text)));
    return !text;
  }

  function complain(text) {
    showProblem(text);
    control.input.focus();
  }

  element.addEventListener("input", () => !problem.hidden && check());
  return {
    name,
    element,
    check,
    complain,
    get value() {
      return control.value;
    },
    focus: () => control.input.focus(),
  };
}

const CONTROLS = { yes_no: yesNo, choice, text, number, file };

function yesNo(field, id) {
  const yes = h("input", { type: "radio", name: id, value: "yes", checked: field.default === true });
  const no = h("input", { type: "radio", name: id, value: "no", checked: field.default === false });
  return {
    element: h(
      "div",
      { class: "segments" },
      h("label", {}, yes, h("span", {}, "Yes")),
      h("label", {}, no, h("span", {}, "No")),
    ),
    input: yes,
    get value() {
      return yes.checked ? true : no.checked ? false : null;
    },
  };
}

function choice(field, id) {
  const type = field.many ? "checkbox" : "radio";
  const wanted = [field.default ?? []].flat();
  const options = (field.options ?? []).map((option) => {
    const input = h("input", { type, name: id, value: option.id, checked: wanted.includes(option.id) });
    return {
      input,
      element: h(
        "label",
        { class: "option" },
        input,
        h(
          "span",
          {},
          option.label || option.id,
          option.description ? h("small", { class: "muted" }, option.description) : null,
        ),
      ),
    };
  });
  const other = field.is_open ? otherOption(type, id) : null;
  const inputs = options.map(({ input }) => input);

  function chosen() {
    const ids = inputs.filter(({ checked }) => checked).map(({ value }) => value);
    if (other?.input.checked && other.words.value.trim()) ids.push(other.words.value.trim());
    return ids;
  }

  const element = h(
    "div",
    { class: "options" },
    options.map((option) => option.element),
    other?.element,
  );
  return {
    element,
    input: inputs[0] ?? other?.words ?? element, // an agent may offer no options
    get value() {
      const ids = chosen();
      if (field.many) return ids.length ? ids : null;
      return ids[0] ?? null;
    },
  };
}

function otherOption(type, id) {
  const input = h("input", { type, name: id, value: OTHER, "aria-label": "Something else" });
  const words = h("input", {
    type: "text",
    placeholder: "Something else…",
    "aria-label": "Something else, in your own words",
  });
  words.addEventListener("input", () => (input.checked = words.value !== ""));
  input.addEventListener("change", () => input.checked && words.focus());
  return { input, words, element: h("label", { class: "option is-other" }, input, words) };
}

function text(field, id) {
  const type = INPUTS[field.format];
  const isTime = type === "datetime-local";
  const first = field.default ?? "";
  const given = { id, value: isTime ? localTime(first) : first, autocomplete: "off" };
  const input = type ? h("input", { type, ...given }) : h("textarea", { rows: 1, ...given });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    input.form.requestSubmit();
  });
  return {
    element: input,
    input,
    get value() {
      const value = input.value.trim();
      return (value && isTime ? new Date(value).toISOString() : value) || null;
    },
  };
}

/** Convert a time with its time zone, as agents write and expect it, to the local time that the input field shows. */
function localTime(text) {
  const time = new Date(text);
  if (Number.isNaN(time.valueOf())) return "";
  return new Date(time - time.getTimezoneOffset() * 60_000).toISOString().slice(0, -1);
}

function number(field, id) {
  const input = h("input", {
    type: "number",
    id,
    value: field.default ?? "",
    step: field.is_whole ? 1 : "any",
    min: field.minimum ?? null,
    max: field.maximum ?? null,
    inputMode: field.is_whole ? "numeric" : "decimal",
  });
  return {
    element: input,
    input,
    get value() {
      if (input.validity.badInput) return Number.NaN;
      return input.value === "" ? null : Number(input.value);
    },
  };
}

function file(field, id) {
  const names = h("datalist", { id: `${id}-names` });
  const input = h("input", {
    type: "text",
    id,
    value: field.default ?? "",
    placeholder: "path/to/file",
    autocomplete: "off",
  });
  input.setAttribute("list", names.id);
  let asked = 0;
  const suggest = async () => {
    const mine = (asked += 1);
    try {
      const { files } = await get(`/api/files?query=${encodeURIComponent(input.value)}`);
      if (mine === asked) names.replaceChildren(...files.slice(0, 20).map((path) => h("option", { value: path })));
    } catch {
      // The user can type the path without suggestions.
    }
  };
  input.addEventListener("focus", suggest);
  input.addEventListener("input", suggest);
  return {
    element: h("div", {}, input, names),
    input,
    get value() {
      return input.value.trim() || null;
    },
  };
}
