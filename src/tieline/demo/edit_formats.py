"""Changes of files written as text, for clients without tools that apply what they find in an answer.

Such a client (aider) describes the format in its system prompt: whole files, SEARCH/REPLACE blocks, unified diffs, or
plain instructions from an "architect" to an "editor", which is a second request to the same model.
"""

import re
from collections.abc import Iterable
from typing import Literal

from tieline.demo.wishes import Wish
from tieline.wire.shared.file_text import listing

Format = Literal["whole", "diff", "udiff", "architect"]

_MARKS: tuple[tuple[Format, str], ...] = (
    ("architect", "provide direction to your editor engineer"),
    ("diff", "*search/replace block*"),
    ("udiff", "`diff -u0`"),
    ("whole", "*file listing*"),
)


def find_format(text: str) -> Format | None:
    """The format that a prompt asks for."""
    lowered = text.lower()
    return next((form for form, mark in _MARKS if mark in lowered), None)


def find_file(path: str, texts: Iterable[str]) -> str | None:
    """The content of a file that a client showed: its path on a line, and a fenced block."""
    shown = re.compile(rf"(?:^|\n){re.escape(path)}\n(?P<fence>`{{3,}})[^\n]*\n(?P<content>.*?)(?P=fence)", re.DOTALL)
    return next((found["content"] for text in texts if (found := shown.search(text))), None)


def change(form: Format, wish: Wish, before: str | None) -> str:
    """One change of a file; `before` is its content, if it was shown."""
    if form == "architect":
        return _instruction(wish)
    if form == "whole":
        return listing(wish.path, _after(wish, before))
    if wish.kind == "edit":
        old = _lines_with(wish.pattern, before)
        new = old.replace(wish.pattern, wish.new)
    else:
        old, new = before or "", wish.content
    return _block(wish.path, old, new) if form == "diff" else _unified(wish.path, old, new)


def _instruction(wish: Wish) -> str:
    """Words that this model, as the editor, understands again."""
    if wish.kind == "edit":
        return f"edit {wish.path}: replace `{wish.pattern}` with `{wish.new}`"
    return f"write `{wish.content}` to {wish.path}"


def _after(wish: Wish, before: str | None) -> str:
    return (before or wish.pattern).replace(wish.pattern, wish.new) if wish.kind == "edit" else wish.content


def _lines_with(pattern: str, before: str | None) -> str:
    """The first line that holds the pattern: only whole lines can be replaced."""
    return next((line for line in (before or "").splitlines() if pattern in line), pattern)


def _block(path: str, old: str, new: str) -> str:
    return f"{path}\n```\n<<<<<<< SEARCH\n{_ended(old)}=======\n{_ended(new)}>>>>>>> REPLACE\n```"


def _unified(path: str, old: str, new: str) -> str:
    source = path if old else "/dev/null"
    lines = [f"-{line}" for line in old.splitlines()] + [f"+{line}" for line in new.splitlines()]
    return "\n".join(["```diff", f"--- {source}", f"+++ {path}", "@@ ... @@", *lines, "```"])


def _ended(text: str) -> str:
    return f"{text.rstrip()}\n" if text.strip() else ""
