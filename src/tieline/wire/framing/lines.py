"""Lines: bytes cut at line feeds, however they arrive, with a bound on what one line may hold.

A line that grows over the limit is not kept: from then on only its beginning is, and its size is counted until its end
comes. So the worst the other side can do is to make one line vanish.
"""

from typing import NamedTuple

BEGINNING = 4096
"""How much of a line that is too large is kept."""


class Oversized(NamedTuple):
    """A line that was larger than the limit."""

    beginning: bytes
    size: int


class LineReader:
    """Feed it reads of any size; it gives whole lines without their line feed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        self._is_dropping = False

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """The lines that are whole now."""
        first, *rest = data.split(b"\n")
        self._hold(first)
        if not rest:
            return []
        lines = [self._end()]
        *whole, last = rest
        limit = self._limit
        lines += [line if len(line) <= limit else Oversized(line[:BEGINNING], len(line)) for line in whole]
        self._hold(last)
        return lines

    def close(self) -> bytes | Oversized | None:
        """The end of the stream: what stands after the last line feed, if anything does."""
        return self._end() if self._size else None

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._is_dropping:
            return
        self._held.append(data)
        if self._size > self._limit:
            self._is_dropping = True
            self._held = [b"".join(self._held)[:BEGINNING]]

    def _end(self) -> bytes | Oversized:
        held = self._held
        line = held[0] if len(held) == 1 else b"".join(held)
        size, was_dropped = self._size, self._is_dropping
        self._held = []
        self._size = 0
        self._is_dropping = False
        return Oversized(line, size) if was_dropped else line
