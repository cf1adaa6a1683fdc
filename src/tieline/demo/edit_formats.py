"""File changes written as text, for clients that have no tools and instead apply the edits in an answer.

Such a client (for example aider) describes the format in its system prompt: whole files, SEARCH/REPLACE blocks, unified
diffs, or plain instructions. Plain instructions are used in aider's architect mode: as the "architect", the
model writes them; as the "editor", it carries them out in a second request.
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
    """Return the edit format that a prompt asks for, or None."""
    lowered = text.lower()
    return next((form for form, mark in _MARKS if mark in lowered), None)


def find_file(path: str, texts: Iterable[str]) -> str | None:
    """Return the content of a file from the first text that shows it: a line with its path, then a fenced block.

    Return None if no text shows the file.
    """
    shown = re.compile(rf"(?:^|\n){re.escape(path)}\n(?P<fence>`{{3,}})[^\n]*\n(?P<content>.*?)(?P=fence)", re.DOTALL)
    return next((found["content"] for text in texts if (found := shown.search(text))), None)


def change(form: Format, action: Action, before: str | None) -> str:
    """Return the file change that `action` requests, in this format. `before` is the file's content, if known."""
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
    """Return an instruction that the demo model can parse itself when it is called again as the editor."""
    if action.kind == "edit":
        return f"edit {action.path}: replace `{action.pattern}` with `{action.new}`"
    return f"write `{action.content}` to {action.path}"


def _after(action: Action, before: str | None) -> str:
    return (before or action.pattern).replace(action.pattern, action.new) if action.kind == "edit" else action.content


def _lines_with(pattern: str, before: str | None) -> str:
    """Return the first line of the file content `before` that contains the pattern, or the pattern itself if none does.

    The edit formats can replace only whole lines.
    """
    return next((line for line in (before or "").splitlines() if pattern in line), pattern)


def _block(path: str, old: str, new: str) -> str:
    return f"{path}\n```\n<<<<<<< SEARCH\n{_ended(old)}=======\n{_ended(new)}>>>>>>> REPLACE\n```"


def _unified(path: str, old: str, new: str) -> str:
    source = path if old else "/dev/null"
    lines = [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in new.splitlines()]
    return "\n".join(["```diff", f"--- {source}", f"+++ {path}", "@@ ... @@", *lines, "```"])


def _ended(text: str) -> str:
    return f"{text.rstrip()}\n" if text.strip() else ""
