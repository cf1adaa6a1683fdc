// Text that a person decides about, with nothing hidden in it: what would be invisible or turn words round is spelled.

// Control characters but for tabs and line ends; what has no width; what changes the direction of the words around it.
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|\r(?!\n)/g;

/** The same text, with every hidden character as its number. */
export function visible(text) {
  return text.replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
