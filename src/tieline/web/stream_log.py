"""The log of stream messages that the replicas of a cluster share, as the event stream sees it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tieline.model.scope import Place


class LoggedMessage(NamedTuple):
    """A stream message as JSON, and its number in the log. `place` is None if all pages receive it."""

    number: int
    data: bytes
    place: Place | None


class LogReader(NamedTuple):
    """The functions that a log calls."""

    take: Callable[[Sequence[LoggedMessage]], None]
    """Called with new messages of all replicas, in the order of their numbers."""
    restart: Callable[[int], None]
    """Called if messages have been missed. The next message is the first one after this number."""
    take_unlogged: Callable[[bytes, Place | None], None]
    """Called with a message of this replica that could not be written to the log."""


class StreamLog(Protocol):
    """Numbers the stream messages of all replicas, and delivers all of them to each replica in the same order."""

    def start(self, reader: LogReader) -> None:
        """Begin to deliver messages. The event loop must be running."""

    def add(self, data: bytes, place: Place | None) -> None:
        """Add a message, without waiting until it is written."""

    async def ready(self) -> None:
        """Wait, for a limited time, until the messages that the log contained at the start have been delivered."""

    async def written(self) -> int | None:
        """Wait, for a limited time, until the messages added so far are written.

        Return the number of the last written message; None if there is none, or if writing failed or took too long.
        """

    async def catch_up(self, number: int) -> None:
        """Deliver the messages up to this number now, if the log contains them."""
