// A tool call in words: which verb, about what, and with which arguments.

import { plain } from "./terminal-text.js";

const VERBS = {
  read_file: "Read",
  list_directory: "List",
  search_files: "Find files",
  search_content: "Search",
  write_file: "Write",
  edit_file: "Edit",
  run_terminal: "Run",
  create_plan: "Propose a plan",
  ask_question: "Ask",
  switch_mode: "Switch mode",
  todo_write: "Update the list",
  todo_read: "Read the list",
};
const SUBJECTS = ["command", "pattern", "query", "path", "file_path", "url", "question", "title", "mode"];

/** What a title says: `run_terminal ls`, `grep {"pattern": "x"}`, or the free words of an agent. */
export function described(raw) {
  const title = plain(raw);
  const [, name, rest] = /^([A-Za-z][\w.:-]*)(?: (.*))?$/s.exec(title) ?? [];
  if (rest?.startsWith("{")) return call(name, rest);
  const isName = name in VERBS || /^[a-z]+_[a-z_]+$/.test(name ?? "");
  return isName
    ? { verb: VERBS[name] ?? name, subject: rest ?? "", given: null }
    : { verb: title, subject: "", given: null };
}

/** A call by its name and its arguments as JSON text, which may be cut short. */
export function call(name, text) {
  const given = parsed(text);
  return {
    verb: VERBS[name] ?? name,
    subject: subjectOf(given, text),
    given: given ?? (text ? { arguments: text } : null),
  };
}

function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}

function subjectOf(given, text) {
  for (const name of SUBJECTS) {
    const value = given ? given[name] : cutValue(name, text);
    if (typeof value === "string" && value) return value;
  }
  return "";
}

/** The value of a field in JSON that ends in the middle. */
function cutValue(name, text) {
  const found = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)`).exec(text);
  return found ? found[1].replace(/\\n/g, " ").replace(/\\(.)/g, "$1") : null;
}
