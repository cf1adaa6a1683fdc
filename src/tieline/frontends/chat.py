"""OpenAI's Chat Completions API at `POST /v1/chat/completions`."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from tieline.frontends.http import Exchange
from tieline.frontends.profiles import Profiles
from tieline.frontends.relay import ClientProtocol, Relay
from tieline.wire import openai_chat as wire
from tieline.wire.openai_chat.choices import choices, one_choice, render_choices
from tieline.wire.shared.conversations import ConversationCache

CHAT = ClientProtocol(
    name="chat",
    writer=wire.ResponseWriter,
    render=wire.render,
    render_error=wire.render_error,
    keep_alive=wire.KEEP_ALIVE,
    request_id="x-request-id",
)


class ChatFrontend:
    """Serves OpenAI's Chat Completions API."""

    def __init__(
        self, relay: Relay, profiles: Profiles, conversations: ConversationCache, *, clock: Callable[[], float]
    ) -> None:
        self._relay = relay
        self._profiles = profiles
        self._conversations = conversations
        self._clock = clock

    async def complete(self, exchange: Exchange, *, model: str | None = None) -> None:
        """Answer one request, with a whole or a streamed response. `model` replaces the name in the body."""
        request = wire.parse_request(await exchange.body(), self._conversations)
        if model is not None:
            request = replace(request, model=model)
        profile = self._profiles.common or self._profiles.of(exchange)
        options = wire.Options(
            created=int(self._clock()),
            usage=request.usage_in_stream,
            arguments=profile.arguments or "buffered",
            reasoning=profile.reasoning,
            legacy=wire.is_legacy(request),
        )
        if options.arguments == "incremental":
            request = replace(request, incremental_calls=True)
        if "n" in request.extra and (number := choices(request)) > 1:
            requests = [one_choice(request)] * number
            render = partial(render_choices, options=options)
            await self._relay.serve_several(exchange, requests, CHAT, render, profile)
        else:
            await self._relay.serve(exchange, request, CHAT, options, profile)
