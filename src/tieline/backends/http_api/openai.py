"""OpenAI's Chat Completions API, and any server that speaks it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tieline.backends.http_api.replay import Passing, ReplayBackend, Upstream, forward
from tieline.model.events import Headers
from tieline.model.request import Request
from tieline.wire import openai_chat as wire
from tieline.wire.shared.schemas import SchemaFitter
from tieline.wire.shared.spelling import Outgoing


@dataclass(frozen=True, slots=True)
class ChatCodec:
    """The protocol as one upstream speaks it."""

    own_headers: Headers = field(repr=False)
    dialect: wire.Dialect
    schemas: SchemaFitter = field(default_factory=lambda: SchemaFitter("openai"), repr=False, compare=False)

    reader = wire.ResponseReader
    read_reply = staticmethod(wire.read_reply)
    read_error = staticmethod(wire.read_error)

    def build(self, request: Request) -> Outgoing:
        return wire.build_request(request, self.dialect, self.schemas)

    def headers(self, request: Request) -> Headers:  # noqa: ARG002 - no client header is worth passing on here
        return self.own_headers


class OpenAIBackend(ReplayBackend):
    """Runs on one OpenAI-like upstream, which may have other endpoints below the same base address."""

    def __init__(self, upstream: Upstream, *, base: str, models: Sequence[str] = ()) -> None:
        super().__init__(upstream, listing=base + "/models", models=models)
        self._base = base

    async def forward(self, endpoint: str, content_type: str, body: bytes) -> Passing:
        headers = self._upstream.codec.headers(Request(model="", messages=()))
        own = tuple(header for header in headers if header[0] != "content-type")
        return await forward(self._upstream, f"{self._base}/{endpoint}", (("content-type", content_type), *own), body)


def headers_for(key: str | None, extra: Headers) -> Headers:
    """The headers of every request to an upstream."""
    return (("content-type", "application/json"), *((("authorization", f"Bearer {key}"),) if key else ()), *extra)
