"""Two-way HTTP/2 streams to upstreams: requests that go on while their responses come in, many to a connection.

`Http2Client.open` returns as soon as the head of the request is on its way; some upstreams hold back the head of their
response until they have read the first message. Nothing is followed, retried or interpreted. Every failure is a
`PipeError`, and one of them is special: phase "connect" with reason "protocol" means that the upstream does not speak
HTTP/2 here, whatever else it speaks. If `sent` is False the upstream has not begun to serve the request, which may then
be sent again.

An https upstream is offered HTTP/2 in the TLS handshake and spoken to in HTTP/2 whatever it chooses; an http upstream
is expected to know.
"""

import re
import ssl
from collections.abc import Sequence
from functools import lru_cache

from tieline.net.client.body import Fields, PipeError, Timeouts
from tieline.net.client.proxy import Origin, Proxies, Route
from tieline.net.h2.bundle import Bundle, closed_error
from tieline.net.h2.connection import DEFAULT_WINDOW, Terms
from tieline.net.h2.stream import Duplex

__all__ = ["Duplex", "Http2Client", "Origin", "PipeError", "Proxies", "Timeouts"]

DEFAULT_TIMEOUTS = Timeouts()
NO_PROXIES = Proxies()
MEBIBYTE = 1024 * 1024

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PATH = re.compile(r"/[\x21-\x7e]*")
_OWN_FIELDS = frozenset(("connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))


class Http2Client:
    """Opens streams to any number of origins over connections it keeps; it belongs to one event loop.

    A connection with open streams that has been silent for `ping_after` seconds is asked for a sign of life, and given
    up if there is none within `ping_wait`. A reader that takes nothing holds up its own stream after `stream_window`
    bytes, and the connection only when all its streams together hold `connection_window`.
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
        self._terms = Terms(
            streams=streams_per_connection,
            stream_window=stream_window,
            window=max(connection_window, DEFAULT_WINDOW),
            ping_after=ping_after,
            ping_wait=ping_wait,
            idle_keep=idle_keep,
        )
        self._bundles: dict[Origin, Bundle] = {}
        self._is_closed = False

    async def open(
        self,
        origin: Origin,
        path: str,
        headers: Sequence[tuple[str, str]],
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> Duplex:
        """Begin a POST and return without waiting for an answer; the caller must close the stream in the end.

        Raises `PipeError`, or ValueError for a request that cannot be written down.
        """
        fields = _build_head(origin, path, headers)
        bundle = self._bundles.get(origin) or self._open_bundle(origin)
        return await bundle.open(fields, timeouts)

    async def aclose(self) -> None:
        """Abort what is under way, fail whoever waits, and return when every connection is gone."""
        self._is_closed = True
        for bundle in list(self._bundles.values()):
            await bundle.aclose()

    def _open_bundle(self, origin: Origin) -> Bundle:
        if self._is_closed:
            raise closed_error(origin.authority)
        route = Route(origin, self._proxies.pick(origin))
        if route.proxy is not None and route.is_forwarded:
            proxy = route.proxy.origin.authority
            message = (
                f"{origin.authority} cannot be reached in plain HTTP/2 through the proxy {proxy}: it has no tunnel"
            )
            raise PipeError("connect", "proxy", message, sent=False)
        bundle = self._bundles[origin] = Bundle(route, self._terms, self._limit, self._tls_context)
        return bundle

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            # Loading the roots of the system takes tens of milliseconds, so it waits until somebody speaks TLS.
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["h2"])
        return self._tls


def _build_head(origin: Origin, path: str, headers: Sequence[tuple[str, str]]) -> Fields:
    if not _PATH.fullmatch(path):
        raise ValueError("a request path begins with / and holds neither spaces nor control or non-ASCII characters")
    fields: Fields = [
        (b":method", b"POST"),
        (b":scheme", origin.scheme.encode("ascii")),
        (b":authority", origin.host_field.encode("ascii")),
        (b":path", path.encode("ascii")),
    ]
    for name, value in headers:
        if not _VALUE.fullmatch(value):
            # Without repeating it: it may be a secret.
            raise ValueError(f"the value of the header {name!r} contains a character that cannot be sent")
        fields.append((_checked_name(name), value.encode("latin-1")))
    return fields


@lru_cache(maxsize=512)
def _checked_name(name: str) -> bytes:
    key = name.lower()
    if not _NAME.fullmatch(name):
        raise ValueError(f"not a header name: {name!r}")
    if key in _OWN_FIELDS:
        raise ValueError(f"the header {name!r} has no place in HTTP/2 or is written by the client itself")
    return key.encode("ascii")
