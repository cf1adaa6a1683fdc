"""Build the tables of HTTP paths, for the gateway and for a tunnel."""

from collections.abc import Callable

from tieline.core.legs.gateway import Gateway
from tieline.frontends.chat import ChatFrontend
from tieline.frontends.editor import editor_routes
from tieline.frontends.guard import Guard
from tieline.frontends.http import BodyBudget, Endpoint
from tieline.frontends.http_app import HttpApp, Observer, Route, Routes
from tieline.frontends.inbox import InboxFrontend
from tieline.frontends.inbox import render_error as plain
from tieline.frontends.messages import MessagesFrontend
from tieline.frontends.models import ModelsFrontend, is_anthropic
from tieline.frontends.other_endpoints import ENDPOINTS, forwarding_endpoint
from tieline.frontends.profiles import Profiles
from tieline.frontends.relay import Relay
from tieline.frontends.status import Hello, StatusFrontend, StopFrontend
from tieline.frontends.workspaces import WorkspacesFrontend
from tieline.wire import anthropic, openai_chat

API_TYPES = ("chat_completions", "responses", "anthropic_messages")
"""The served APIs, by the names that clients expect in the model list."""
EDITOR_API_TYPES = ("chat_completions",)
"""The only API that is served below the base URL for Cursor's editor."""


def build_http_app(
    gateway: Gateway,
    relay: Relay,
    profiles: Profiles,
    inbox: InboxFrontend,
    *,
    guard: Guard,
    clock: Callable[[], float],
    responses: Routes,
    limit: int,
    bodies: BodyBudget,
    hello: Hello,
    page: Callable[[Endpoint], Routes] | None = None,
    workspaces: WorkspacesFrontend | None = None,
    stop: StopFrontend | None = None,
) -> HttpApp:
    """Build the HTTP application.

    `limit` is the maximum size of a request body in bytes. `page` is called with the default endpoint for `/` and
    returns the routes of the web page, which take precedence over all other routes.
    """
    offers = {"workspaces": workspaces, "embed": page, "stop": stop is not None and stop.is_allowed}
    features = [name for name, offered in offers.items() if offered]
    chat = ChatFrontend(relay, profiles, gateway.conversations, guard, clock=clock)
    messages = MessagesFrontend(relay, profiles, gateway)
    status = StatusFrontend(gateway, features, needs_key=guard.has_keys)
    openai, anthropic_ = openai_chat.render_error, anthropic.render_error
    front = Route(hello.serve, openai, keyed=False)
    health = Route(status.health, openai, keyed=False)
    identity = Route(status.identify, openai, keyed=False)
    alive = Route(status.health, openai, keyed=False, public=True)
    models = ModelsFrontend(gateway, API_TYPES)
    routes = {
        "/v1/chat/completions": {"POST": Route(chat.complete, openai)},
        "/v1/messages": {"POST": Route(messages.create, anthropic_)},
        "/v1/messages/count_tokens": {"POST": Route(messages.count_tokens, anthropic_)},
        **responses,
        **{f"/v1/{name}": {"POST": Route(forwarding_endpoint(relay, name), openai)} for name in ENDPOINTS},
        "/v1/models": {"GET": Route(models.list, openai)},
        "/v1/models/*": {"GET": Route(models.one, openai)},
        **editor_routes(chat, ModelsFrontend(gateway, EDITOR_API_TYPES)),
        "/": {"GET": front, "HEAD": front},
        "/v1": {"GET": health, "HEAD": health},  # clients probe their base URL
        "/api/hello": {"GET": identity, "HEAD": identity},
        "/healthz": {"GET": alive, "HEAD": alive},
        "/metrics": {"GET": Route(status.metrics, openai)},
        "/api/inbox": {"GET": Route(inbox.list, plain)},
        "/api/inbox/watch": {"GET": Route(inbox.watch, plain)},
        "/api/inbox/*": {"POST": Route(inbox.decide, plain)},
        "/api/rules": {"GET": Route(inbox.rules, plain)},
        "/api/rules/*": {"DELETE": Route(inbox.revoke, plain)},
        **({} if workspaces is None else workspaces.routes()),
        **({} if stop is None else {"/api/stop": {"POST": Route(stop.stop, plain)}}),
    }
    return HttpApp(
        {**routes, **(page(hello.serve) if page is not None else {})},
        guard=guard,
        limit=limit,
        bodies=bodies,
        fallback=lambda exchange: anthropic_ if is_anthropic(exchange) else openai,
        workspaces=None if workspaces is None else workspaces.names,
    )


def build_tunnel_app(
    gateway: Gateway,
    relay: Relay,
    profiles: Profiles,
    *,
    guard: Guard,
    clock: Callable[[], float],
    limit: int,
    bodies: BodyBudget,
    observe: Observer | None = None,
) -> HttpApp:
    """Build the HTTP application for a listener that a tunnel makes public.

    It serves only the paths of Cursor's editor and `/healthz`.
    """
    openai = openai_chat.render_error
    chat = ChatFrontend(relay, profiles, gateway.conversations, guard, clock=clock)
    alive = Route(StatusFrontend(gateway).health, openai, keyed=False, public=True)
    return HttpApp(
        {**editor_routes(chat, ModelsFrontend(gateway, EDITOR_API_TYPES)), "/healthz": {"GET": alive, "HEAD": alive}},
        guard=guard,
        limit=limit,
        bodies=bodies,
        fallback=lambda _: openai,
        discreet=True,
        observe=observe,
    )
