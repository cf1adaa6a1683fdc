"""The paths that Cursor's editor uses, with its setting for a base URL (`/cursor/…`) or for Azure."""

from tieline.frontends.chat import ChatFrontend
from tieline.frontends.http import Endpoint, Exchange
from tieline.frontends.http_app import Route, Routes
from tieline.frontends.models import ModelsFrontend
from tieline.model.errors import GatewayError
from tieline.wire.openai_chat import render_error

BASES = ("/cursor", "/cursor/v1")
"""Users enter the base URL with or without `/v1`, and the editor appends the rest."""
DEPLOYMENTS = "/openai/deployments/"
COMPLETIONS = "/chat/completions"
PREFLIGHT = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"*, authorization"),  # the wildcard does not cover this one
    (b"access-control-max-age", b"600"),
)


def editor_routes(chat: ChatFrontend, models: ModelsFrontend) -> Routes:
    """Return the routes for Cursor's editor.

    The editor itself, a web page in technical terms, lists the models; all other requests come from Cursor's servers.
    Therefore the lists are open to other sites, which need the key.
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
    """Return the endpoint for Azure's path, in which the name of the deployment is the model."""

    async def complete(exchange: Exchange) -> None:
        name, found, rest = exchange.path.rstrip("/").partition(DEPLOYMENTS)[2].rpartition(COMPLETIONS)
        if not name or not found or rest:
            raise GatewayError("not_found", f"Nothing is served here: expected {DEPLOYMENTS}<model>{COMPLETIONS}.")
        await chat.complete(exchange, model=name)

    return complete


def _shared(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint whose response web pages of other sites may read, provided that they sent a key."""

    async def serve(exchange: Exchange) -> None:
        if exchange.client_key is not None:
            exchange.response_headers = (*exchange.response_headers, PREFLIGHT[0])
        await endpoint(exchange)

    return serve


async def _preflight(exchange: Exchange) -> None:
    """Tell a browser that a web page may send the actual request."""
    await exchange.respond(200, b"", headers=PREFLIGHT)
