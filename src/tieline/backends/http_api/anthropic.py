"""Anthropic's Messages API, and any server that speaks it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tieline.backends.http_api.replay import ReplayBackend, Upstream, fetch
from tieline.model.events import Headers
from tieline.model.request import Request
from tieline.wire import anthropic as wire
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.spelling import Outgoing

VERSION = "2023-06-01"
REFUSED_BETAS = ("message-threads-",)
"""Betas that change what a request means in a way the gateway does not carry on."""


@dataclass(frozen=True, slots=True)
class AnthropicCodec:
    """The protocol as one upstream speaks it."""

    own_headers: Headers = field(repr=False)
    dialect: wire.Dialect
    betas: bool
    """Whether the beta flags of a client are passed on: an upstream may refuse those it does not know."""
    conversations: ConversationCache | None = None

    protocol = wire.PROTOCOL
    reader = wire.ResponseReader
    read_reply = staticmethod(wire.read_reply)
    read_error = staticmethod(wire.read_error)

    def build(self, request: Request) -> Outgoing:
        return wire.build_request(request, self.dialect, self.conversations)

    def headers(self, request: Request) -> Headers:
        if not self.betas or request.protocol != wire.PROTOCOL:
            return self.own_headers
        betas = ((name, kept) for name, value in request.headers if (kept := _betas(name, value)))
        return (*self.own_headers, *betas)


def headers_for(key: str | None, extra: Headers) -> Headers:
    """The headers of every request to an upstream."""
    own = (("content-type", "application/json"), ("anthropic-version", VERSION))
    return (*own, *((("x-api-key", key),) if key else ()), *extra)


class AnthropicBackend(ReplayBackend):
    """Runs on one Anthropic-like upstream, which can count tokens."""

    def __init__(self, upstream: Upstream, *, codec: AnthropicCodec, listing: str, models: Sequence[str] = ()) -> None:
        super().__init__(upstream, listing=listing, models=models)
        self._codec = codec

    async def count(self, request: Request) -> int | None:
        outgoing = wire.build_count(request, self._codec.dialect, self._codec.conversations)
        body = await fetch(self._upstream, "POST", self._upstream.path + "/count_tokens", request, outgoing.body)
        return wire.read_count(body)


def _betas(name: str, value: str) -> str:
    """The beta flags that may go on, or nothing if this is another header or none is left."""
    if name != "anthropic-beta":
        return ""
    flags = (flag.strip() for flag in value.split(","))
    return ",".join(flag for flag in flags if flag and not flag.startswith(REFUSED_BETAS))
