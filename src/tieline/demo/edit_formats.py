"""File changes written as text, for clients without tools that apply the edits found in an answer.

Such a client (aider) describes the format in its system prompt: whole files, SEARCH/REPLACE blocks, unified diffs, or
plain instructions from an "architect" to an "editor", which is a second request to the same model.
"""

import re
from collections.abc import Iterable
from typing import Literal

from tieline.demo.actions import Action
from tieline.wire.shared.file_text import listing

Format = Literal["whole", "diff", "udiff", "architect"]

_MARKS: tuple[tuple[Format, str], ...] = (
    ("architect", "provide direction to your editor engineer"),
    ("diff", "*search/replace block*"),
    ("udiff", "`diff -u0`"),
    ("whole", "*file listing*"),
)


def find_format(text: str) -> Format | None:
    """Return the format that a prompt asks for."""
    lowered = text.lower()
    return next((form for form, mark in _MARKS if mark in lowered), None)


def find_file(path: str, texts: Iterable[str]) -> str | None:
    """Find a file's content in texts that show it as a line with its path, followed by a fenced block."""
    shown = re.compile(rf"(?:^|\n){re.escape(path)}\n(?P<fence>`{{3,}})[^\n]*\n(?P<content>.*?)(?P=fence)", re.DOTALL)
    return next((found["content"] for text in texts if (found := shown.search(text))), None)


def change(form: Format, action: Action, before: str | None) -> str:
    """Write one change in the given format. `before` is the file's current content, if it is known."""
    if form == "architect":
        return _instruction(action)
    if form == "whole":
        return listing(action.path, _after(action, before))
    if action.kind == "edit":
        old = _lines_with(action.pattern, before)
        new = old.replace(action.pattern, action.new)
    else:
        old, new = before or "", action.content
    return _block(action.path, old, new) if form == "diff" else _unified(action.path, old, new)


def _instruction(action: Action) -> str:
    """Write an instruction that this model can parse when it is called again as the editor."""
    if action.kind == "edit":
        return f"edit {action.path}: replace `{action.pattern}` with `{action.new}`"
    return f"write `{action.content}` to {action.path}"


def _after(action: Action, before: str | None) -> str:
    return (before or action.pattern).replace(action.pattern, action.new) if action.kind == "edit" else action.content


def _lines_with(pattern: str, before: str | None) -> str:
    """Return the first line that contains the pattern: only whole lines can be replaced."""
    return next((line for line in (before or "").splitlines() if pattern in line), pattern)


def _block(path: str, old: str, new: str) -> str:
    return f"{path}\n```\n<<<<<<< SEARCH\n{_ended(old)}=======\n{_ended(new)}>>>>>>> REPLACE\n```"


def _unified(path: str, old: str, new: str) -> str:
    source = path if old else "/dev/null"
    lines = [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in new.splitlines()]
    return "\n".join(["```diff", f"--- {source}", f"+++ {path}", "@@ ... @@", *lines, "```"])


def _ended(text: str) -> str:
    return f"{text.rstrip()}\n" if text.strip() else ""
