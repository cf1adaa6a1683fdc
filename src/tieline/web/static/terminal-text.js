// Converts terminal output to plain text: removes colours, cursor movements and overwritten lines.

// CSI sequences (colours, cursor), OSC sequences (titles, links; ended by BEL or ST), and two-character escapes.
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
// The remaining control characters, except tab, newline and carriage return.
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

export function stripTerminalCodes(text) {
  if (!/[\u0000-\u0008\u000b-\u001f\u007f\u009b]/.test(text)) return text;
  const bare = text.replace(ESCAPES, "").replaceAll("\r\n", "\n").replace(CONTROLS, "");
  return bare.includes("\r") ? bare.split("\n").map(lastWritten).join("\n") : bare;
}

/** Return the visible text of a line that was overwritten with carriage returns, as progress bars do. */
function lastWritten(line) {
  const kept = line.replace(/\r+$/, "");
  return kept.slice(kept.lastIndexOf("\r") + 1);
}
