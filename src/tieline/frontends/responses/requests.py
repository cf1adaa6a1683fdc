"""Functions that read the owner of stored objects, the path and the query parameters from a request."""

from hashlib import sha256
from urllib.parse import parse_qs

from tieline.frontends.guard import Guard
from tieline.frontends.http import Exchange
from tieline.model.errors import BadRequest, GatewayError
from tieline.wire.openai_responses.stored import ListPage

DEFAULT_LIMIT = 20
MAX_LIMIT = 100
MAX_DIGITS = 12
MAX_SHOWN = 200


class Owners:
    """Derives the owner of stored objects from a request's key. Without keys, all objects have one owner."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def of(self, exchange: Exchange) -> str:
        """Return the owner: a digest of the key (so that the key itself is never stored), or "" without keys.

        For a key from the database it is an id, which stays the same when the key is rotated.
        """
        if not self._guard.has_keys:
            return ""
        if exchange.client_key is not None and exchange.client_key.archive:
            return exchange.client_key.archive
        return sha256(exchange.key.encode("utf-8", "replace")).hexdigest()[:24]


def query_of(exchange: Exchange) -> dict[str, list[str]]:
    """Return the query parameters of a request."""
    query: bytes = exchange.scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1"))


def number_in(exchange: Exchange, name: str, default: int, low: int, high: int) -> int:
    """Return the query parameter `name` as a number, or `default` if it is missing.

    Raise BadRequest if it is not a number from `low` to `high`.
    """
    text = query_of(exchange).get(name, [""])[-1]
    if not text:
        return default
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not is_number or not low <= int(text) <= high:
        raise BadRequest(f"`{name}`: expected a number from {low} to {high}, got '{text[:MAX_SHOWN]}'", name)
    return int(text)


def page_of(exchange: Exchange, *, newest_first: bool = True) -> ListPage:
    """Return which page of a list a request asks for. `newest_first` is the default order.

    Raise BadRequest if a query parameter is invalid.
    """
    query = query_of(exchange)
    order = query.get("order", ["desc" if newest_first else "asc"])[-1]
    if order not in ("asc", "desc"):
        raise BadRequest(f"`order`: expected asc or desc, got '{order[:MAX_SHOWN]}'", "order")
    limit = number_in(exchange, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    return ListPage(limit=limit, newest_first=order == "desc", after=query.get("after", [None])[-1])


def path_below(exchange: Exchange, collection: str) -> list[str]:
    """Return the segments of the path after `collection`, such as `responses`."""
    return exchange.path.partition(f"/{collection}/")[2].rstrip("/").split("/")


def nothing_there(exchange: Exchange) -> GatewayError:
    """Return the error for a path at which nothing is served."""
    return GatewayError("not_found", f"There is nothing at {exchange.path[:MAX_SHOWN]}.")
