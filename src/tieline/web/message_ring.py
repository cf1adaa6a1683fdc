"""A ring buffer of the latest stream messages, so that a page can resume the stream after a lost connection.

Messages are numbered. The first number is the current time, so a number from an earlier process is always too old. A
slow reader needs no buffer of its own, because its position is just a number. If the message at that position has been
dropped, the reader receives a reset message and has to start again. Each reader receives only the messages in its
scope.

In a cluster, the numbers come from a log that the replicas share, so a page can resume the stream at another replica.
Messages about one replica, which are not in the log, have no number; positions in the ring count them as well.
"""

from bisect import bisect_right
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
_TOO_OLD = -1

ScopedMessage = Callable[[Scope], Any]
"""A message that differs between readers. It is built for the scope of each reader when the reader receives it."""


class _RingFrame(NamedTuple):
    """A message of the ring, ready to be sent (`data`) or built for each reader (`message`).

    `place` is None if all readers receive the message.
    """

    number: int
    """The number of the message or, if it has none, of the last message before it that has one."""
    is_numbered: bool
    data: bytes
    place: Place | None
    message: ScopedMessage | None = None


class RingRead(NamedTuple):
    """The messages of one read as bytes, ready to be sent, and the position from which to read on."""

    data: bytes
    seq: int


class MessageRing:
    """Keeps the latest messages, limited in number and total size. Positions are counted from `first + 1`.

    If `is_logged` is true, only the messages added with `put_logged` have a number. Otherwise, the number of a message
    is its position.
    """

    def __init__(
        self, first: int, *, most_messages: int = MAX_MESSAGES, most_bytes: int = MAX_BYTES, is_logged: bool = False
    ) -> None:
        self.seq = first
        """The position of the last message."""
        self.number = first
        """The number of the last message that has one."""
        self._most_messages = most_messages
        self._most_bytes = most_bytes
        self._is_logged = is_logged
        self._frames: deque[_RingFrame] = deque()
        self._size = 0
        self._dropped = first
        """The number of the last message that has been dropped."""

    def put(self, message: Any, place: Place | None = None) -> None:
        """Add a message for readers whose scope covers `place`, or for all readers if it is None.

        Drop the oldest messages if the ring is full.
        """
        number = self._next()
        self._add(_RingFrame(self.number, number is not None, frame(number, message), place))

    def put_scoped(self, message: ScopedMessage) -> None:
        """Add a message that is built for each reader."""
        number = self._next()
        self._add(_RingFrame(self.number, number is not None, b"", None, message))

    def put_logged(self, number: int, data: bytes, place: Place | None) -> None:
        """Add a message of the log, as JSON, under its number."""
        self.seq += 1
        self.number = number
        self._add(_RingFrame(number, True, _framed(number, data), place))

    def put_unlogged(self, data: bytes, place: Place | None) -> None:
        """Add a message, as JSON, without a number."""
        self.seq += 1
        self._add(_RingFrame(self.number, False, _framed(None, data), place))

    def _next(self) -> int | None:
        """Advance to the next position. Return the number of the message there, or None if it has none."""
        self.seq += 1
        if self._is_logged:
            return None
        self.number = self.seq
        return self.seq

    def _add(self, added: _RingFrame) -> None:
        self._frames.append(added)
        self._size += len(added.data)
        while len(self._frames) > self._most_messages or (self._size > self._most_bytes and len(self._frames) > 1):
            dropped = self._frames.popleft()
            self._size -= len(dropped.data)
            self._dropped = dropped.number

    def position(self, number: int) -> int:
        """Return the position of the message with this number, for `after`.

        If the ring does not contain the number, `after` will return a reset message.
        """
        if not self._dropped <= number <= self.number:
            return _TOO_OLD
        # Messages without a number follow the message whose number they contain.
        later = bisect_right(self._frames, (number, False), key=lambda one: (one.number, not one.is_numbered))
        return self.seq - len(self._frames) + later

    def after(self, seq: int, scope: Scope = EVERYTHING) -> RingRead:
        """Return the messages of a scope after position `seq`, or a reset message if some have been dropped."""
        oldest = self.seq - len(self._frames)
        if not oldest <= seq <= self.seq:
            return RingRead(frame(self.number, RESET), self.seq)
        given: list[bytes] = []
        size = 0
        for number, is_numbered, data, place, message in islice(self._frames, seq - oldest, None):
            if place is None or scope.covers(*place):
                shown = data if message is None else frame(number if is_numbered else None, message(scope))
                if given and size + len(shown) > AT_ONCE:
                    break
                given.append(shown)
                size += len(shown)
            seq += 1
        return RingRead(b"".join(given), seq)

    def forget(self) -> None:
        """Drop all messages, so that existing readers receive a reset message."""
        self.restart(self.number if self._is_logged else self.seq + 1)

    def restart(self, number: int) -> None:
        """Drop all messages, and continue after this number."""
        self._frames.clear()
        self._size = 0
        self.seq += 1
        self.number = self._dropped = number


def frame(number: int | None, message: Any) -> bytes:
    """Return a message as a server-sent event, with its number if it has one."""
    return _framed(number, msgspec.json.encode(message))


def _framed(number: int | None, data: bytes) -> bytes:
    return b"data: %b\n\n" % data if number is None else b"id: %d\ndata: %b\n\n" % (number, data)
