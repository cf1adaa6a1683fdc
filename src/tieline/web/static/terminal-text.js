// What a program wrote to a terminal, as plain text: colours and cursor moves taken out, overwritten lines left out.

// CSI (colours, cursor), OSC (titles, links; ended by BEL or ST), and the two-character escapes.
const ESCAPES = new RegExp(
  [
    "[\\u001b](?:\\[[0-?]*[ -/]*[@-~]",
    "\\][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\|$)",
    "[PX^_][^\\u001b]*(?:\\u001b\\\\|$)",
    "[ -/]*[0-~])",
    "\\u009b[0-?]*[ -/]*[@-~]",
  ].join("|"),
  "g",
);
// Control characters that are left after that; tab, newline and carriage return stay.
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

export function plain(text) {
  if (!/[\u0000-\u0008\u000b-\u001f\u007f\u009b]/.test(text)) return text;
  const bare = text.replace(ESCAPES, "").replaceAll("\r\n", "\n").replace(CONTROLS, "");
  return bare.includes("\r") ? bare.split("\n").map(lastWritten).join("\n") : bare;
}

/** A progress bar writes its line again and again; the last one is what a terminal would show. */
function lastWritten(line) {
  const kept = line.replace(/\r+$/, "");
  return kept.slice(kept.lastIndexOf("\r") + 1);
}
