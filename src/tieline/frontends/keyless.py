"""Who may use a gateway without a key: the user who runs it and root, on a direct connection from this machine.

Loopback is open to every user of the machine, and to whatever a proxy or a tunnel on it lets in. A gateway that can run
commands must serve none of those without a key.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Protocol

from tieline.model.errors import GatewayError

OwnerLookup = Callable[[tuple[str, int], tuple[str, int]], Awaitable[int | None]]
"""The uid behind a connection by the client's and the server's address, or None if that is not known."""

_FORWARDING = frozenset(
    (
        b"forwarded",
        b"via",
        b"x-real-ip",
        b"x-client-ip",
        b"x-original-host",
        b"x-original-forwarded-for",
        b"x-envoy-external-address",
        b"true-client-ip",
        b"fastly-client-ip",
        b"fly-client-ip",
    )
)
_FORWARDING_PREFIXES = (b"x-forwarded-", b"cf-", b"tailscale-", b"ngrok-", b"cdn-")


class Connection(Protocol):
    """The connection a request came on; an address is None if it is no TCP connection."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
    kept: Any
    """What the application keeps with the connection."""


class Keyless:
    """Checks the requests of a gateway that has no key.

    `key_name` is the variable its key would be in. `is_published` says that host names were configured, under which
    others may reach it. Without `owner_of` the users of connections are not known on this system, nor checked.
    """

    def __init__(
        self,
        *,
        key_name: str = "TIELINE_KEY",
        is_published: bool = False,
        owner_of: OwnerLookup | None = None,
        users: Collection[int] = (),
    ) -> None:
        self._key_name = key_name
        self._is_published = is_published
        self._owner_of = owner_of
        self._users = frozenset(users)
        self._remedy = (
            f"Set {key_name} where the gateway runs to a long random text, restart it, and send the same text as "
            "`Authorization: Bearer <key>` or `x-api-key: <key>`."
        )

    def warnings(self) -> tuple[str, ...]:
        """What the person who starts such a gateway has to know."""
        if self._is_published:
            return (
                "Warning: `hosts` under [server] is set and there is no key, so every request but /healthz is refused. "
                f"Set {self._key_name}.",
            )
        if self._owner_of is None:
            return (
                "Warning: this system does not tell which user a connection comes from. Every user of this machine can "
                f"use this gateway. If there are others, set {self._key_name}.",
            )
        return ()

    def check_head(self, names: Iterable[bytes]) -> None:
        """Raise GatewayError if the names of a request's headers show that others may be behind it."""
        if self._is_published:
            raise self._refused("`hosts` under [server] is set, so others may reach it")
        for name in names:
            if name in _FORWARDING or name.startswith(_FORWARDING_PREFIXES):
                raise self._refused(f"This request came through a proxy or a tunnel (`{name.decode('latin-1')[:60]}`)")

    async def check_user(self, connection: Connection) -> None:
        """Raise GatewayError unless a connection comes from a user who may use the gateway; look it up once."""
        if connection.kept is None:
            connection.kept = await self._refusal(connection)
        if connection.kept:
            raise self._refused(connection.kept)

    async def _refusal(self, connection: Connection) -> str:
        """Why a connection is not served, or nothing."""
        if self._owner_of is None:
            return ""
        client, server = connection.client, connection.server
        uid = None if client is None or server is None else await self._owner_of(client, server)
        if uid is None:
            return "The user this connection comes from cannot be determined"
        return "" if uid in self._users else "This connection comes from another user of this machine"

    def _refused(self, reason: str) -> GatewayError:
        return GatewayError(
            "unauthorized", f"{reason}, and the gateway has no key. {self._remedy}", code="invalid_api_key"
        )
