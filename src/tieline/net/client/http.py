"""A pooled keep-alive HTTP/1.1 client for upstreams, small and fast because it does only what a gateway needs.

`HttpClient.send` returns when the head of the response is in; the body is then taken with `HttpResponse.chunk`. Nothing
is followed, retried or interpreted, with one exception: a resting connection that turns out to be dead before any byte
of an answer is replaced by a fresh one, once. Every failure is a `PipeError` that says in which phase and why.
"""

import re
import ssl
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urljoin, urlsplit

from tieline.net.client.body import HttpResponse, PipeError, Timeouts
from tieline.net.client.pool import Pool
from tieline.net.client.proxy import Origin, Proxies, Proxy, Route

__all__ = [
    "HttpClient",
    "HttpResponse",
    "Origin",
    "PipeError",
    "Proxies",
    "Proxy",
    "Timeouts",
    "check_header",
    "redirected",
]

DEFAULT_TIMEOUTS = Timeouts()
NO_PROXIES = Proxies()
MAX_HEADER_BYTES = 64 * 1024

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_OWN_FIELDS = frozenset(("host", "content-length", "transfer-encoding"))
_BODILESS_METHODS = frozenset(("GET", "HEAD", "DELETE", "OPTIONS"))


class HttpClient:
    """Sends requests to any number of origins over connections it keeps; it belongs to one event loop."""

    def __init__(
        self,
        *,
        per_origin: int = 1024,
        idle_keep: float = 30.0,
        max_header_bytes: int = MAX_HEADER_BYTES,
        tls: ssl.SSLContext | None = None,
        proxies: Proxies = NO_PROXIES,
    ) -> None:
        self._per_origin = per_origin
        self._idle_keep = idle_keep
        self._max_header_bytes = max_header_bytes
        self._tls = tls
        self._proxies = proxies
        self._pools: dict[Origin, Pool] = {}
        self._is_closed = False

    async def send(
        self,
        origin: Origin,
        method: str,
        path: str,
        headers: Sequence[tuple[str, str]],
        body: bytes = b"",
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> HttpResponse:
        """Send a request and return its response as soon as the head is in; the caller must read it out or close it.

        Host, Content-Length and `accept-encoding: identity` are added. Raises `PipeError`, or ValueError for a request
        that cannot be written down.
        """
        pool = self._pools.get(origin) or self._open_pool(origin)
        head = _head_start(pool.request_line, method, path, tuple(headers))
        if body or method not in _BODILESS_METHODS:
            head += b"content-length: %d\r\n\r\n" % len(body)
        else:
            head += b"\r\n"
        is_bodiless = method == "HEAD"
        connection = pool.take_idle() or await pool.acquire(timeouts)
        try:
            return await connection.exchange(head, body, timeouts, is_bodiless=is_bodiless)
        except PipeError:
            if not connection.is_stale:
                raise
        try:
            connection = await pool.acquire_fresh(timeouts)
        except PipeError as error:
            # The dead connection may have delivered the request before it died.
            error.sent = True
            raise
        return await connection.exchange(head, body, timeouts, is_bodiless=is_bodiless)

    async def aclose(self) -> None:
        """Abort what is under way, fail whoever waits, and return when every connection is gone."""
        self._is_closed = True
        for pool in list(self._pools.values()):
            await pool.aclose()

    def _open_pool(self, origin: Origin) -> Pool:
        if self._is_closed:
            message = f"{origin.authority} was not asked: the HTTP client is closed"
            raise PipeError("connect", "busy", message, sent=False)
        pool = self._pools[origin] = Pool(
            Route(origin, self._proxies.pick(origin)),
            limit=self._per_origin,
            idle_keep=self._idle_keep,
            max_header_bytes=self._max_header_bytes,
            tls=self._tls_context,
        )
        return pool

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            # Loading the roots of the system takes tens of milliseconds, so it waits until somebody speaks TLS.
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def redirected(origin: Origin, path: str, location: str) -> tuple[Origin, str] | None:
    """Where a redirect leads, if credentials meant for `origin` may go there; None if they may not.

    That is the same origin, or the same host over TLS where there was none.
    """
    try:
        parts = urlsplit(urljoin(f"{origin.scheme}://{origin.host_field}{path}", location))
        target, _ = Origin.parse(f"{parts.scheme}://{parts.netloc}")
    except ValueError:
        return None
    is_upgrade = origin.scheme == "http" and target.scheme == "https" and target.port in (443, origin.port)
    if target != origin and not (is_upgrade and target.host == origin.host):
        return None
    return target, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


@lru_cache(maxsize=64)
def _head_start(line: tuple[str, str], method: str, path: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The head of a request up to the length of its body: for an upstream it is nearly always the same."""
    before, after = line
    lines = [f"{_checked_method(method)} {before}{_checked_path(path)}{after}"]
    is_identity = True
    for name, value in headers:
        key = _checked_name(name)
        if key == "accept-encoding":
            is_identity = False
        if not (value.isascii() and value.isprintable()):
            _check_value(name, value)
        lines.append(f"{key}: {value}")
    if is_identity:
        lines.append("accept-encoding: identity")
    lines.append("")
    return "\r\n".join(lines).encode("latin-1")


def _checked_path(path: str) -> str:
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
        raise ValueError("a request path begins with / and holds neither spaces nor control or non-ASCII characters")
    return path


def _checked_method(method: str) -> str:
    if not _TOKEN.fullmatch(method) or method != method.upper():
        raise ValueError(f"not an HTTP method: {method!r}")
    return method


@lru_cache(maxsize=512)
def _checked_name(name: str) -> str:
    key = name.lower()
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"not a header name: {name!r}")
    if key in _OWN_FIELDS:
        raise ValueError(f"the header {name!r} is written by the HTTP client itself")
    return key


def check_header(name: str, value: str) -> None:
    """Raise ValueError for a header that cannot be sent; the value is not repeated."""
    _checked_name(name)
    _check_value(name, value)


def _check_value(name: str, value: str) -> None:
    """Complain about a value without repeating it: it may be a secret."""
    if any((character < " " and character != "\t") or character == "\x7f" for character in value):
        raise ValueError(f"the value of the header {name!r} contains a control character")
    if any(character > "\xff" for character in value):
        raise ValueError(f"the value of the header {name!r} contains a character outside latin-1")
