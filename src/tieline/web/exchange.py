"""Helpers for requests from the web page: path, query, rights of the client, and JSON responses."""

from typing import Any
from urllib.parse import parse_qs

import msgspec

from tieline.frontends.http import JSON, Exchange
from tieline.web.static_files import HEADERS

API_HEADERS = (*HEADERS, (b"cache-control", b"no-store"))
"""Headers of every response from the page's API."""
MAX_REST = 200


async def respond(exchange: Exchange, value: Any, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    """Send a value as JSON."""
    await exchange.respond(status, msgspec.json.encode(value), JSON, (*API_HEADERS, *headers))


def rest_of_path(exchange: Exchange, prefix: str) -> str:
    """Return the path of a request without `prefix`, cut off after MAX_REST characters."""
    return exchange.path.rstrip("/").removeprefix(prefix)[:MAX_REST]


def query(exchange: Exchange, name: str) -> str:
    """Return a query parameter, or an empty string if it is not given."""
    given: bytes = exchange.scope["query_string"]
    return parse_qs(given.decode("latin-1"), errors="replace").get(name, [""])[-1]


def is_admin(exchange: Exchange) -> bool:
    """Return whether the client may change the set-up of the gateway. Without keys, every client may."""
    return exchange.client_key is None or exchange.client_key.is_admin


def has_tools(exchange: Exchange) -> bool:
    """Return whether the client may use the gateway's own tools and see their workspace."""
    return is_admin(exchange) or (exchange.client_key is not None and exchange.client_key.tools)
