"""Split a byte stream into lines, with a limit on the size of a line.

Of a line over the limit only the beginning is kept, and the rest is counted and dropped. The other side can lose one
line that way, but it cannot exhaust memory.
"""

from typing import NamedTuple

BEGINNING = 4096
"""Bytes that are kept of a line over the limit."""


class Oversized(NamedTuple):
    """A line over the limit, without most of its content."""

    beginning: bytes
    size: int


class LineReader:
    """Collects input of any size into complete lines, without their line feeds."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: list[bytes] = []
        self._size = 0
        self._is_dropping = False

    def feed(self, data: bytes) -> list[bytes | Oversized]:
        """Return the lines that `data` completes."""
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
        """End the stream. Return what follows the last line feed, if anything does."""
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
