"""Shows changes to files as a unified diff, or as an excerpt of both versions. Both are computed in bounded time.

Lines that both versions share at the beginning and at the end are skipped. If many lines remain, they are shown as one
removed and one added block, because comparing them line by line could take minutes.
"""

import difflib
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tieline.model.events import Diff

CONTEXT = 3
MAX_COMPARED = 2000
MAX_WIDTH = 2000
MAX_SHOWN = 32 << 10
"""Maximum number of characters from each version in an excerpt."""


class _LineChange(NamedTuple):
    """A change: the lines `old_from:old_to` of the old text become the lines `new_from:new_to` of the new one."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def unified_diff(old: str, new: str, path: str, *, is_new: bool = False) -> str:
    """Return the complete diff between two texts (empty if they are equal). `is_new` says whether the file is new."""
    before, after = _lines(old), _lines(new)
    changes = _changes(before, after)
    if not changes:
        return ""
    lines = ["--- /dev/null" if is_new else f"--- a/{path}", f"+++ b/{path}"]
    for group in _grouped(changes):
        lines += _hunk(group, before, after)
    return "\n".join(lines) + "\n"


def excerpt(old: bytes | None, new: bytes, path: str) -> Diff | None:
    """Return the changed lines of both versions with some context, or None if the files are binary.

    Also return None if both versions look the same, because they are equal or differ only where a long line is cut. So
    an excerpt does not replace `unified_diff` if a person has to allow a change.
    """
    if b"\0" in (old or b"") or b"\0" in new:
        return None
    after = _lines(new.decode("utf-8", "replace"))
    if old is None:
        return Diff(path=path, old=None, new=_bounded(after))
    before = _lines(old.decode("utf-8", "replace"))
    head = max(_common(before, after) - CONTEXT, 0)
    tail = max(_common(before[head:][::-1], after[head:][::-1]) - CONTEXT, 0)
    was, became = (_bounded(lines[head : len(lines) - tail]) for lines in (before, after))
    return Diff(path=path, old=was, new=became, line=head + 1) if was != became else None


def _lines(text: str) -> list[str]:
    return list(io.StringIO(text, newline="\n"))


def _bounded(lines: Sequence[str]) -> str:
    """Return as many lines as fit into MAX_SHOWN. If any are omitted, add a line that says how many."""
    kept: list[str] = []
    room = MAX_SHOWN
    for line in lines:
        kept.append(line if len(line) <= MAX_WIDTH else f"{line[:MAX_WIDTH]}… ({len(line)} characters)\n")
        room -= len(kept[-1])
        if room < 0:
            left_out = len(lines) - len(kept) + 1
            return "".join([*kept[:-1], f"… {left_out} more line{'' if left_out == 1 else 's'} …\n"])
    return "".join(kept)


def _changes(before: Sequence[str], after: Sequence[str]) -> list[_LineChange]:
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if not old and not new:
        return []
    if len(old) + len(new) > MAX_COMPARED:
        return [_LineChange(head, head + len(old), head, head + len(new))]
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [_LineChange(head + a, head + b, head + c, head + d) for kind, a, b, c, d in codes if kind != "equal"]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning of both sequences."""
    for count, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return count
    return min(len(one), len(other))


def _grouped(changes: Sequence[_LineChange]) -> Iterator[list[_LineChange]]:
    """Group changes that are close enough to share their context."""
    group = [changes[0]]
    for change in changes[1:]:
        if change.old_from - group[-1].old_to > 2 * CONTEXT:
            yield group
            group = []
        group.append(change)
    yield group


def _hunk(group: Sequence[_LineChange], before: Sequence[str], after: Sequence[str]) -> list[str]:
    first, last = group[0], group[-1]
    lead = min(CONTEXT, first.old_from)
    trail = min(CONTEXT, len(before) - last.old_to)
    old = _range(first.old_from - lead, last.old_to + trail)
    new = _range(first.new_from - lead, last.new_to + trail)
    lines = [f"@@ -{old} +{new} @@"]
    at = first.old_from - lead
    for change in group:
        lines += _marked(" ", before[at : change.old_from])
        lines += _marked("-", before[change.old_from : change.old_to])
        lines += _marked("+", after[change.new_from : change.new_to])
        at = change.old_to
    return [*lines, *_marked(" ", before[at : at + trail])]


def _range(start: int, stop: int) -> str:
    """Return the lines `start:stop`, counted from 0, in diff notation, which counts from 1.

    An empty range is written as the number of the line before it and the length 0.
    """
    count = stop - start
    begin = start + 1 if count else start
    return str(begin) if count == 1 else f"{begin},{count}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        text = line.rstrip("\n")
        yield mark + text
        if text == line:
            yield "\\ No newline at end of file"
