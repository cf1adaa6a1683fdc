"""Parts of HTTP requests that the endpoints for stored objects share: the owner of the objects, and pages of lists."""

from hashlib import sha256
from urllib.parse import parse_qs

from tieline.frontends.guard import Guard
from tieline.frontends.http import Exchange
from tieline.model.errors import BadRequest
from tieline.wire.openai_responses.stored import Page

MAX_LIMIT = 100


class Owners:
    """Derives the owner of stored objects from the key of a request. Without keys, everything has one owner."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def of(self, exchange: Exchange) -> str:
        """Return the owner: a digest of the key, so that the key itself is never stored."""
        if not self._guard.has_keys:
            return ""
        return sha256(exchange.key.encode("utf-8", "replace")).hexdigest()[:24]


def query_of(exchange: Exchange) -> dict[str, list[str]]:
    """Return the query parameters of a request."""
    query: bytes = exchange.scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1"))


def page_of(exchange: Exchange, *, newest_first: bool = True) -> Page:
    """Return the page of a list that a request asks for. Raise BadRequest if a parameter is wrong."""
    query = query_of(exchange)
    limit, order = query.get("limit", ["20"])[-1], query.get("order", ["desc" if newest_first else "asc"])[-1]
    if not limit.isdecimal() or not 1 <= int(limit) <= MAX_LIMIT:
        raise BadRequest(f"`limit`: expected a number from 1 to {MAX_LIMIT}, got '{limit}'", "limit")
    if order not in ("asc", "desc"):
        raise BadRequest(f"`order`: expected asc or desc, got '{order}'", "order")
    return Page(limit=int(limit), newest_first=order == "desc", after=query.get("after", [None])[-1])
