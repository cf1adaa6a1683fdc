"""Answers the web page's requests about keys and usage."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs

from tieline.frontends.guard import PageToken
from tieline.frontends.http import Exchange
from tieline.frontends.json_body import read_body
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.web.exchange import API_HEADERS, is_admin, query, respond, rest_of_path

CSV = b"text/csv; charset=utf-8"
MAX_GROUPS = 4


class KeyAdmin(Protocol):
    """Manages the stored keys. Every method may raise GatewayError. Keys are returned as JSON values."""

    async def list(self) -> Sequence[Mapping[str, Any]]:
        """Return all keys, including revoked ones, without their values."""

    async def create(self, name: str, rules: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create a key. The result contains its value as `key`."""

    async def rotate(self, name: str, grace: float) -> Mapping[str, Any]:
        """Replace a key. The old value stays valid for `grace` seconds. The result contains the new one as `key`."""

    async def revoke(self, name: str) -> Mapping[str, Any]:
        """Revoke a key."""


class UsageReader(Protocol):
    """Reports usage. Every method may raise GatewayError."""

    async def rows(self, by: Sequence[str], since: str, until: str, owner: str | None) -> Sequence[Mapping[str, Any]]:
        """Return the usage of the key `owner`, or of all keys if it is None, grouped by `by`.

        If `since` is empty, it is the start of the month.
        """

    async def csv(self, by: Sequence[str], since: str, until: str, owner: str | None) -> str:
        """Return the same as CSV."""


class _CreateKey(Value):
    name: str
    rules: Mapping[str, Any] = {}


class _RotateKey(Value):
    grace: float = 0.0


class KeysApi:
    """Handles requests about keys and usage."""

    def __init__(self, keys: KeyAdmin | None, usage: UsageReader | None, token: PageToken) -> None:
        self._keys = keys
        self._usage = usage
        self._token = token

    async def list(self, exchange: Exchange) -> None:
        """Send all stored keys, without their values."""
        await respond(exchange, {"keys": [] if self._keys is None else await self._keys.list()})

    async def create(self, exchange: Exchange) -> None:
        """Create a key and send it, once."""
        self._token.check_browser(exchange)
        body = await read_body(exchange, _CreateKey)
        await respond(exchange, await self._admin().create(body.name, body.rules))

    async def act(self, exchange: Exchange) -> None:
        """Revoke or rotate the key that the path names."""
        self._token.check_browser(exchange)
        name, _, verb = rest_of_path(exchange, "/api/keys/").rpartition("/")
        if verb == "revoke":
            await respond(exchange, await self._admin().revoke(name))
        elif verb == "rotate":
            body = await read_body(exchange, _RotateKey)
            await respond(exchange, await self._admin().rotate(name, body.grace))
        else:
            raise GatewayError("not_found", "Unknown action; the actions of a key are revoke and rotate.")

    async def usage(self, exchange: Exchange) -> None:
        """Send usage, grouped by the `by` parameters, as JSON or CSV. Keys other than admin keys see only their own."""
        if self._usage is None:
            message = "Usage is not recorded. Create a named key, or set `enabled = true` under [usage]."
            raise GatewayError("not_found", message)
        given: bytes = exchange.scope["query_string"]
        by = parse_qs(given.decode("latin-1"), errors="replace").get("by", ["day"])[:MAX_GROUPS]
        owner = None if is_admin(exchange) else exchange.place.owner
        wanted = (by, query(exchange, "since"), query(exchange, "until"), owner)
        if query(exchange, "format") == "csv":
            name = (b"content-disposition", b'attachment; filename="usage.csv"')
            await exchange.respond(200, (await self._usage.csv(*wanted)).encode(), CSV, (*API_HEADERS, name))
        else:
            await respond(exchange, {"rows": await self._usage.rows(*wanted)})

    def _admin(self) -> KeyAdmin:
        if self._keys is None:
            raise GatewayError(
                "not_found", "Named keys need the gateway's own key: set TIELINE_KEY and restart Tieline."
            )
        return self._keys
