// Makes invisible characters visible in text that the user has to approve.

// Control characters except tabs and line ends; characters without width, or that are not shown where unsupported;
// characters that change the writing direction; uncommon line separators; the blank Braille pattern.
const HIDDEN = /(?!\t|\n|\r\n)[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800]/gu;

/** Return the text with every invisible character written as its code point. */
export function visible(text) {
  return text.replace(HIDDEN, (one) => {
    const number = one.codePointAt(0).toString(16);
    return number.length > 4 ? `\\u{${number}}` : `\\u${number.padStart(4, "0")}`;
  });
}
