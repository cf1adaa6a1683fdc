"""Reads the paths of requests from the web page and sends JSON responses."""

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
    """Return the path of a request without `prefix`."""
    return exchange.path.rstrip("/").removeprefix(prefix)[:MAX_REST]


def query(exchange: Exchange, name: str) -> str:
    """Return a query parameter, or an empty string if it is not given."""
    given: bytes = exchange.scope["query_string"]
    return parse_qs(given.decode("latin-1"), errors="replace").get(name, [""])[-1]
