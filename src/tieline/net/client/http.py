"""A keep-alive HTTP/1.1 client for upstreams with exactly the features that the gateway needs.

`HttpClient.send` returns when the head of the response has arrived; the body is then read with `HttpResponse.chunk`. No
redirect is followed and no request is retried, with one exception: if an idle connection turns out to be dead before
any byte of a response has arrived, the request is sent once more on a new connection. Every failure is a `PipeError`
with a phase and a reason.
"""

import re
import ssl
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import urljoin, urlsplit

from tieline.net.client.pool import Pool
from tieline.net.client.proxy import Origin, Proxies, Proxy, UpstreamRoute
from tieline.net.client.response import HttpResponse, PipeError, Timeouts

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
    """Sends requests to any number of origins over pooled connections. It belongs to one event loop."""

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
        """Send a request and return the response when its head has arrived. The caller must read it fully or close it.

        Host and Content-Length are added, and `accept-encoding: identity` unless `headers` contains Accept-Encoding.
        Raise PipeError if the request fails, or ValueError if the method, the path or a header is not valid.
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
            # The dead connection may have delivered the request.
            error.sent = True
            raise
        return await connection.exchange(head, body, timeouts, is_bodiless=is_bodiless)

    async def aclose(self) -> None:
        """Abort all requests, and return when every connection is closed."""
        self._is_closed = True
        for pool in list(self._pools.values()):
            await pool.aclose()

    def _open_pool(self, origin: Origin) -> Pool:
        if self._is_closed:
            message = f"{origin.authority} was not contacted: the HTTP client is closed"
            raise PipeError("connect", "busy", message, sent=False)
        pool = self._pools[origin] = Pool(
            UpstreamRoute(origin, self._proxies.pick(origin)),
            limit=self._per_origin,
            idle_keep=self._idle_keep,
            max_header_bytes=self._max_header_bytes,
            tls=self._tls_context,
        )
        return pool

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            # Loaded on first use: reading the system's root certificates takes tens of milliseconds.
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def redirected(origin: Origin, path: str, location: str) -> tuple[Origin, str] | None:
    """Return the target of a redirect if credentials for `origin` may be sent there, otherwise None.

    Credentials may be sent to the same origin, and to the same host over https if `origin` uses http.
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
    """Return the head of a request up to its Content-Length. `line` is from `UpstreamRoute.request_line`.

    The result is cached, because most requests have the same head.
    """
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
        raise ValueError("a request path must begin with / and contain only printable ASCII without spaces")
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
        raise ValueError(f"the header {name!r} is set by the HTTP client itself")
    return key


def check_header(name: str, value: str) -> None:
    """Raise ValueError if a header cannot be sent. The error message does not contain the header's value."""
    _checked_name(name)
    _check_value(name, value)


def _check_value(name: str, value: str) -> None:
    """Raise ValueError for an invalid header value. The error message omits the value, which may be a secret."""
    if any((character < " " and character != "\t") or character == "\x7f" for character in value):
        raise ValueError(f"the value of the header {name!r} contains a control character")
    if any(character > "\xff" for character in value):
        raise ValueError(f"the value of the header {name!r} contains a character outside latin-1")
