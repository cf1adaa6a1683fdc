// Text that a person decides about, with nothing hidden in it: what would be invisible or turn words round is spelled.

// Control characters but for tabs and line ends; what has no width, or is ignored where it is not known; what changes the
// direction of the words around it; line ends that are not everywhere seen as such; the blank of Braille.
const HIDDEN = /(?!\t|\n|\r\n)[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800]/gu;

/** The same text, with every hidden character as its number. */
export function visible(text) {
  return text.replace(HIDDEN, (one) => {
    const number = one.codePointAt(0).toString(16);
    return number.length > 4 ? `\\u{${number}}` : `\\u${number.padStart(4, "0")}`;
  });
}
