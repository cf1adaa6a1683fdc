"""OpenAI's Chat Completions and Responses APIs, and any server that implements one of them."""

from collections.abc import Sequence
from functools import partial

from tieline.backends.http_api.other_requests import ForwardedAnswer, forward
from tieline.backends.http_api.replay import ReplayBackend
from tieline.backends.http_api.upstream import Codec, Upstream
from tieline.model.events import Headers
from tieline.model.request import Request
from tieline.wire import openai_chat, openai_responses
from tieline.wire.shared.conversations import ConversationCache


def openai_codec(
    headers: Headers, dialect: openai_chat.Dialect, conversations: ConversationCache | None = None
) -> Codec:
    """Return the codec for Chat Completions of one upstream."""
    return Codec(
        protocol=openai_chat.PROTOCOL,
        headers=headers,
        build=partial(openai_chat.build_request, dialect=dialect, cache=conversations),
        reader=openai_chat.ResponseReader,
        read_reply=openai_chat.read_reply,
        read_error=openai_chat.read_error,
    )


def responses_codec(
    headers: Headers, dialect: openai_responses.Dialect, conversations: ConversationCache | None = None
) -> Codec:
    """Return the codec for Responses of one upstream."""
    return Codec(
        protocol=openai_responses.PROTOCOL,
        headers=headers,
        build=partial(openai_responses.build_request, dialect=dialect, cache=conversations),
        reader=openai_responses.ResponseReader,
        read_reply=openai_responses.read_reply,
        read_error=openai_responses.read_error,
        recover=openai_responses.recovered,
    )


def headers_for(key: str | None, extra: Headers) -> Headers:
    """Return the headers to send with every request to an upstream. `key` is its API key, if it has one."""
    return (("content-type", "application/json"), *((("authorization", f"Bearer {key}"),) if key else ()), *extra)


class OpenAIBackend(ReplayBackend):
    """Starts runs on one OpenAI-like upstream, which may have other endpoints below the same base address.

    `responses` is its Responses API, if requests of that protocol go there and all others to `upstream`.
    """

    def __init__(
        self, upstream: Upstream, *, base: str, models: Sequence[str] = (), responses: Upstream | None = None
    ) -> None:
        super().__init__(upstream, listing=base + "/models", models=models)
        self._base = base
        self._responses = responses
        if responses is not None:
            self.protocols += (responses.codec.protocol,)

    def _upstream_for(self, request: Request) -> Upstream:
        if self._responses is not None and request.protocol == self._responses.codec.protocol:
            return self._responses
        return self._upstream

    async def forward(self, endpoint: str, content_type: str, body: bytes) -> ForwardedAnswer:
        own = tuple(header for header in self._upstream.codec.headers if header[0] != "content-type")
        return await forward(self._upstream, f"{self._base}/{endpoint}", (("content-type", content_type), *own), body)
