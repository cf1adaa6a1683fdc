// Splits a unified diff into the texts before and after the change, for the diff editor.

"use strict";

/**
 * Return both sides of a unified diff: the lines of its hunks, with one heading for each file and each hunk. Return
 * null if the text is not a unified diff.
 * @param {string} diff
 * @returns {{before: string, after: string, added: number, removed: number} | null}
 */
function splitDiff(diff) {
  const before = /** @type {string[]} */ ([]);
  const after = /** @type {string[]} */ ([]);
  const both = (/** @type {string} */ line) => void (before.push(line), after.push(line));
  let [oldLeft, newLeft, hunks, added, removed] = [0, 0, 0, 0, 0];
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
    const isInside = oldLeft > 0 || newLeft > 0;
    if (hunk && !isInside) {
      [oldLeft, newLeft] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      if (hunks > 0 || Number(hunk[3]) > 1) both(`⋯ line ${hunk[3]}`);
      hunks += 1;
    } else if (isInside && line.startsWith("+")) {
      after.push(line.slice(1));
      [newLeft, added] = [newLeft - 1, added + 1];
    } else if (isInside && line.startsWith("-")) {
      before.push(line.slice(1));
      [oldLeft, removed] = [oldLeft - 1, removed + 1];
    } else if (isInside && (line.startsWith(" ") || line === "")) {
      both(line.slice(1));
      [oldLeft, newLeft] = [oldLeft - 1, newLeft - 1];
    } else if (line.startsWith("\\ "))
      continue; // "\ No newline at end of file"
    else if (isInside) return null;
    else if (line.startsWith("+++ ") && hunks > 0) both(`⋯ ${line.slice(4)}`);
    else if (!/^(--- |\+\+\+ |diff |index |new file|deleted file|old mode|new mode|similarity|rename |$)/.test(line))
      return null;
  }
  if (hunks === 0) return null;
  return { before: joined(before), after: joined(after), added, removed };
}

/** @param {string[]} lines */
const joined = (lines) => (lines.length ? `${lines.join("\n")}\n` : "");

module.exports = { splitDiff };
