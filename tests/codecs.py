"""All codecs behind one set of names, so that a test can be written once for all of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from msgspec.structs import replace

from tieline.model.errors import GatewayError
from tieline.model.events import Event, Failed, Finished, PartDelta, Reply, Usage
from tieline.model.request import Request
from tieline.wire import anthropic, openai_chat, openai_responses
from tieline.wire.shared.spelling import BuiltRequest, ToolNames

CREATED = 1_700_000_000
EVERYTHING = openai_chat.Dialect(
    replay_reasoning=True,
    text_parts=True,
    freeform_tools=True,
    cache_marks=True,
    cache_key=True,
    images_in_tools=True,
)

RESPONSE = openai_responses.Options(created=CREATED, encrypted=True)


class Reader(Protocol):
    """The streaming side of a client."""

    @property
    def ended(self) -> bool: ...
    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...


class Writer(Protocol):
    """The streaming side of a server."""

    def write(self, event: Event) -> bytes: ...


@dataclass(frozen=True)
class Codec:
    """One protocol; times and fallback ids are fixed, arguments are delivered as they come."""

    name: str
    parse: Callable[[bytes], Request]
    build: Callable[[Request], BuiltRequest]
    build_fully: Callable[[Request], BuiltRequest]
    """For an upstream that can take everything some upstream of this protocol can."""
    reader: Callable[[], Reader]
    read_reply: Callable[[bytes], list[Event]]
    read_error: Callable[[int, bytes], Failed]
    writer: Callable[[], Writer]
    buffered: Callable[[], Writer]
    render: Callable[[Reply], bytes]
    render_error: Callable[[GatewayError], bytes]

    def __str__(self) -> str:
        return self.name


CODECS = {
    openai_chat.PROTOCOL: Codec(
        name=openai_chat.PROTOCOL,
        parse=openai_chat.parse_request,
        build=openai_chat.build_request,
        build_fully=lambda request: openai_chat.build_request(request, EVERYTHING),
        reader=lambda: openai_chat.ResponseReader(ToolNames(), fallback_id="fallback", model="asked-model"),
        read_reply=lambda body: openai_chat.read_reply(body, ToolNames(), fallback_id="fallback", model="asked-model"),
        read_error=openai_chat.read_error,
        writer=lambda: openai_chat.ResponseWriter(openai_chat.Options(created=CREATED, arguments="incremental")),
        buffered=lambda: openai_chat.ResponseWriter(openai_chat.Options(created=CREATED, arguments="buffered")),
        render=lambda reply: openai_chat.render(reply, openai_chat.Options(created=CREATED)),
        render_error=openai_chat.render_error,
    ),
    openai_responses.PROTOCOL: Codec(
        name=openai_responses.PROTOCOL,
        parse=openai_responses.parse_request,
        build=openai_responses.build_request,
        build_fully=openai_responses.build_request,
        reader=lambda: openai_responses.ResponseReader(ToolNames(), fallback_id="fallback", model="asked-model"),
        read_reply=lambda body: openai_responses.read_reply(
            body, ToolNames(), fallback_id="fallback", model="asked-model"
        ),
        read_error=openai_responses.read_error,
        writer=lambda: openai_responses.ResponseWriter(RESPONSE),
        buffered=lambda: openai_responses.ResponseWriter(replace(RESPONSE, arguments="buffered")),
        render=lambda reply: openai_responses.render(reply, RESPONSE),
        render_error=openai_responses.render_error,
    ),
    anthropic.PROTOCOL: Codec(
        name=anthropic.PROTOCOL,
        parse=anthropic.parse_request,
        build=anthropic.build_request,
        build_fully=anthropic.build_request,
        reader=lambda: anthropic.ResponseReader(ToolNames(), fallback_id="fallback", model="asked-model"),
        read_reply=lambda body: anthropic.read_reply(body, ToolNames(), fallback_id="fallback", model="asked-model"),
        read_error=anthropic.read_error,
        writer=lambda: anthropic.ResponseWriter(anthropic.Options(arguments="incremental")),
        buffered=lambda: anthropic.ResponseWriter(anthropic.Options(arguments="buffered")),
        render=anthropic.render,
        render_error=anthropic.render_error,
    ),
}


def read_stream(reader: Reader, reads: Iterable[bytes]) -> list[Event]:
    """All events of a stream that comes in these reads."""
    events = [event for data in reads for event in reader.feed(data)]
    return events + reader.close()


def write_stream(writer: Writer, events: Iterable[Event]) -> bytes:
    """All bytes of a leg."""
    return b"".join(writer.write(event) for event in events)


def joined(events: Iterable[Event]) -> list[Event]:
    """The leg with every run of deltas in one piece and only its last usage, before the ending."""
    plain: list[Event] = []
    usage: list[Usage] = []
    for event in events:
        last = plain[-1] if plain else None
        if isinstance(event, Usage):
            usage = [event]
        elif isinstance(event, PartDelta):
            said = ""
            if isinstance(last, PartDelta):
                said = last.text
                plain.pop()
            plain.append(PartDelta(event.index, said + event.text))
        elif isinstance(event, Finished | Failed):
            plain += [*usage, event]
        else:
            plain.append(event)
    return plain


def deltas_are_separate(events: Iterable[Event]) -> bool:
    """Whether some part came in more than one piece."""
    return any(isinstance(a, PartDelta) and isinstance(b, PartDelta) for a, b in pairwise(events))
