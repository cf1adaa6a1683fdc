"""The request guard: checks Host, Origin and key of every request before an endpoint sees it."""

import time
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from tieline.frontends.http import Exchange
from tieline.frontends.keyless import AcceptedConnection, Keyless
from tieline.frontends.keys import Keys, NamedKey
from tieline.frontends.page_pass import PASS, Passes
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError

MAX_KNOWN_HOSTS = 256
MAX_KNOWN_HOST_BYTES = 64 * 1024


class Guard:
    """Decides which requests are served: an accepted host name, no foreign web page, and the key if there is one.

    A web page anywhere can make a browser send requests to this machine, directly or by resolving its own name to it
    (DNS rebinding). Therefore the Host header must be one of ours, and if the request comes from a web page, that page
    must be ours or configured.
    """

    def __init__(
        self,
        *,
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        keys: Iterable[str] = (),
        named: Iterable[NamedKey] = (),
        keyless: Keyless | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._keys = Keys(keys, named)
        self._passes = Passes(self._keys.own, clock)
        self._known_hosts: BoundedCache[bytes, bool] = BoundedCache(MAX_KNOWN_HOSTS, max_weight=MAX_KNOWN_HOST_BYTES)
        self._keyless = None if self._keys.own else keyless or Keyless()

    def check(self, exchange: Exchange, *, keyed: bool, public: bool = False) -> None:
        """Raise GatewayError if a request must not be served, judging by its headers.

        `keyed` paths require the gateway's key if it has one. `public` paths also answer other users and tunnels when
        the gateway has no key.
        """
        headers = exchange.headers
        if not self._is_our_host(headers.get(b"host", b"")):
            raise GatewayError(
                "forbidden",
                f"This gateway does not answer to the host name `{exchange.header(b'host')}`. "
                "If it should, add the name to `hosts` under [server] in the configuration.",
            )
        if b"origin" in headers or headers.get(b"sec-fetch-site") == b"cross-site":
            self._check_origin(exchange)
        if self._keyless is None:
            if keyed:
                self._check_key(exchange)
        elif not public:
            self._keyless.check_headers(headers)

    async def check_user(self, connection: AcceptedConnection) -> None:
        """Raise GatewayError if a gateway without a key must not serve the user behind a connection."""
        if self._keyless is None:
            connection.user_refusal = ""
        else:
            await self._keyless.check_user(connection)

    @property
    def has_keys(self) -> bool:
        """Whether requests need a key."""
        return bool(self._keys.own)

    def warnings(self) -> tuple[str, ...]:
        """Return warnings to print when the gateway starts."""
        return () if self._keyless is None else self._keyless.warnings()

    def pass_for(self, key: str, exchange: Exchange) -> str | None:
        """Return a pass that the web page may send instead of the key, or None if the key is wrong."""
        return self._passes.issue(key, exchange.header(b"host"))

    def admits(self, exchange: Exchange) -> bool:
        """Whether a request has a key that is valid for its path, or comes from the web page with a valid pass."""
        if not self.has_keys or self._keys.opens(exchange.key, exchange.path):
            return True
        if not exchange.path.startswith("/api/"):
            return False
        return self._passes.admits(exchange.header(PASS), exchange.header(b"host"))

    def _is_our_host(self, host: bytes) -> bool:
        known = self._known_hosts.get(host)
        if known is None:
            name = host_name(host.decode("latin-1"))
            known = is_loopback(name) or _is_address(name) or name in self._hosts or "*" in self._hosts
            self._known_hosts.put(host, known, len(host))
        return known

    def _check_origin(self, exchange: Exchange) -> None:
        origin = exchange.header(b"origin").lower()
        if origin in self._origins or "*" in self._origins:
            return
        if origin and _netloc(origin) == exchange.header(b"host").lower():
            return
        raise GatewayError(
            "forbidden",
            f"Web pages of `{origin or 'another site'}` may not use this gateway. "
            "If this one should, add it to `origins` under [server] in the configuration.",
        )

    def _check_key(self, exchange: Exchange) -> None:
        if not self.admits(exchange):
            raise GatewayError(
                "unauthorized",
                "This gateway needs its key, as `Authorization: Bearer <key>` or `x-api-key: <key>`.",
                code="invalid_api_key",
            )


def host_name(host: str) -> str:
    """Return a Host header without its port, or an empty string if it is not valid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower() if host else ""
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Whether a host name always means this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ip_address(name).is_loopback


def _netloc(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    """Whether this is a numeric address, which needs no name resolution and so cannot be used for DNS rebinding."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
