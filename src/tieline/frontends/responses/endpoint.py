"""OpenAI's Responses API over HTTP: `POST /v1/responses`, and the stored responses below that path."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from msgspec import Raw
from msgspec.structs import replace

from tieline.core.legs.gateway import Gateway
from tieline.frontends.http import Exchange
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.relay import ClientProtocol, Relay, Writer, client_of, selecting
from tieline.frontends.replicas import Replicas
from tieline.frontends.responses.background import BackgroundResponses
from tieline.frontends.responses.creation import Creation, ResponseCreator
from tieline.frontends.responses.history import ResponseHistory
from tieline.frontends.responses.requests import Owners, nothing_there, page_of, path_below, query_of
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Reply
from tieline.wire import openai_responses as wire
from tieline.wire.openai_responses.stored import (
    PREVIOUS_NOT_FOUND,
    CreateRequest,
    render_deleted,
    render_input_tokens,
    render_items,
    response_not_found,
    user_messages,
)

RESPONSES = ClientProtocol(
    name="responses",
    writer=wire.ResponseWriter,
    render=wire.render,
    render_error=wire.render_error,
    request_id="x-request-id",
    cuts_failed=False,  # a failed response ends the stream properly, and its error code says whether to retry
)


class ResponsesFrontend:
    """Serves responses over HTTP."""

    def __init__(
        self,
        relay: Relay,
        profiles: Profiles,
        gateway: Gateway,
        creator: ResponseCreator,
        history: ResponseHistory,
        background: BackgroundResponses,
        owners: Owners,
        replicas: Replicas | None = None,
    ) -> None:
        self._relay = relay
        self._profiles = profiles
        self._gateway = gateway
        self._creator = creator
        self._history = history
        self._background = background
        self._owners = owners
        self._replicas = replicas

    async def create(self, exchange: Exchange) -> None:
        """Create a response, and send it whole or streamed, or create it in the background."""
        body = await exchange.body()
        if self._replicas is not None and await self._has_conversation_elsewhere(exchange, body):
            return
        try:
            creation = await self._prepared(exchange, body)
        except GatewayError as error:
            # The replica that created the previous response may not have stored it yet.
            if error.code != PREVIOUS_NOT_FOUND or not await self._is_elsewhere(
                exchange, CreateRequest(body).previous or "", even_if_complete=True
            ):
                raise
            return
        if not creation.create.generates:
            self._creator.release(creation)
            raise BadRequest("`generate`: expected true; only a WebSocket takes requests without an answer", "generate")
        if creation.create.is_background:
            with ExitStack() as held:
                held.callback(self._creator.release, creation)
                if self._replicas is not None and await self._replicas.forward_turn(exchange, creation.request):
                    return
                request = selecting(creation.request, exchange)
                client = client_of(exchange, RESPONSES.name, self._profile(exchange), creation.size)
                held.pop_all()  # from here on, the background response releases it
            await self._background.start(exchange, creation._replace(request=request), client)
            return
        try:
            writer, render = partial(self._creator.writer, creation), partial(_render, self._creator, creation)
            await self._serve(exchange, creation, writer, render)
        finally:
            self._creator.release(creation)

    async def get(self, exchange: Exchange) -> None:
        """Respond with a stored response, a stream of its events, or a page of the items that it answered."""
        owner, path = self._owners.of(exchange), path_below(exchange, "responses")
        is_followed = query_of(exchange).get("stream") == ["true"]
        if await self._is_elsewhere(exchange, path[0], even_if_complete=is_followed):
            return
        match path:
            case [response_id] if is_followed:
                await self._background.follow(exchange, owner, response_id)
            case [response_id]:
                stored = await self._background.get(owner, response_id)
                await exchange.respond(200, bytes(stored.response))
            case [response_id, "input_items"]:
                stored = await self._background.get(owner, response_id)
                items = await self._history.input_items(owner, stored)
                await exchange.respond(200, render_items(items, page_of(exchange)))
            case _:
                raise nothing_there(exchange)

    async def delete(self, exchange: Exchange) -> None:
        """Remove a stored response. If it is still being created, cancel it first."""
        owner, (response_id, *below) = self._owners.of(exchange), path_below(exchange, "responses")
        if below:
            raise nothing_there(exchange)
        if await self._is_elsewhere(exchange, response_id, even_if_complete=True):
            return
        if not await self._background.remove(owner, response_id):
            raise response_not_found(response_id)
        await exchange.respond(200, render_deleted(response_id, "response"))

    async def post(self, exchange: Exchange) -> None:
        """Serve the paths `compact`, `input_tokens` and `<id>/cancel` below `/v1/responses`."""
        match path_below(exchange, "responses"):
            case ["compact"]:
                await self._compact(exchange)
            case ["input_tokens"]:
                await self._count(exchange)
            case [response_id, "cancel"]:
                await self._cancel(exchange, response_id)
            case _:
                raise nothing_there(exchange)

    async def _is_elsewhere(self, exchange: Exchange, response_id: str, *, even_if_complete: bool) -> bool:
        """Forward a request about a response to the replica that creates it. Return False if it has to be served here.

        A complete response is stored for all replicas, so the request is served here unless `even_if_complete` is true.
        """
        if self._replicas is None or exchange.is_forwarded:
            return False
        if not even_if_complete:
            stored = await self._history.get(self._owners.of(exchange), response_id)
            if stored is not None and stored.is_complete:
                return False
        return await self._replicas.forward_to_owner(exchange, response_id)

    async def _has_conversation_elsewhere(self, exchange: Exchange, body: bytes) -> bool:
        """Forward a request that adds to the conversation of another replica, which makes all changes to it.

        Return False if the request has to be served here.
        """
        conversation = CreateRequest(body).conversation if b'"conversation"' in body else None
        return conversation is not None and await self._is_elsewhere(exchange, conversation, even_if_complete=True)

    def _profile(self, exchange: Exchange) -> Profile:
        return self._profiles.common or self._profiles.of(exchange)

    async def _prepared(self, exchange: Exchange, body: bytes, *, claims: bool = True) -> Creation:
        """Prepare a request. Its history, like its body, counts against the budget for all bodies."""
        profile = self._profile(exchange)
        creation = await self._creator.prepare(self._owners.of(exchange), body, profile, claims=claims)
        try:
            exchange.reserve(creation.context.size)
        except GatewayError:
            self._creator.release(creation)
            raise
        return creation

    async def _serve(
        self,
        exchange: Exchange,
        creation: Creation,
        writer: Callable[[], Writer],
        render: Callable[[Reply, wire.Options], bytes],
    ) -> None:
        """Answer a prepared request with a leg, using `writer` if the response is streamed, otherwise `render`."""
        protocol = replace(RESPONSES, writer=lambda _: writer(), render=render)
        profile, open_leg = self._profile(exchange), partial(self._creator.open, creation)
        exchange.size = creation.size
        await self._relay.serve(exchange, creation.request, protocol, creation.options, profile, open_leg)

    async def _compact(self, exchange: Exchange) -> None:
        """Respond with the compacted conversation: the user's messages, and a summary of all items."""
        creation = await self._prepared(exchange, await exchange.body(), claims=False)
        options = replace(creation.options, compaction=True)
        request = replace(wire.summary_request(creation.request), stream=False)
        summary = creation._replace(request=request, options=options)
        kept = user_messages([*map(Raw, creation.context.items), *creation.input()], self._creator.mint)
        render = partial(wire.render_compaction, kept=kept)
        await self._serve(exchange, summary, partial(wire.ResponseWriter, options), render)

    async def _count(self, exchange: Exchange) -> None:
        """Respond with the number of input tokens in a request. A response header says whether it is an estimate."""
        creation = await self._prepared(exchange, await exchange.body(), claims=False)
        count = await self._gateway.count(creation.request, exchange.access)
        source = b"estimated" if count.is_estimated else b"upstream"
        await exchange.respond(200, render_input_tokens(count.tokens), headers=[(b"x-tieline-token-count", source)])

    async def _cancel(self, exchange: Exchange, response_id: str) -> None:
        """Cancel a background response, unless it has already ended. Respond with its state."""
        if await self._is_elsewhere(exchange, response_id, even_if_complete=True):
            return
        owner = self._owners.of(exchange)
        await self._background.cancel(owner, response_id)
        stored = await self._background.get(owner, response_id)
        if not stored.is_background:
            raise BadRequest("Only responses with `background: true` can be cancelled.", "response_id")
        await exchange.respond(200, bytes(stored.response))


def _render(creator: ResponseCreator, creation: Creation, reply: Reply, options: wire.Options) -> bytes:
    """Render a reply as a whole response, store the response and return it."""
    response = wire.render(reply, options)
    creator.finished(creation, response, reply.finished.checkpoint)
    return response
