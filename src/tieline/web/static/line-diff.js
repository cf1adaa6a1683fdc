// Compares texts line by line.

const CONTEXT = 3;
const MAX_WORK = 1_000_000; // Maximum number of line pairs to compare. Beyond it, all lines count as replaced.

/** Return the rows that show a change from `old` (null for a new file) to `text`. Both start at line `first`. */
export function compared(old, text, first = 1) {
  const before = old === null || old === undefined ? [] : split(old);
  const after = split(text);
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before.at(-1 - tail) === after.at(-1 - tail))
    tail += 1;
  const rows = before.slice(0, head).map((line, at) => row(" ", line, first + at, first + at));
  rows.push(...middle(before.slice(head, before.length - tail), after.slice(head, after.length - tail), first + head));
  for (let at = tail; at > 0; at -= 1) {
    rows.push(row(" ", before.at(-at), first + before.length - at, first + after.length - at));
  }
  return nearChanges(rows);
}

/** Parse a unified diff and return its rows. */
export function readUnified(diff) {
  const rows = [];
  let was = 0;
  let is = 0;
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      if (rows.length) rows.push(row("…", "", null, null));
      [was, is] = [Number(hunk[1]), Number(hunk[2])];
    } else if (was === 0 && is === 0 && /^(---|\+\+\+|diff |index )/.test(line)) continue;
    else if (line.startsWith("+")) rows.push(row("+", line.slice(1), null, is++));
    else if (line.startsWith("-")) rows.push(row("-", line.slice(1), was++, null));
    else if (line.startsWith(" ")) rows.push(row(" ", line.slice(1), was++, is++));
    else rows.push(row("…", line.replace(/^\\ /, ""), null, null));
  }
  return rows;
}

/** Return the number of added and of removed lines. */
export function counted(rows) {
  return {
    added: rows.filter(({ sign }) => sign === "+").length,
    removed: rows.filter(({ sign }) => sign === "-").length,
  };
}

const row = (sign, text, was, is) => ({ sign, text, was, is });

function split(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Return the rows for the lines between the first and the last difference. Both lists start at line `first`. */
function middle(before, after, first) {
  if (before.length * after.length > MAX_WORK) return [...removed(before, first), ...added(after, first)];
  const lengths = commonLengths(before, after);
  const rows = [];
  let [i, j] = [0, 0];
  while (i < before.length || j < after.length) {
    if (i < before.length && before[i] === after[j]) {
      rows.push(row(" ", before[i], first + i, first + j));
      [i, j] = [i + 1, j + 1];
    } else if (j === after.length || (i < before.length && lengths[i + 1][j] >= lengths[i][j + 1])) {
      rows.push(row("-", before[i], first + i, null));
      i += 1;
    } else {
      rows.push(row("+", after[j], null, first + j));
      j += 1;
    }
  }
  return rows;
}

/** Return a table: for lines i and j, the length of the longest common subsequence of the texts from there on. */
function commonLengths(before, after) {
  const [height, width] = [before.length, after.length];
  const lengths = Array.from({ length: height + 1 }, () => new Uint32Array(width + 1));
  for (let i = height - 1; i >= 0; i -= 1) {
    for (let j = width - 1; j >= 0; j -= 1) {
      lengths[i][j] =
        before[i] === after[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

const removed = (lines, first) => lines.map((line, at) => row("-", line, first + at, null));
const added = (lines, first) => lines.map((line, at) => row("+", line, null, first + at));

/** Return only the rows near a change, with "…" in place of the others. */
function nearChanges(rows) {
  const keep = new Uint8Array(rows.length);
  rows.forEach(({ sign }, at) => {
    if (sign !== " ") keep.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const kept = [];
  rows.forEach((one, at) => {
    if (keep[at]) kept.push(one);
    else if (keep[at - 1] && keep.indexOf(1, at) > 0) kept.push(row("…", "", null, null));
  });
  return kept;
}
