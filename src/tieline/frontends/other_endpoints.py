"""OpenAI's other endpoints, such as embeddings. Requests are forwarded to the upstream that serves their model."""

from collections.abc import Awaitable, Callable

from tieline.core.legs.forwarding import ForwardedRequest
from tieline.frontends.bodies import MEMBER_MARKS
from tieline.frontends.chat import CHAT
from tieline.frontends.http import Exchange
from tieline.frontends.relay import Relay
from tieline.wire.openai_chat.other_endpoints import is_form, read_named

ENDPOINTS = (
    "embeddings",
    "completions",
    "moderations",
    "audio/speech",
    "audio/transcriptions",
    "audio/translations",
    "images/generations",
    "images/edits",
    "images/variations",
)


def forwarding_endpoint(relay: Relay, endpoint: str) -> Callable[[Exchange], Awaitable[None]]:
    """Return an HTTP endpoint that forwards requests for `endpoint`, which is one of `ENDPOINTS`."""

    async def serve(exchange: Exchange) -> None:
        content_type = exchange.header(b"content-type") or "application/json"
        # Input for embeddings may be hundreds of thousands of token numbers, which are not decoded here.
        body = await exchange.body(b"" if is_form(content_type) else MEMBER_MARKS)
        named = read_named(body, content_type)
        request = ForwardedRequest(
            endpoint=endpoint,
            model=named.model,
            content_type=content_type,
            build=named.build,
            size=exchange.size,
            user_agent=exchange.header(b"user-agent"),
        )
        await relay.forward(exchange, request, CHAT)

    return serve
