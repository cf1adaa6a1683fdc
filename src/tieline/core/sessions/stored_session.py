"""The form in which sessions and their messages are stored."""

import logging
from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from tieline.model.content import Value
from tieline.model.events import Finished, StopReason
from tieline.model.session import Summary, Turn

log = logging.getLogger("tieline")

T = TypeVar("T")

SHELF = "sessions"
RESTARTED = Finished(reason=StopReason.CANCELLED, detail="The gateway was stopped during this message.")


class StoredSession(Value):
    """A session in the form in which it is stored. `head` is the id of the last message of the displayed branch."""

    summary: Summary
    head: str | None = None
    is_named: bool = False
    """Whether the user chose the title. If not, the title is derived from the first message."""
    replica: str = ""
    """The replica that generates a message in the session; empty if none does, or without a cluster."""


def turns_shelf(session_id: str) -> str:
    """Return the shelf with the messages of a session."""
    return f"turns/{session_id}"


def decoded(documents: Iterable[bytes], kind: type[T]) -> list[T]:
    """Return the documents that can be decoded."""
    found: list[T] = []
    for document in documents:
        try:
            found.append(msgspec.json.decode(document, type=kind))
        except (msgspec.DecodeError, UnicodeError) as error:
            log.warning("skipping a stored %s that cannot be read: %s", kind.__name__, error)
    return found


def ended(turn: Turn) -> Turn:
    """Return the message, marked as cancelled if it has no ending: the gateway stopped while it was being generated."""
    return replace(turn, ending=RESTARTED) if turn.role == "assistant" and turn.ending is None else turn
