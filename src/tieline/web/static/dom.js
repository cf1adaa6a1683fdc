// Helpers for building elements. Text is always inserted as text, never as markup.

/** Create an element. Properties and children that are null, undefined or false are skipped.
 *
 * Functions named `on…` become listeners. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    set(element, name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function set(element, name, value) {
  if (name === "class") element.className = value;
  else if (name === "data") Object.assign(element.dataset, value);
  else if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (name in element && !name.startsWith("aria")) element[name] = value;
  else element.setAttribute(name, value === true ? "" : value);
}

/** Set the text of an element, unless it already has this text. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Make `wanted` the children of an element, in this order. Only children that are out of place are moved. */
export function arrange(parent, wanted) {
  let at = parent.firstChild;
  for (const child of wanted) {
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

let count = 0;

/** Return an id that is unique on this page. */
export function freshId(prefix) {
  count += 1;
  return `${prefix}-${count}`;
}

/** Return whether a key event is input for a text field or another form field. */
export function isTyping(event) {
  const target = event.composedPath()[0];
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}
