"""OpenAI's Chat Completions API, and any server that speaks it."""

from dataclasses import dataclass, field

from tieline.backends.replay import Reader
from tieline.model.events import Event, Failed, Headers
from tieline.model.request import Request
from tieline.wire import openai_chat as wire
from tieline.wire.spelling import Outgoing, Spelled


@dataclass(frozen=True, slots=True)
class ChatCodec:
    """The protocol as one upstream speaks it."""

    own_headers: Headers = field(repr=False)
    dialect: wire.Dialect

    def build(self, request: Request) -> Outgoing:
        return wire.build_request(request, self.dialect)

    def headers(self, request: Request) -> Headers:  # noqa: ARG002 - no client header is worth passing on here
        return self.own_headers

    def reader(self, spelled: Spelled, fallback_id: str, model: str) -> Reader:
        return wire.ResponseReader(spelled, fallback_id=fallback_id, model=model)

    def read_reply(self, body: bytes, spelled: Spelled, fallback_id: str, model: str) -> list[Event]:
        return wire.read_reply(body, spelled, fallback_id=fallback_id, model=model)

    def read_error(self, status: int, body: bytes, headers: Headers) -> Failed:
        return wire.read_error(status, body, headers)


def headers_for(key: str | None, extra: Headers) -> Headers:
    """The headers of every request to an upstream."""
    return (("content-type", "application/json"), *((("authorization", f"Bearer {key}"),) if key else ()), *extra)
