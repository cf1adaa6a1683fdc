"""The request guard: decides from a request's Host and Origin headers, key and token whether to serve it."""

import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from ipaddress import ip_address
from urllib.parse import urlsplit

from msgspec import Struct

from tieline.core.usage.accounts import Accounts
from tieline.frontends.http import Exchange
from tieline.frontends.keyless import AcceptedConnection, Keyless
from tieline.frontends.keys import NEEDS_KEY, OWN_KEY, PAGE_PATHS, KeySource, NamedKey, UnknownKey, digest_of
from tieline.frontends.page_pass import PASS, Passes
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError

MAX_KNOWN_HOSTS = 256
MAX_KNOWN_HOST_BYTES = 64 * 1024
MAX_DIGESTS = 1000
"""Number of keys whose digests are remembered."""
NEEDS_ADMIN = "This needs the gateway's own key or an admin key."
TOKEN = b"x-tieline-token"
_BROWSERS = frozenset((b"origin", b"sec-fetch-site", PASS))
"""Headers that only requests from web pages have.

Browsers add the first two, and a page can neither omit nor forge them. The gateway's own page sends its pass itself.
"""


class AccessRules(Struct, frozen=True, kw_only=True):
    """Who may send requests to a path."""

    keyed: bool = True
    """Whether a request must have a key if the gateway has keys."""
    public: bool = False
    """Whether other users and tunnels may use the path even if the gateway has no key to check."""
    cross_site: bool = False
    """Whether web pages from other sites may use the path if the gateway has a key: they do not know it, and browsers
    do not add it."""
    framed: bool = False
    """Whether web pages from other sites may load the path into a frame: they cannot read what the frame shows. The
    endpoint has to check a token itself."""
    for_admin: bool = False
    """Whether the key must be an admin key."""


class Keys:
    """The keys that clients may send: the gateway's own keys, and named keys from the configuration and the database.

    Keys are found by their digests. The time of a lookup reveals nothing about a key, because a client cannot choose
    digests. `now` returns the Unix time.
    """

    def __init__(
        self,
        named: Iterable[NamedKey],
        accounts: Accounts,
        now: Callable[[], float],
        stored: KeySource | None = None,
        own: Iterable[str] = (),
    ) -> None:
        self.accounts = accounts
        self._now = now
        self._stored = stored
        self._named: Mapping[str, NamedKey] = {key.name: key for key in named}
        self._by_digest = {key.fingerprint: key for key in self._named.values() if key.value}
        self._by_digest.update((digest_of(key), OWN_KEY) for key in own)
        self._digests: BoundedCache[str, str] = BoundedCache(MAX_DIGESTS)
        """The digests of keys that were found, because hashing takes ten times as long as this lookup."""
        for key in self._named.values():
            accounts.set_limits(key.name, key.limits)

    @property
    def is_empty(self) -> bool:
        """Whether the configuration has no named keys."""
        return not self._named

    def find(self, given: str) -> NamedKey | None:
        """Return the key with the value `given`, OWN_KEY for one of the gateway's own keys, or None.

        Raise GatewayError if the key has been revoked or has expired, or if stored keys cannot be checked.
        """
        if not given:
            return None
        known = self._digests.get(given)
        digest = known or digest_of(given)
        key = self._by_digest.get(digest)
        if key is None and self._stored is not None:
            key = self._stored.find(digest)
        if key is not None:
            if key.is_revoked or key.expires is not None:
                key.check_valid(self._now())
            if known is None:
                self._digests.put(given, digest)
        return key

    def named(self, name: str) -> NamedKey | None:
        """Return the valid key with this name, OWN_KEY for the empty name, or None.

        Raise GatewayError if the key is no longer valid, or if stored keys cannot be checked.
        """
        if not name:
            return OWN_KEY
        key = self._named.get(name)
        if key is None and self._stored is not None:
            key = self._stored.named(name)
        if key is not None:
            key.check_valid(self._now())
        return key

    def check(self, key: NamedKey) -> None:
        """Raise GatewayError if a key that was accepted before is no longer valid."""
        if key.name and self.named(key.name) is None and key.name not in self._named:
            raise GatewayError("unauthorized", "This key is no longer valid.", code="invalid_api_key")

    def unknown(self) -> GatewayError:
        """Return the error for a key that is not known."""
        if self._stored is not None:
            return UnknownKey()
        return GatewayError("unauthorized", NEEDS_KEY, code="invalid_api_key")

    async def refresh(self) -> None:
        """Read the stored keys again. Raise GatewayError if that is not possible."""
        if self._stored is not None:
            await self._stored.refresh()


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
        stored: KeySource | None = None,
        keyless: Keyless | None = None,
        clock: Callable[[], float] = time.time,
        rate_clock: Callable[[], float] = time.monotonic,
        accounts: Accounts | None = None,
    ) -> None:
        self._hosts = {host.lower() for host in hosts}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._own = tuple(keys)
        self._keys = Keys(named, accounts or Accounts(rate_clock, clock), clock, stored, self._own)
        self._passes = Passes(self._own, clock)
        self._known_hosts: BoundedCache[bytes, bool] = BoundedCache(MAX_KNOWN_HOSTS, max_weight=MAX_KNOWN_HOST_BYTES)
        self._keyless = keyless or Keyless(checks_users=False) if not self._own and self._keys.is_empty else None

    def check(self, exchange: Exchange, rules: AccessRules) -> None:
        """Raise GatewayError if a request must not be served, judging by its headers and the rules of its path.

        A key that the rules require is stored as `exchange.client_key`. Raise UnknownKey if the key may be known after
        `refresh`.
        """
        if exchange.is_forwarded:  # another replica has checked and counted the request
            if rules.keyed and self._keyless is None:
                self._check_key(exchange, rules.for_admin)
            return
        headers = exchange.headers
        if not self._is_our_host(headers.get(b"host", b"")):
            raise GatewayError(
                "forbidden",
                f"This gateway does not answer to the host name `{exchange.header(b'host')}`. "
                "If it should, add the name to `hosts` under [server] in the configuration.",
            )
        is_page = b"origin" in headers or headers.get(b"sec-fetch-site") == b"cross-site"
        if is_page and not (rules.cross_site and self.has_keys) and not (rules.framed and _is_navigation(headers)):
            self._check_origin(exchange)
        if self._keyless is None:
            if rules.keyed:
                self._check_key(exchange, rules.for_admin)
        elif not rules.public:
            self._keyless.check_headers(headers)

    def count(self, exchange: Exchange, requests: int = 1) -> None:
        """Count further requests from a client, besides the one that `check` counted.

        Raise GatewayError if that exceeds the rate limit of the client's key, or if the key is no longer valid.
        """
        key = exchange.client_key
        if key is not None and not exchange.is_forwarded:
            self._keys.check(key)
            self._keys.accounts.count_request(key.name, requests)

    async def refresh(self) -> None:
        """Read the stored keys again. Raise GatewayError if that is not possible."""
        await self._keys.refresh()

    def key_named(self, name: str) -> NamedKey | None:
        """Return the key with this name, or None if there is no such key or it is no longer valid."""
        try:
            return self._keys.named(name)
        except GatewayError:
            return None

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

    async def pass_for(self, key: str, exchange: Exchange) -> str | None:
        """Return a pass that the web page may send instead of `key`, or None if the key is unknown or not for the page.

        Raise GatewayError if the key has been revoked or has expired, or if stored keys cannot be checked.
        """
        found = self._keys.find(key)
        if found is None:
            await self._keys.refresh()
            found = self._keys.find(key)
        if found is None or not PAGE_PATHS[0].startswith(found.paths):
            return None
        return self._passes.issue(key, exchange.header(b"host"), found)

    def new_pass(self, exchange: Exchange, key: NamedKey) -> str:
        """Return a pass for the web page at the host of this request.

        The caller must have checked that the client has the key.
        """
        return self._passes.issue(self._own[0], exchange.header(b"host"), key)

    def admits(self, exchange: Exchange) -> bool:
        """Return whether a request has a key or a pass that is valid for its path, or needs neither.

        The key is stored as `exchange.client_key`.
        """
        if not self.has_keys:
            return True
        try:
            key = self._keys.find(exchange.key) or self._key_of_pass(exchange)
        except GatewayError:
            return False
        if key is None or not exchange.path.startswith(key.paths):
            return False
        exchange.client_key = key
        return True

    def _key_of_pass(self, exchange: Exchange) -> NamedKey | None:
        given = exchange.header(PASS)
        if not given or not exchange.path.startswith(PAGE_PATHS):
            return None
        return self._passes.key_of(given, exchange.header(b"host"), self._keys.named)

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

    def _check_key(self, exchange: Exchange, for_admin: bool) -> None:
        key = self._keys.find(exchange.key) or self._key_of_pass(exchange)
        if key is None:
            is_silent = not exchange.key and PASS not in exchange.headers
            raise GatewayError("unauthorized", NEEDS_KEY, code="invalid_api_key") if is_silent else self._keys.unknown()
        if not exchange.path.startswith(key.paths):
            message = f"This key is not valid here, but for paths that begin with {', '.join(key.paths)}."
            raise GatewayError("unauthorized", message, code="invalid_api_key")
        if for_admin and not key.is_admin:
            raise GatewayError("forbidden", NEEDS_ADMIN, code="admin_key_required")
        if key.name:
            if not exchange.is_forwarded:
                self._keys.accounts.count_request(key.name)
            exchange.is_still_valid = partial(self._is_valid, key)
        exchange.client_key = key

    def _is_valid(self, key: NamedKey) -> bool:
        try:
            self._keys.check(key)
        except GatewayError:
            return False
        return True


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
        if exchange.client_key is not None and b"origin" in exchange.headers and PASS not in exchange.headers:
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
