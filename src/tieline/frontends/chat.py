"""OpenAI's Chat Completions API at `POST /v1/chat/completions`."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from tieline.frontends.cursor_editor import (
    PATHS,
    USER_AGENT,
    VERSION_HEADER,
    adapted,
    from_responses,
    has_conversation,
)
from tieline.frontends.guard import Guard
from tieline.frontends.http import Exchange
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.relay import ClientProtocol, Relay
from tieline.model.request import Request
from tieline.wire import openai_chat as wire
from tieline.wire.openai_chat.choices import choices, one_choice, render_choices
from tieline.wire.openai_chat.think_tags import without_tags
from tieline.wire.shared.conversations import ConversationCache

MAX_EDITOR_ID = 64
"""Maximum length of the call ids that Cursor's editor accepts."""

CHAT = ClientProtocol(
    name="chat",
    writer=wire.ResponseWriter,
    render=wire.render,
    render_error=wire.render_error,
    request_id="x-request-id",
)


class ChatFrontend:
    """Serves OpenAI's Chat Completions API."""

    def __init__(
        self,
        relay: Relay,
        profiles: Profiles,
        conversations: ConversationCache,
        guard: Guard,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._relay = relay
        self._guard = guard
        self._profiles = profiles
        self._conversations = conversations
        self._clock = clock

    async def complete(self, exchange: Exchange, *, model: str | None = None) -> None:
        """Answer one request with a whole or a streamed response.

        If `model` is not None, it replaces the model name in the body.
        """
        body = await exchange.body()
        try:
            request = wire.parse_request(body, self._conversations)
            is_editor = is_cursor_editor(exchange, request)
        except wire.ResponsesBody as found:
            request, is_editor = from_responses(body, self._conversations, found.usage), True
        if model is not None:
            request = replace(request, model=model)
        if is_editor:
            request = adapted(request)
            profile = self._profiles.of(exchange, is_editor=True)
        else:
            profile = self._profiles.common or self._profiles.of(exchange)
        options = self._options(request, profile, is_editor)
        request = _with_delivery(request, options)
        if "n" in request.extra and (number := choices(request)) > 1:
            self._guard.count(exchange, number - 1)
            requests = [one_choice(request)] * number
            render = partial(render_choices, options=options)
            await self._relay.serve_several(exchange, requests, CHAT, render, profile)
        else:
            await self._relay.serve(exchange, request, CHAT, options, profile)

    def _options(self, request: Request, profile: Profile, is_editor: bool) -> wire.Options:
        return wire.Options(
            created=int(self._clock()),
            usage=request.usage_in_stream,
            arguments=profile.arguments or "buffered",
            reasoning=profile.reasoning,
            freeform=profile.freeform or "custom",
            id_limit=MAX_EDITOR_ID if is_editor else None,
            legacy=wire.is_legacy(request),
        )


def is_cursor_editor(exchange: Exchange, request: Request) -> bool:
    """Return whether a Chat Completions request comes from Cursor's editor."""
    headers = exchange.headers
    if exchange.path.startswith(PATHS) or VERSION_HEADER in headers:
        return True
    if headers.get(b"user-agent", b"").lower().startswith(USER_AGENT):
        return True
    return "metadata" in request.extra and has_conversation(request)


def _with_delivery(request: Request, options: wire.Options) -> Request:
    """Adapt the request to `options`, which determine the form in which the client receives the answer."""
    if options.reasoning == "think":
        request = replace(request, messages=without_tags(request.messages))
    if options.arguments == "incremental":
        return replace(request, incremental_calls=True)
    return replace(request, incremental_freeform=True) if options.freeform == "function" else request
