"""A ring buffer of the latest stream messages, so that a page can resume the stream after a lost connection.

Messages are numbered. The first number is the current time, so a number from an earlier process is always too old. A
slow reader needs no buffer of its own, because its position is just a number. If the message at that position has been
dropped, the reader receives a reset message and has to start again. Each reader receives only the messages in its
scope.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tieline.model.scope import EVERYTHING, Place, Scope

MAX_MESSAGES = 4096
MAX_BYTES = 16 << 20
AT_ONCE = 256 << 10
"""Maximum number of bytes returned by one read, unless a single message is larger."""

RESET = {"type": "reset"}

ScopedMessage = Callable[[Scope], Any]
"""A message that differs between readers. It is built for the scope of each reader when the reader receives it."""


class _Frame(NamedTuple):
    """A message of the ring, ready to be sent (`data`) or built for each reader (`message`).

    `place` is None if all readers receive the message.
    """

    data: bytes
    place: Place | None
    message: ScopedMessage | None = None


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
        self._frames: deque[_Frame] = deque()
        self._size = 0

    def put(self, message: Any, place: Place | None = None) -> None:
        """Add a message about something at a place, or for all readers. Drop the oldest ones if there are too many."""
        self.seq += 1
        self._add(_Frame(frame(self.seq, message), place))

    def put_scoped(self, message: ScopedMessage) -> None:
        """Add a message that is built for each reader."""
        self.seq += 1
        self._add(_Frame(b"", None, message))

    def _add(self, added: _Frame) -> None:
        self._frames.append(added)
        self._size += len(added.data)
        while len(self._frames) > self._most_messages or (self._size > self._most_bytes and len(self._frames) > 1):
            self._size -= len(self._frames.popleft().data)

    def after(self, seq: int, scope: Scope = EVERYTHING) -> RingRead:
        """Return the messages of a scope after number `seq`, or a reset message if some have been dropped."""
        oldest = self.seq - len(self._frames)
        if not oldest <= seq <= self.seq:
            return RingRead(frame(self.seq, RESET), self.seq)
        given: list[bytes] = []
        size = 0
        for data, place, message in islice(self._frames, seq - oldest, None):
            if place is None or scope.covers(*place):
                shown = data if message is None else frame(seq + 1, message(scope))
                if given and size + len(shown) > AT_ONCE:
                    break
                given.append(shown)
                size += len(shown)
            seq += 1
        return RingRead(b"".join(given), seq)

    def forget(self) -> None:
        """Drop all messages, so that existing readers receive a reset message."""
        self._frames.clear()
        self._size = 0
        self.seq += 1


def frame(seq: int, message: Any) -> bytes:
    """Return a message as a server-sent event."""
    return b"id: %d\ndata: %b\n\n" % (seq, msgspec.json.encode(message))
