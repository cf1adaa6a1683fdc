"""The last messages of the stream, numbered: whoever lost the connection takes up where it was.

Numbers go on from one gateway to the next, since they begin with the time; so a number of the last gateway is known
to be too old. A slow reader costs nothing: it is only a number, and when the ring has gone past it, it starts anew.
"""

from collections import deque
from itertools import islice
from typing import Any, NamedTuple

import msgspec

MOST_MESSAGES = 4096
MOST_BYTES = 16 << 20
AT_ONCE = 256 << 10
"""Bytes that are given to a reader at a time."""

RESET = {"type": "reset"}


class Given(NamedTuple):
    """What a reader gets, and the number it is at then."""

    data: bytes
    seq: int


class Ring:
    """A bounded number of messages; `first` is the number that the first one comes after."""

    def __init__(self, first: int, *, most_messages: int = MOST_MESSAGES, most_bytes: int = MOST_BYTES) -> None:
        self.seq = first
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._frames: deque[bytes] = deque()
        self._size = 0

    def put(self, message: Any) -> None:
        """Add a message."""
        self.seq += 1
        data = frame(self.seq, message)
        self._frames.append(data)
        self._size += len(data)
        while len(self._frames) > self._most_messages or (self._size > self._most_bytes and len(self._frames) > 1):
            self._size -= len(self._frames.popleft())

    def after(self, seq: int) -> Given:
        """What comes after a number; if that is not known any more, a message that says so."""
        oldest = self.seq - len(self._frames)
        if not oldest <= seq <= self.seq:
            return Given(frame(self.seq, RESET), self.seq)
        given: list[bytes] = []
        size = 0
        for data in islice(self._frames, seq - oldest, None):
            if given and size + len(data) > AT_ONCE:
                break
            given.append(data)
            size += len(data)
        return Given(b"".join(given), seq + len(given))

    def forget(self) -> None:
        """Something was missed: whoever was here before has to start anew."""
        self._frames.clear()
        self._size = 0
        self.seq += 1


def frame(seq: int, message: Any) -> bytes:
    """A message as a server-sent event."""
    return b"id: %d\ndata: %b\n\n" % (seq, msgspec.json.encode(message))
