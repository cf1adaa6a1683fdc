"""Access to a gateway without a key: only its user (and, on Linux, root), on a direct connection from this machine.

Every user of the machine can connect to loopback, and so can anyone who uses a proxy or a tunnel that runs on it. A
gateway that can run commands must not serve these people without a key.
"""

from collections.abc import Awaitable, Callable, Collection
from itertools import repeat
from typing import Protocol

from tieline.model.errors import GatewayError

OwnerLookup = Callable[[tuple[str, int], tuple[str, int]], Awaitable[int | None]]
"""Takes the client's and the server's address; returns the client's uid, or None if it cannot be determined."""

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


class AcceptedConnection(Protocol):
    """The connection on which a request arrived. `client` and `server` are addresses, or None if it is not TCP."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
    user_refusal: str | None
    """Why the user behind this connection is refused; empty if the user is accepted, None before the check."""


class Keyless:
    """Checks requests to a gateway that has no key.

    `key_name` is the environment variable for the key. `is_published` says whether host names are configured, which
    means that other machines may reach the gateway. `users` are the accepted uids. `owner_of` looks up the uid behind a
    connection; it is None on systems where that is impossible, and then all requests are refused. If `checks_users` is
    false, the user is not checked; this is only for an application that has no listener of its own.
    """

    def __init__(
        self,
        *,
        key_name: str = "TIELINE_KEY",
        is_published: bool = False,
        owner_of: OwnerLookup | None = None,
        users: Collection[int] = (),
        checks_users: bool = True,
    ) -> None:
        self._key_name = key_name
        self._is_published = is_published
        self._owner_of = owner_of
        self._users = frozenset(users)
        self._checks_users = checks_users
        self._remedy = (
            f"Set {key_name} where the gateway runs to a long random text, restart it, and send the same text as "
            "`Authorization: Bearer <key>` or `x-api-key: <key>`."
        )

    def warnings(self) -> tuple[str, ...]:
        """Return warnings to print when the gateway starts."""
        if self._is_published:
            return (
                "Warning: `hosts` under [server] is set and there is no key, so every request except /healthz and "
                f"/readyz is refused. Set {self._key_name}.",
            )
        if self._owner_of is None and self._checks_users:
            return (
                "Warning: this system cannot determine which user a connection comes from, and there is no key, so "
                f"every request except /healthz and /readyz is refused. Set {self._key_name}.",
            )
        return ()

    def check_headers(self, names: Collection[bytes]) -> None:
        """Raise GatewayError if a header name reveals a proxy or a tunnel, or if host names are configured."""
        if self._is_published:
            raise self._refused("`hosts` under [server] is set, so other machines may reach it")
        if _FORWARDING.isdisjoint(names) and not any(map(bytes.startswith, names, repeat(_FORWARDING_PREFIXES))):
            return
        name = next(name for name in names if name in _FORWARDING or name.startswith(_FORWARDING_PREFIXES))
        raise self._refused(f"This request came through a proxy or a tunnel (`{name.decode('latin-1')[:60]}`)")

    async def check_user(self, connection: AcceptedConnection) -> None:
        """Raise GatewayError unless a connection comes from an accepted user.

        Each connection is looked up only once.
        """
        if connection.user_refusal is None:
            connection.user_refusal = await self._user_refusal(connection)
        if connection.user_refusal:
            raise self._refused(connection.user_refusal)

    async def _user_refusal(self, connection: AcceptedConnection) -> str:
        if not self._checks_users:
            return ""
        client, server, lookup = connection.client, connection.server, self._owner_of
        uid = None if lookup is None or client is None or server is None else await lookup(client, server)
        if uid is None:
            return "The user this connection comes from cannot be determined"
        return "" if uid in self._users else "This connection comes from another user of this machine"

    def _refused(self, reason: str) -> GatewayError:
        return GatewayError(
            "unauthorized", f"{reason}, and the gateway has no key. {self._remedy}", code="invalid_api_key"
        )
