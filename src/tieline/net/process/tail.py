"""Keeps the last part of a program's standard error, limited in size and without control characters."""

import re
from collections import deque

_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[@-Z\\^_=>78]?"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)


class Tail:
    """Keeps the last `limit` bytes of a stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_cut = False

    def add(self, data: bytes) -> None:
        """Append data, and drop the oldest data if there is too much."""
        if len(data) > self._limit:
            data = data[-self._limit :]
            self._is_cut = True
        self._pieces.append(data)
        self._size += len(data)
        # Drop whole pieces only, so that nothing is copied while a program floods its standard error.
        while self._size - len(self._pieces[0]) >= self._limit:
            self._size -= len(self._pieces.popleft())
            self._is_cut = True

    def text(self) -> str:
        """Return the lines without escape sequences and without an incomplete first line.

        For a line that was overwritten with carriage returns, return its last version.
        """
        data = b"".join(self._pieces)
        is_cut = self._is_cut or len(data) > self._limit
        text = _CONTROL.sub("", data[-self._limit :].decode("utf-8", "replace"))
        lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n")]
        if is_cut and len(lines) > 1:
            del lines[0]
        return "\n".join(lines).strip("\n")
