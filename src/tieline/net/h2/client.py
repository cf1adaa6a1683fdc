"""The HTTP/2 client: opens two-way streams, many per connection.

`Http2Client.open` returns as soon as the head of the request is queued, because some upstreams send the head of their
response only after they have received the first message. No redirect is followed and nothing is retried. Every failure
is a `PipeError`. Phase "connect" with reason "protocol" means that the upstream does not speak HTTP/2. If `sent` is
False, the upstream has not begun to process the request, and the request may be sent again.

An https upstream is offered only HTTP/2 in the TLS handshake (ALPN); with an http upstream, HTTP/2 is assumed (prior
knowledge).
"""

import re
import ssl
from collections.abc import Sequence
from functools import lru_cache

from tieline.net.client.proxy import Origin, Proxies, UpstreamRoute
from tieline.net.client.response import Fields, PipeError, Timeouts
from tieline.net.h2.connection import DEFAULT_WINDOW, Http2Config
from tieline.net.h2.pool import Http2Pool, closed_error
from tieline.net.h2.stream import Http2Stream

__all__ = ["Http2Client", "Http2Stream", "Origin", "PipeError", "Proxies", "Timeouts"]

DEFAULT_TIMEOUTS = Timeouts()
NO_PROXIES = Proxies()
MEBIBYTE = 1024 * 1024

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PATH = re.compile(r"/[\x21-\x7e]*")
_OWN_FIELDS = frozenset(("connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))


class Http2Client:
    """Opens streams to any number of origins over pooled connections. It belongs to one event loop.

    If a connection with open streams receives nothing for `ping_after` seconds, it is pinged. If nothing arrives within
    `ping_wait` seconds after that, it is dropped. A slow reader blocks its own stream when `stream_window` bytes are
    unread. The whole connection is blocked only when all its streams together have `connection_window` unread bytes.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        proxies: Proxies = NO_PROXIES,
        streams_per_connection: int = 100,
        connections_per_origin: int = 32,
        stream_window: int = MEBIBYTE,
        connection_window: int = 16 * MEBIBYTE,
        ping_after: float = 30.0,
        ping_wait: float = 15.0,
        idle_keep: float = 60.0,
    ) -> None:
        self._tls = tls
        self._proxies = proxies
        self._limit = connections_per_origin
        self._config = Http2Config(
            streams=streams_per_connection,
            stream_window=stream_window,
            window=max(connection_window, DEFAULT_WINDOW),
            ping_after=ping_after,
            ping_wait=ping_wait,
            idle_keep=idle_keep,
        )
        self._pools: dict[Origin, Http2Pool] = {}
        self._is_closed = False

    async def open(
        self,
        origin: Origin,
        path: str,
        headers: Sequence[tuple[str, str]],
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> Http2Stream:
        """Begin a POST request without waiting for the response. The caller must close the returned stream.

        Raise PipeError if the connection fails, or ValueError if the path or a header is not valid.
        """
        fields = _build_head(origin, path, headers)
        pool = self._pools.get(origin) or self._open_pool(origin)
        return await pool.open(fields, timeouts)

    async def aclose(self) -> None:
        """Abort all streams, and return when every connection is closed."""
        self._is_closed = True
        for pool in list(self._pools.values()):
            await pool.aclose()

    def _open_pool(self, origin: Origin) -> Http2Pool:
        if self._is_closed:
            raise closed_error(origin.authority)
        route = UpstreamRoute(origin, self._proxies.pick(origin))
        if route.proxy is not None and route.is_forwarded:
            proxy = route.proxy.origin.authority
            message = (
                f"{origin.authority} cannot be reached through the proxy {proxy}: HTTP/2 without TLS needs a tunnel"
            )
            raise PipeError("connect", "proxy", message, sent=False)
        pool = self._pools[origin] = Http2Pool(route, self._config, self._limit, self._tls_context)
        return pool

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            # Loaded on first use: reading the system's root certificates takes tens of milliseconds.
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["h2"])
        return self._tls


def _build_head(origin: Origin, path: str, headers: Sequence[tuple[str, str]]) -> Fields:
    if not _PATH.fullmatch(path):
        raise ValueError("a request path must begin with / and contain only printable ASCII without spaces")
    fields: Fields = [
        (b":method", b"POST"),
        (b":scheme", origin.scheme.encode("ascii")),
        (b":authority", origin.host_field.encode("ascii")),
        (b":path", path.encode("ascii")),
    ]
    for name, value in headers:
        if not _VALUE.fullmatch(value):
            # Do not quote the value: it may be a secret.
            raise ValueError(f"the value of the header {name!r} contains a character that cannot be sent")
        fields.append((_checked_name(name), value.encode("latin-1")))
    return fields


@lru_cache(maxsize=512)
def _checked_name(name: str) -> bytes:
    key = name.lower()
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a header name: {name!r}")
    if key in _OWN_FIELDS:
        raise ValueError(f"the header {name!r} is not allowed in HTTP/2 or is set by the client itself")
    return key.encode("ascii")
