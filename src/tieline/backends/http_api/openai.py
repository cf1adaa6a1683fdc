"""The backend for OpenAI's Chat Completions API, and for any server that implements it."""

from collections.abc import Sequence
from functools import partial

from tieline.backends.http_api.other_requests import ForwardedAnswer, forward
from tieline.backends.http_api.replay import ReplayBackend
from tieline.backends.http_api.upstream import Codec, Upstream
from tieline.model.events import Headers
from tieline.wire import openai_chat as wire
from tieline.wire.shared.conversations import ConversationCache


def openai_codec(headers: Headers, dialect: wire.Dialect, conversations: ConversationCache | None = None) -> Codec:
    """Return the codec for one upstream."""
    return Codec(
        protocol=wire.PROTOCOL,
        headers=headers,
        build=partial(wire.build_request, dialect=dialect, cache=conversations),
        reader=wire.ResponseReader,
        read_reply=wire.read_reply,
        read_error=wire.read_error,
    )


def headers_for(key: str | None, extra: Headers) -> Headers:
    """Return the headers to send with every request to an upstream. `key` is its API key, if it has one."""
    return (("content-type", "application/json"), *((("authorization", f"Bearer {key}"),) if key else ()), *extra)


class OpenAIBackend(ReplayBackend):
    """Backend for one upstream with OpenAI's Chat Completions API. `base` is the common path of its endpoints."""

    def __init__(self, upstream: Upstream, *, base: str, models: Sequence[str] = ()) -> None:
        super().__init__(upstream, listing=base + "/models", models=models)
        self._base = base

    async def forward(self, endpoint: str, content_type: str, body: bytes) -> ForwardedAnswer:
        own = tuple(header for header in self._upstream.codec.headers if header[0] != "content-type")
        return await forward(self._upstream, f"{self._base}/{endpoint}", (("content-type", content_type), *own), body)
