"""OpenAI's Chat Completions API, and any server that speaks it."""

from dataclasses import dataclass, field

from tieline.model.events import Headers
from tieline.model.request import Request
from tieline.wire import openai_chat as wire
from tieline.wire.spelling import Outgoing


@dataclass(frozen=True, slots=True)
class ChatCodec:
    """The protocol as one upstream speaks it."""

    own_headers: Headers = field(repr=False)
    dialect: wire.Dialect

    reader = wire.ResponseReader
    read_reply = staticmethod(wire.read_reply)
    read_error = staticmethod(wire.read_error)

    def build(self, request: Request) -> Outgoing:
        return wire.build_request(request, self.dialect)

    def headers(self, request: Request) -> Headers:  # noqa: ARG002 - no client header is worth passing on here
        return self.own_headers


def headers_for(key: str | None, extra: Headers) -> Headers:
    """The headers of every request to an upstream."""
    return (("content-type", "application/json"), *((("authorization", f"Bearer {key}"),) if key else ()), *extra)
