"""The request guard: decides from a request's Host and Origin headers, key and token whether to serve it."""

import hmac
import math
import time
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from tieline.frontends.http import Exchange
from tieline.frontends.keyless import AcceptedConnection, Keyless
from tieline.frontends.keys import OWN_KEY, NamedKey
from tieline.frontends.page_pass import PASS, Passes
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError

MAX_KNOWN_HOSTS = 256
MINUTE = 60.0
MAX_KNOWN_HOST_BYTES = 64 * 1024
NEEDS_KEY = "This gateway needs its key, as `Authorization: Bearer <key>`, `x-api-key: <key>` or `api-key: <key>`."
TOKEN = b"x-tieline-token"
_BROWSERS = frozenset((b"origin", b"sec-fetch-site", PASS))
"""Headers that only requests from web pages have.

Browsers add the first two, and a page can neither omit nor forge them. The gateway's own page sends its pass itself.
"""


def same_key(given: str, known: str) -> bool:
    """Compare two keys in constant time. If `known` is empty, return False."""
    return bool(known) and hmac.compare_digest(given.encode(), known.encode())


class TokenBucket:
    """Limits the rate of requests. The bucket holds `per_minute` tokens and is refilled at this rate.

    `clock` returns monotonic time in seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._capacity = per_minute
        self._clock = clock
        self._tokens = float(per_minute)
        self._updated = clock()

    def take(self) -> float:
        """Take a token and return 0. If the bucket is empty, return the number of seconds until the next token."""
        now = self._clock()
        rate = self._capacity / MINUTE
        self._tokens = min(self._capacity, self._tokens + (now - self._updated) * rate)
        self._updated = now
        if self._tokens < 1:
            return (1 - self._tokens) / rate
        self._tokens -= 1
        return 0


class Keys:
    """All keys that a client may send: the gateway's own keys, which are valid for every path, and the named keys."""

    def __init__(
        self,
        own: Iterable[str] = (),
        named: Iterable[NamedKey] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.own = tuple(own)
        self._named = tuple(named)
        self._buckets = {
            key.name: TokenBucket(key.requests_per_minute, clock) for key in self._named if key.requests_per_minute
        }

    @property
    def is_empty(self) -> bool:
        """Whether there are no keys at all."""
        return not self.own and not self._named

    def is_own(self, given: str) -> bool:
        """Return whether the `given` key is one of the gateway's own keys."""
        return any(same_key(given, known) for known in self.own)

    def find(self, given: str) -> NamedKey | None:
        """Return the named key with the value `given`, OWN_KEY if it is one of the gateway's own keys, or None."""
        if self.is_own(given):
            return OWN_KEY
        return next((key for key in self._named if same_key(given, key.value)), None)

    def count(self, key: NamedKey) -> None:
        """Count a request with this key. Raise GatewayError if the key's limit of requests per minute is exceeded."""
        bucket = self._buckets.get(key.name)
        wait = 0.0 if bucket is None else bucket.take()
        if wait:
            raise GatewayError(
                "rate_limited",
                f"This key may send {key.requests_per_minute} requests per minute. Try again in {math.ceil(wait)} s.",
                code="rate_limit_exceeded",
                retry_after=math.ceil(wait),
            )


class Guard:
    """Decides from the host name, origin and key of a request whether to serve it.

    Any web page can make a browser send requests to this machine, directly or by resolving its own host name to this
    machine's address (DNS rebinding). Therefore the Host header must name this gateway, and a web page that sends
    requests must be the gateway's own page or belong to a configured origin.
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
        rate_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._keys = Keys(keys, named, rate_clock)
        self._passes = Passes(self._keys.own, clock)
        self._known_hosts: BoundedCache[bytes, bool] = BoundedCache(MAX_KNOWN_HOSTS, max_weight=MAX_KNOWN_HOST_BYTES)
        self._keyless = keyless or Keyless(checks_users=False) if self._keys.is_empty else None

    def check(
        self, exchange: Exchange, *, keyed: bool, public: bool = False, cross_site: bool = False, framed: bool = False
    ) -> None:
        """Raise GatewayError if a request must not be served, judging by its headers.

        If the gateway has keys, a `keyed` path requires one, which is stored as `exchange.client_key`. A `cross_site`
        path then accepts requests from all web pages: other sites do not know a key, and browsers do not add it. A
        `framed` path accepts that pages of other sites load it into a frame: they cannot read what the frame shows. If
        the gateway has no keys, a `public` path still accepts requests from other users and through tunnels.
        """
        headers = exchange.headers
        if not self._is_our_host(headers.get(b"host", b"")):
            raise GatewayError(
                "forbidden",
                f"This gateway does not answer to the host name `{exchange.header(b'host')}`. "
                "If it should, add the name to `hosts` under [server] in the configuration.",
            )
        is_page = b"origin" in headers or headers.get(b"sec-fetch-site") == b"cross-site"
        if is_page and not (cross_site and self.has_keys) and not (framed and _is_navigation(headers)):
            self._check_origin(exchange)
        if self._keyless is None:
            if keyed:
                self._check_key(exchange)
        elif not public:
            self._keyless.check_headers(headers)

    def count(self, exchange: Exchange, requests: int = 1) -> None:
        """Count further requests from a client, besides the one that `check` counted.

        Raise GatewayError if that exceeds the rate limit of the client's key.
        """
        if exchange.client_key is not None:
            for _ in range(requests):
                self._keys.count(exchange.client_key)

    async def check_user(self, connection: AcceptedConnection) -> None:
        """Raise GatewayError if the gateway has no key and the user behind a connection may not use it."""
        if self._keyless is None:
            connection.user_refusal = ""
        else:
            await self._keyless.check_user(connection)

    def shares_with(self, origin: str) -> bool:
        """Return whether web pages of this origin may read responses.

        The origin has to be configured. The pattern `*` counts only if the gateway has a key, which other pages do not
        know.
        """
        return origin.lower() in self._origins or ("*" in self._origins and self.has_keys)

    @property
    def has_keys(self) -> bool:
        """Whether requests need a key."""
        return self._keyless is None

    def warnings(self) -> tuple[str, ...]:
        """Return warnings to print when the gateway starts."""
        return () if self._keyless is None else self._keyless.warnings()

    def pass_for(self, key: str, exchange: Exchange) -> str | None:
        """Return a pass that the web page may send instead of `key`, or None if the key is wrong."""
        return self._passes.issue(key, exchange.header(b"host")) if self._keys.is_own(key) else None

    def new_pass(self, exchange: Exchange) -> str | None:
        """Return a pass for the web page at the host of this request, or None if the gateway has no key of its own.

        The caller must have checked that the client has the key.
        """
        own = next(iter(self._keys.own), None)
        return None if own is None else self._passes.issue(own, exchange.header(b"host"))

    def admits(self, exchange: Exchange) -> bool:
        """Return whether a request has a key or a pass that is valid for its path, or needs neither."""
        if not self.has_keys:
            return True
        key = self._keys.find(exchange.key)
        return self._has_pass(exchange) if key is None else exchange.path.startswith(key.paths)

    def _has_pass(self, exchange: Exchange) -> bool:
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
        key = self._keys.find(exchange.key)
        if key is None:
            if self._has_pass(exchange):
                return
            raise GatewayError("unauthorized", NEEDS_KEY, code="invalid_api_key")
        if not exchange.path.startswith(key.paths):
            message = f"This key is not valid here, but for paths that begin with {', '.join(key.paths)}."
            raise GatewayError("unauthorized", message, code="invalid_api_key")
        self._keys.count(key)
        exchange.client_key = key


class PageToken:
    """The token that a browser must send with every request that changes something. Every start creates a new one.

    A page from another site can make a browser send requests to the gateway, but it cannot read the responses. So it
    cannot know the token, which is sent only in the response to `/api/state`. A request with the gateway's key needs no
    token, because another site does not know the key either.
    """

    def __init__(self, value: str) -> None:
        self.value = value

    def check(self, exchange: Exchange) -> None:
        """Raise GatewayError if a request contains neither the token nor, from a web page, the gateway's key."""
        if exchange.client_key is not None and b"origin" in exchange.headers:
            return
        if not hmac.compare_digest(exchange.headers.get(TOKEN, b""), self.value.encode()):
            message = "This request needs the token from /api/state. It changes when the gateway is restarted."
            raise GatewayError("forbidden", message, code="bad_token")

    def check_browser(self, exchange: Exchange) -> None:
        """Check the token if a request comes from a web page. Other programs do not need a token."""
        if is_browser(exchange):
            self.check(exchange)


def is_browser(exchange: Exchange) -> bool:
    """Return whether a request comes from a web page."""
    return not _BROWSERS.isdisjoint(exchange.headers)


def _is_navigation(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser loads a document, as opposed to a request that a script sends."""
    return b"origin" not in headers and headers.get(b"sec-fetch-mode") == b"navigate"


def host_name(host: str) -> str:
    """Return the host name in a Host header, without the port, or an empty string if the header is not valid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower() if host else ""
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """Return whether a host name always refers to this machine."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ip_address(name).is_loopback


def _netloc(url: str) -> str | None:
    try:
        return urlsplit(url).netloc
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    """Return whether a host name is an IP address. DNS rebinding is impossible then, because no name is resolved."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
