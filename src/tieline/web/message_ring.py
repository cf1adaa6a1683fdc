"""A ring buffer of the latest stream messages, so that a page can resume the stream after a lost connection.

Messages are numbered. The first number is the current time, so a number from an earlier process is always too old. A
slow reader needs no buffer of its own, because its position is just a number. If the message at that position has been
dropped, the reader receives a reset message and has to start again.
"""

from collections import deque
from itertools import islice
from typing import Any, NamedTuple

import msgspec

MAX_MESSAGES = 4096
MAX_BYTES = 16 << 20
AT_ONCE = 256 << 10
"""Maximum number of bytes returned by one read, unless a single message is larger."""

RESET = {"type": "reset"}


class RingRead(NamedTuple):
    """Consecutive messages as bytes, ready to be sent, and the number of the last of them."""

    data: bytes
    seq: int


class MessageRing:
    """Keeps the latest messages, limited in number and total size. Messages are numbered from `first + 1`."""

    def __init__(self, first: int, *, most_messages: int = MAX_MESSAGES, most_bytes: int = MAX_BYTES) -> None:
        self.seq = first
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._frames: deque[bytes] = deque()
        self._size = 0

    def put(self, message: Any) -> None:
        """Add a message, and drop the oldest ones if there are too many."""
        self.seq += 1
        data = frame(self.seq, message)
        self._frames.append(data)
        self._size += len(data)
        while len(self._frames) > self._most_messages or (self._size > self._most_bytes and len(self._frames) > 1):
            self._size -= len(self._frames.popleft())

    def after(self, seq: int) -> RingRead:
        """Return the messages after number `seq`, or a reset message if some of them have been dropped."""
        oldest = self.seq - len(self._frames)
        if not oldest <= seq <= self.seq:
            return RingRead(frame(self.seq, RESET), self.seq)
        given: list[bytes] = []
        size = 0
        for data in islice(self._frames, seq - oldest, None):
            if given and size + len(data) > AT_ONCE:
                break
            given.append(data)
            size += len(data)
        return RingRead(b"".join(given), seq + len(given))

    def forget(self) -> None:
        """Drop all messages, so that existing readers receive a reset message."""
        self._frames.clear()
        self._size = 0
        self.seq += 1


def frame(seq: int, message: Any) -> bytes:
    """Return a message as a server-sent event."""
    return b"id: %d\ndata: %b\n\n" % (seq, msgspec.json.encode(message))
