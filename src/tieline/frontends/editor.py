"""The paths that Cursor's editor uses: below the configured base URL (`/cursor/…`), or in the form of Azure's API."""

from tieline.frontends.chat import ChatFrontend
from tieline.frontends.http import Endpoint, Exchange
from tieline.frontends.http_app import Route, Routes
from tieline.frontends.models import ModelsFrontend
from tieline.model.errors import GatewayError
from tieline.wire.openai_chat import render_error

BASES = ("/cursor", "/cursor/v1")
"""Paths of the base URL. Users may enter it with or without `/v1`; the editor appends an endpoint's path."""
DEPLOYMENTS = "/openai/deployments/"
COMPLETIONS = "/chat/completions"
PREFLIGHT = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"*, authorization"),  # the wildcard does not cover `authorization`
    (b"access-control-max-age", b"600"),
)


def editor_routes(chat: ChatFrontend, models: ModelsFrontend) -> Routes:
    """Return the routes for Cursor's editor.

    The editor itself requests the list of models, and its requests look like those of a web page from another site.
    Therefore all web pages may request this list if they send the key. Other requests come from Cursor's servers.
    """
    complete = Route(chat.complete, render_error)
    preflight = Route(_preflight, render_error, keyed=False, cross_site=True)
    listing = {"GET": Route(_shared(models.list), render_error, cross_site=True), "OPTIONS": preflight}
    one = {"GET": Route(_shared(models.one), render_error, cross_site=True), "OPTIONS": preflight}
    return {
        **{f"{base}{COMPLETIONS}": {"POST": complete} for base in BASES},
        **{f"{base}/models": listing for base in BASES},
        **{f"{base}/models/*": one for base in BASES},
        f"{DEPLOYMENTS}*": {"POST": Route(_deployment(chat), render_error)},
    }


def _deployment(chat: ChatFrontend) -> Endpoint:
    """Return the endpoint for Azure's path. In this path, the name of the deployment is the model's name."""

    async def complete(exchange: Exchange) -> None:
        name, found, rest = exchange.path.rstrip("/").partition(DEPLOYMENTS)[2].rpartition(COMPLETIONS)
        if not name or not found or rest:
            raise GatewayError("not_found", f"Nothing is served here: expected {DEPLOYMENTS}<model>{COMPLETIONS}.")
        await chat.complete(exchange, model=name)

    return complete


def _shared(endpoint: Endpoint) -> Endpoint:
    """Wrap an endpoint so that web pages from other sites may read its response if the request has a key."""

    async def serve(exchange: Exchange) -> None:
        if exchange.client_key is not None:
            # This replaces the same header for a configured origin: two would be invalid.
            exchange.cors_headers = PREFLIGHT[:1]
        await endpoint(exchange)

    return serve


async def _preflight(exchange: Exchange) -> None:
    """Answer a CORS preflight request: tell the browser that a web page may send the actual request."""
    exchange.cors_headers = PREFLIGHT
    await exchange.respond(200, b"")
