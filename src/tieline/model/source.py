"""The wire text that requests and answers were parsed from, carried beside its meaning.

About half of all traffic uses the same protocol on both sides. There the other side should get exactly what was sent,
including fields that the model has no name for. So a request and a batch of events may carry their *source*. Only a
codec of the same protocol may look inside, and it uses the source only as far as its meaning is unchanged. Everything
else works on the parsed meaning.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tieline.model.events import Event
    from tieline.model.request import Request


class RequestSource:
    """The JSON of a request.

    Requests with the same meaning are equal, whatever their JSON looks like: a source is equal to any other and to
    none.
    """

    __slots__ = ("body", "messages", "parsed", "protocol")

    def __init__(self, protocol: str, body: bytes, messages: tuple[bytes | None, ...], parsed: "Request") -> None:
        self.protocol = protocol
        self.body = body
        self.messages = messages
        """The JSON text of each message of the parsed request; None where it is not a message of its own, or where an
        upstream might refuse it as it is."""
        self.parsed = parsed
        """The request as it was parsed. A field that is the same object in another request is unchanged."""

    def __eq__(self, other: object) -> bool:
        return other is None or isinstance(other, RequestSource)

    def __hash__(self) -> int:
        return 0


class AnswerSource(Struct, frozen=True):
    """The text that a batch of events was read from: whole frames of a stream, or the body of a whole answer."""

    protocol: str
    text: bytes
    is_stream: bool
    is_exact: bool = True
    """Whether the text means exactly what the events say. If not, only its unknown fields are of use."""
    model: bytes = b""
    """The member that names the model, as it occurs in the text; empty if there is none."""


class SourcedBatch(list["Event"]):
    """A batch of events with the text it was read from."""

    __slots__ = ("source",)

    def __init__(self, events: Iterable["Event"], source: AnswerSource) -> None:
        super().__init__(events)
        self.source = source


def source_of(batch: object) -> AnswerSource | None:
    """Return the source of a batch, if it has one."""
    return batch.source if type(batch) is SourcedBatch else None


def joined(first: list["Event"], second: list["Event"]) -> list["Event"]:
    """Return two batches as one, with the text of both if both have theirs."""
    own, other = source_of(first), source_of(second)
    if own is None or other is None:
        return [*first, *second]
    is_exact = own.is_exact and other.is_exact
    model = own.model or other.model
    return SourcedBatch([*first, *second], AnswerSource(own.protocol, own.text + other.text, True, is_exact, model))
