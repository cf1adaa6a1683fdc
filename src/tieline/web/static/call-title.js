// The title of a tool call: a verb, the subject, and the arguments.

import { stripTerminalCodes } from "./terminal-text.js";

const VERBS = {
  __proto__: null, // a title may begin with "constructor"
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
  todo_write: "Update the todo list",
  todo_read: "Read the todo list",
};
const FILE_TOOLS = new Set(["read_file", "write_file", "edit_file"]);
const SUBJECTS = ["command", "pattern", "query", "path", "file_path", "url", "question", "title", "mode"];

/** Split the title of an activity: `run_terminal ls`, `grep {"pattern": "x"}`, or free text from an agent.
 *
 * `path` is the file that the activity reads or writes, if the title names one.
 */
export function parseTitle(raw) {
  const title = stripTerminalCodes(raw);
  const [, name, rest] = /^([A-Za-z][\w.:-]*)(?: (.*))?$/s.exec(title) ?? [];
  if (rest?.startsWith("{")) return describeCall(name, rest);
  const isName = name in VERBS || /^[a-z]+_[a-z_]+$/.test(name ?? "");
  return isName
    ? { verb: VERBS[name] ?? name, subject: rest ?? "", given: null, path: FILE_TOOLS.has(name) ? (rest ?? "") : "" }
    : { verb: title, subject: "", given: null, path: "" };
}

/** Describe a tool call. `text` is its arguments as JSON, which may be incomplete. */
export function describeCall(name, text) {
  const given = parsed(text);
  const path = given?.file_path ?? (FILE_TOOLS.has(name) ? given?.path : "");
  return {
    verb: VERBS[name] ?? name,
    subject: subjectOf(given, text),
    path: typeof path === "string" ? path : "",
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

/** Return the string value of a field in incomplete JSON, or null. */
function cutValue(name, text) {
  const found = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)`).exec(text);
  return found ? found[1].replace(/\\n/g, " ").replace(/\\(.)/g, "$1") : null;
}
