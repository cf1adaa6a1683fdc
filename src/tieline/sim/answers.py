"""Builds answers for the scripted model API: encodes events with the codec of the API's protocol."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, Protocol

from tieline.model.assemble import fold
from tieline.model.errors import LegFailed
from tieline.model.events import Event, Failed
from tieline.sim.model import Answer, Chunk, Cut, Hang, Pause
from tieline.wire import anthropic, openai_chat, openai_responses

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"

Dialect = Literal["openai", "anthropic", "responses"]
PATHS: Mapping[Dialect, str] = {"openai": CHAT, "anthropic": MESSAGES, "responses": RESPONSES}

_CREATED = 1_700_000_000


def streamed(dialect: Dialect, events: Iterable[Event | Chunk]) -> Answer:
    """Return a streamed answer with one chunk for each event. A `Chunk` among the events is sent unchanged."""
    return Answer(chunks=tuple(_chunks(_writer(dialect), events)))


def whole(dialect: Dialect, events: Iterable[Event]) -> Answer:
    """Return an answer that is not streamed, built from all events of a leg."""
    try:
        reply = fold(events)
    except LegFailed as error:
        return failed(dialect, error.failed())
    match dialect:
        case "openai":
            return Answer(body=openai_chat.render(reply, openai_chat.Options(created=_CREATED)))
        case "anthropic":
            return Answer(body=anthropic.render(reply))
        case "responses":
            return Answer(body=openai_responses.render(reply, _responses_options()))


def failed(dialect: Dialect, failure: Failed) -> Answer:
    """Return an answer that reports `failure`."""
    render_error = anthropic.render_error if dialect == "anthropic" else openai_chat.render_error
    headers = list(failure.headers)
    if failure.retry_after is not None:
        headers.append(("retry-after", f"{failure.retry_after:g}"))
    return Answer(status=failure.status, headers=headers, body=render_error(LegFailed(failure)))


class _Writer(Protocol):
    def write(self, event: Event) -> bytes: ...


def _writer(dialect: Dialect) -> _Writer:
    match dialect:
        case "openai":
            return openai_chat.ResponseWriter(openai_chat.Options(created=_CREATED, arguments="incremental"))
        case "anthropic":
            return anthropic.ResponseWriter(anthropic.Options(arguments="incremental"))
        case "responses":
            return openai_responses.ResponseWriter(_responses_options())


def _responses_options() -> openai_responses.Options:
    return openai_responses.Options(created=_CREATED, arguments="incremental", encrypted=True)


def _chunks(writer: _Writer, events: Iterable[Event | Chunk]) -> Iterator[Chunk]:
    for event in events:
        if isinstance(event, bytes | Pause | Cut | Hang):
            yield event
        elif data := writer.write(event):
            yield data
