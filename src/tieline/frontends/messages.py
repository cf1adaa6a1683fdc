"""Anthropic's Messages API at `POST /v1/messages` and `/v1/messages/count_tokens`."""

from functools import partial

from msgspec.structs import replace

from tieline.core.history.token_estimate import estimate
from tieline.core.legs.gateway import Gateway
from tieline.frontends.http import Exchange
from tieline.frontends.profiles import Profiles
from tieline.frontends.relay import ClientProtocol, Relay
from tieline.wire import anthropic as wire
from tieline.wire.anthropic.models import render_count

FORWARDED_HEADERS = (b"anthropic-beta",)

MESSAGES = ClientProtocol(
    name="messages",
    writer=wire.ResponseWriter,
    render=wire.render,
    render_error=wire.render_error,
    request_id="request-id",
)


class MessagesFrontend:
    """Serves Anthropic's Messages API."""

    def __init__(self, relay: Relay, profiles: Profiles, gateway: Gateway) -> None:
        self._relay = relay
        self._profiles = profiles
        self._gateway = gateway

    async def create(self, exchange: Exchange) -> None:
        """Answer one request with a whole or a streamed response."""
        request = wire.parse_request(await exchange.body(), self._gateway.conversations)
        headers = tuple(
            (name.decode(), exchange.header(name)) for name in FORWARDED_HEADERS if name in exchange.headers
        )
        profile = self._profiles.common or self._profiles.of(exchange)
        options = wire.Options(arguments=profile.arguments or "incremental", estimate=partial(estimate, request))
        is_incremental = options.arguments == "incremental" and bool(request.tools)
        if headers or is_incremental:
            request = replace(request, headers=headers, incremental_calls=is_incremental)
        await self._relay.serve(exchange, request, MESSAGES, options, profile)

    async def count_tokens(self, exchange: Exchange) -> None:
        """Respond with the number of tokens in a prompt. A response header says whether the number is an estimate."""
        request = wire.parse_request(await exchange.body(), self._gateway.conversations, counting=True)
        count = await self._gateway.count(request, exchange.access)
        source = b"estimated" if count.is_estimated else b"upstream"
        await exchange.respond(200, render_count(count.tokens), headers=[(b"x-tieline-token-count", source)])
