"""The routes of the Responses API, and the objects that serve them."""

from collections.abc import Callable
from typing import NamedTuple

from tieline.core.legs.gateway import Gateway
from tieline.frontends.guard import Guard
from tieline.frontends.http import Endpoint, Exchange
from tieline.frontends.http_app import Route, Routes
from tieline.frontends.profiles import Profiles
from tieline.frontends.relay import Relay
from tieline.frontends.replicas import Replicas
from tieline.frontends.responses.background import BackgroundResponses
from tieline.frontends.responses.conversations import Conversations, ConversationsFrontend
from tieline.frontends.responses.creation import ResponseCreator
from tieline.frontends.responses.endpoint import ResponsesFrontend
from tieline.frontends.responses.history import ResponseHistory
from tieline.frontends.responses.requests import Owners, path_below
from tieline.frontends.responses.socket import ResponsesSocket
from tieline.model.ports import DocumentArchive
from tieline.tasks import Tasks
from tieline.wire.openai_responses import render_error


class ResponseArchives(NamedTuple):
    """The archives that store responses, the ids of their items, and conversations."""

    responses: DocumentArchive
    items: DocumentArchive
    conversations: DocumentArchive
    is_storing: bool = True
    """Whether responses are stored. If not, requests can refer to earlier responses only on the same WebSocket."""

    async def aclose(self) -> None:
        """Wait until all changes have been written to the store."""
        for archive in (self.responses, self.items, self.conversations):
            await archive.aclose()


def responses_routes(
    gateway: Gateway,
    relay: Relay,
    profiles: Profiles,
    archives: ResponseArchives,
    guard: Guard,
    tasks: Tasks,
    *,
    clock: Callable[[], float],
    mint: Callable[[str], str],
    keep_alive: float,
    replicas: Replicas | None = None,
) -> Routes:
    """Return the routes of the Responses API. `mint` returns a new random id with the given prefix."""
    owners = Owners(guard)
    history = ResponseHistory(archives.responses, archives.items)
    conversations = Conversations(archives.conversations, mint, clock, is_storing=archives.is_storing)
    creator = ResponseCreator(gateway, history, conversations, clock=clock, mint=mint, is_storing=archives.is_storing)
    background = BackgroundResponses(gateway, creator, history, tasks, keep_alive=keep_alive)
    responses = ResponsesFrontend(relay, profiles, gateway, creator, history, background, owners, replicas)
    stored = ConversationsFrontend(conversations, owners)
    socket = ResponsesSocket(profiles, creator, owners, guard, keep_alive=keep_alive, replicas=replicas)
    return {
        "/v1/responses": {
            "POST": Route(responses.create, render_error),
            "WEBSOCKET": Route(socket.serve, render_error),
        },
        "/v1/responses/*": {
            "GET": Route(responses.get, render_error),
            "POST": Route(responses.post, render_error),
            "DELETE": Route(responses.delete, render_error),
        },
        "/v1/conversations": {"POST": Route(stored.create, render_error)},
        "/v1/conversations/*": {
            "GET": Route(_at_owner(stored.get, replicas), render_error),
            "POST": Route(_at_owner(stored.post, replicas), render_error),
            "DELETE": Route(_at_owner(stored.delete, replicas), render_error),
        },
    }


def _at_owner(endpoint: Endpoint, replicas: Replicas | None) -> Endpoint:
    """Return an endpoint that forwards requests about a conversation to the replica that created the conversation.

    As long as that replica is alive, it alone changes the conversation.
    """
    if replicas is None:
        return endpoint

    async def serve(exchange: Exchange) -> None:
        if not await replicas.forward_to_owner(exchange, path_below(exchange, "conversations")[0]):
            await endpoint(exchange)

    return serve
