r"""Patterns of paths, much as .gitignore writes them.

A pattern without a slash is about the last part of a path, wherever that is; with one it is about the whole path from
the root. `*` and `?` stay within a part, `**` stands for any number of parts, also none, `[…]` for one character,
`{a,b}` for either, and `\` takes the meaning from what follows. `docs/` is the folder and everything in it.

Patterns come from models too, so no pattern may take long: each part is a regular expression that never goes back, and
parts are compared with one place to return to.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

MAX_LENGTH = 1000
MAX_ALTERNATIVES = 64
MAX_DEPTH = 8

_ANY_PARTS: Final = None
_Part = re.Pattern[str] | None
_TOKEN = re.compile(r"\\.|\[[!^]?\]?(?:\\.|[^\]\\])*\]|\*+|.", re.DOTALL)
_SPECIAL = re.compile(r"([*?\[\]{}\\])")


class Glob:
    """A pattern that was read; `Glob.of` raises ValueError, in words, for one that cannot be."""

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > MAX_LENGTH:
            raise ValueError(f"a pattern has 1 to {MAX_LENGTH} characters")
        self._alternatives = [_parts(marks) for marks in _Braces(_TOKEN.findall(pattern)).whole()]

    @staticmethod
    @lru_cache(256)
    def of(pattern: str) -> "Glob":
        """The pattern, read once."""
        return Glob(pattern)

    def matches(self, path: str) -> bool:
        """Whether the pattern is about this path: relative to the root, written with slashes; `.` is the root."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        return any(_fits(wanted, parts) for wanted in self._alternatives)


def escaped(path: str) -> str:
    """The pattern that is about this very path and no other."""
    return "/" + _SPECIAL.sub(r"\\\1", path)


def is_exact(pattern: str) -> bool:
    """Whether the pattern is about one path only."""
    return pattern.startswith("/") and not pattern.endswith("/") and not _SPECIAL.search(re.sub(r"\\.", "", pattern))


class _Braces:
    """The alternatives of a pattern, each as a list of marks without braces."""

    def __init__(self, marks: list[str]) -> None:
        self.marks = marks
        self.at = 0

    def whole(self) -> list[tuple[str, ...]]:
        return self.sequence(0)

    def sequence(self, depth: int) -> list[tuple[str, ...]]:
        found: list[tuple[str, ...]] = [()]
        while self.at < len(self.marks):
            mark = self.marks[self.at]
            if depth and mark in (",", "}"):
                break
            self.at += 1
            added = self.either(depth + 1) if mark == "{" else [(mark,)]
            found = [(*before, *after) for before in found for after in added]
            if len(found) > MAX_ALTERNATIVES:
                raise ValueError(f"a pattern has at most {MAX_ALTERNATIVES} alternatives in braces")
        return found

    def either(self, depth: int) -> list[tuple[str, ...]]:
        if depth > MAX_DEPTH:
            raise ValueError(f"braces stand at most {MAX_DEPTH} deep in one another")
        found: list[tuple[str, ...]] = []
        while True:
            found += self.sequence(depth)
            if self.at == len(self.marks):
                raise ValueError("a { is never closed")
            self.at += 1
            if self.marks[self.at - 1] == "}":
                return found


def _parts(marks: Sequence[str]) -> list[_Part]:
    parts: list[list[str]] = [[]]
    for mark in marks:
        if mark == "/":
            parts.append([])
        else:
            parts[-1].append(mark)
    anchored = any(parts[:-1])
    inside = len(parts) > 1 and not parts[-1]
    wanted = [_part(part) for part in parts if part and part != ["."]]
    if len(wanted) == 1 and (not anchored or inside) and parts[0]:
        wanted.insert(0, _ANY_PARTS)
    return [*wanted, _ANY_PARTS] if inside else wanted


def _part(marks: Sequence[str]) -> _Part:
    """One part as a regular expression: what follows a star is found at its first place, and that is final."""
    if len(marks) == 1 and len(marks[0]) > 1 and not marks[0].strip("*"):
        return _ANY_PARTS
    pieces: list[str] = [""]
    for mark in marks:
        if mark.startswith("*"):
            pieces.append("")
        else:
            pieces[-1] += _character(mark)
    first, *others = pieces
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1] if piece)
    last = f".*{others[-1]}" if others else ""
    return re.compile(first + middle + last, re.DOTALL)


def _character(mark: str) -> str:
    if mark == "?":
        return "."
    if len(mark) > 1 and mark[0] == "\\":
        return re.escape(mark[1])
    if len(mark) == 1:
        return re.escape(mark)
    is_negated = mark[1] in "!^"
    inside = re.sub(r"\\?([\[\]&~|^])", r"\\\1", mark[2 if is_negated else 1 : -1])
    try:
        return re.compile(f"[{'^' if is_negated else ''}{inside}]").pattern
    except re.error as error:
        raise ValueError(f"{mark} is not a set of characters: {error}") from None


def _fits(wanted: Sequence[_Part], parts: Sequence[str]) -> bool:
    """Whether the parts are as wanted; when they are not, only the latest `**` may take one part more."""
    at = place = 0
    back: tuple[int, int] | None = None
    while place < len(parts) or at < len(wanted):
        part = wanted[at] if at < len(wanted) else None
        if at < len(wanted) and part is _ANY_PARTS:
            back = (at, place)
            at += 1
        elif part is not None and place < len(parts) and part.fullmatch(parts[place]):
            at, place = at + 1, place + 1
        elif back is not None and back[1] < len(parts):
            back = (back[0], back[1] + 1)
            at, place = back[0] + 1, back[1]
        else:
            return False
    return True
