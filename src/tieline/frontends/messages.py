"""Anthropic's Messages at `POST /v1/messages`, and `/v1/messages/count_tokens`."""

from functools import partial

from msgspec.structs import replace

from tieline.core.history.token_estimate import estimate
from tieline.core.legs.gateway import Gateway
from tieline.frontends.http import Exchange
from tieline.frontends.profiles import Profiles
from tieline.frontends.relay import Face, Relay
from tieline.wire import anthropic as wire
from tieline.wire.anthropic.models import render_count

PASSED_ON = (b"anthropic-beta",)


FACE = Face(
    name="messages",
    writer=wire.ResponseWriter,
    render=wire.render,
    render_error=wire.render_error,
    keep_alive=wire.KEEP_ALIVE,
    request_id="request-id",
)


class MessagesFrontend:
    """Serves Messages."""

    def __init__(self, relay: Relay, profiles: Profiles, gateway: Gateway) -> None:
        self._relay = relay
        self._profiles = profiles
        self._gateway = gateway

    async def create(self, exchange: Exchange) -> None:
        """One request of a client, whole or streamed."""
        request = wire.parse_request(await exchange.body(), self._gateway.conversations)
        headers = tuple((name.decode(), exchange.header(name)) for name in PASSED_ON if name in exchange.headers)
        profile = self._profiles.of(exchange)
        options = wire.Options(arguments=profile.arguments or "incremental", estimate=partial(estimate, request))
        is_incremental = options.arguments == "incremental" and bool(request.tools)
        if headers or is_incremental:
            request = replace(request, headers=headers, incremental_calls=is_incremental)
        await self._relay.carry(exchange, request, FACE, options, profile)

    async def count_tokens(self, exchange: Exchange) -> None:
        """How large a prompt is; a header says so if that is only an estimate."""
        request = wire.parse_request(await exchange.body(), self._gateway.conversations, counting=True)
        count = await self._gateway.count(request)
        source = b"estimated" if count.estimated else b"upstream"
        await exchange.respond(200, render_count(count.tokens), headers=[(b"x-tieline-token-count", source)])
