"""The title of a tool call in short form: what it does, and to what."""

import re
from typing import Any, NamedTuple

import msgspec

from tieline.cli.chat.safe_text import output

MAX_TITLE = 4000
VERBS = {
    "read_file": "Read",
    "list_directory": "List",
    "search_files": "Find files",
    "search_content": "Search",
    "write_file": "Write",
    "edit_file": "Edit",
    "run_terminal": "Run",
    "create_plan": "Propose a plan",
    "ask_question": "Ask",
    "switch_mode": "Switch mode",
    "todo_write": "Update the todo list",
    "todo_read": "Read the todo list",
}
_SUBJECTS = ("command", "pattern", "query", "path", "file_path", "url", "question", "title", "mode")
_CALL = re.compile(r"([A-Za-z][\w.:-]*)(?: (.*))?", re.DOTALL)
_TOOL_NAME = re.compile(r"[a-z]+_[a-z_]+")


class CallTitle(NamedTuple):
    """The title of a call. If it has no recognisable form, `verb` is the whole title."""

    verb: str
    subject: str = ""


def parse_title(title: str) -> CallTitle:
    """Split the title of an activity: `run_terminal ls`, `grep {"pattern": "x"}`, or free text from an agent."""
    shown = " ".join(output(title[:MAX_TITLE]).split())
    found = _CALL.fullmatch(shown)
    if found is None:
        return CallTitle(shown)
    name, rest = found[1], found[2] or ""
    if rest.startswith("{"):
        subject = describe_arguments(rest)
        return CallTitle(VERBS[name], "" if subject == rest else subject) if name in VERBS else CallTitle(name, subject)
    if name in VERBS or _TOOL_NAME.fullmatch(name):
        return CallTitle(VERBS.get(name, name), rest)
    return CallTitle(shown)


def describe_arguments(text: str) -> str:
    """Return the most important of a call's arguments, which are JSON text, or the whole text if none stands out."""
    try:
        given: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    values = [given.get(name) for name in _SUBJECTS] if isinstance(given, dict) else []
    subject = next((value for value in values if isinstance(value, str) and value), None)
    return text if subject is None and given else " ".join((subject or "").split())
