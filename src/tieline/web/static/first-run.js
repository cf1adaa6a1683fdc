// The state of the first run, kept in this browser: which examples were tried, and whether they are hidden.

import { lasting } from "./page-storage.js";

const REMEMBERED = "tieline-first-run";

function load() {
  try {
    const { tried = [], hidden: isHidden = false } = JSON.parse(lasting.getItem(REMEMBERED)) ?? {};
    return { tried: Array.isArray(tried) ? tried : [], isHidden: isHidden === true };
  } catch {
    return { tried: [], isHidden: false };
  }
}

function save({ tried, isHidden }) {
  lasting.setItem(REMEMBERED, JSON.stringify({ tried, hidden: isHidden }));
}

/** Return the ids of the examples that were tried, and whether the user hid the examples. */
export const firstRun = load;

export function rememberTried(id) {
  const { tried, isHidden } = load();
  save({ tried: [...new Set([...tried, id])], isHidden });
}

export function rememberHidden(isHidden) {
  save({ ...load(), isHidden });
}
