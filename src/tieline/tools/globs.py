r"""Path patterns, similar to those in .gitignore files.

A pattern without a slash matches the last part of a path in any folder. A pattern with a slash matches the whole path
from the root. `*` and `?` match within a part, `**` matches any number of parts including none, `[…]` matches one
character, `{a,b}` matches either alternative, and `\` escapes the next character. `docs/` matches the folder and
everything in it.

Models supply patterns too, so matching must take bounded time: each part is a regular expression without backtracking,
and the comparison of parts backtracks only to the latest `**`.
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
    """A parsed pattern. The constructor raises ValueError with a readable message if the pattern is not valid."""

    def __init__(self, pattern: str) -> None:
        if not pattern or len(pattern) > MAX_LENGTH:
            raise ValueError(f"a pattern has 1 to {MAX_LENGTH} characters")
        self._alternatives = [_parts(marks) for marks in _BraceExpansion(_TOKEN.findall(pattern)).whole()]

    @staticmethod
    @lru_cache(256)
    def of(pattern: str) -> "Glob":
        """Return the parsed pattern, from a cache if possible."""
        return Glob(pattern)

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches a path relative to the root. `.` is the root itself."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        return any(_parts_match(wanted, parts) for wanted in self._alternatives)


def escaped(path: str) -> str:
    """Return the pattern that matches exactly this path."""
    return "/" + _SPECIAL.sub(r"\\\1", path)


def is_exact(pattern: str) -> bool:
    """Return whether the pattern matches exactly one path."""
    return pattern.startswith("/") and not pattern.endswith("/") and not _SPECIAL.search(re.sub(r"\\.", "", pattern))


class _BraceExpansion:
    """Expands the braces in a tokenized pattern into alternatives without braces."""

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
            raise ValueError(f"braces can be nested at most {MAX_DEPTH} deep")
        found: list[tuple[str, ...]] = []
        while True:
            found += self.sequence(depth)
            if self.at == len(self.marks):
                raise ValueError("a `{` is not closed")
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
    """Compile one part of a pattern. Text between stars matches only at its first occurrence, without backtracking."""
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
        raise ValueError(f"`{mark}` is not a valid character set: {error}") from None


def _parts_match(wanted: Sequence[_Part], parts: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern.

    On a mismatch, the latest `**` is extended by one part; earlier ones are not tried again.
    """
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
