"""Heads of requests: where they go, and those that a server must not take.

llhttp is strict by default: it refuses bare line ends, folded headers, doubled or odd lengths, a length beside chunks.
What it lets through and two readers could understand in two ways is refused here.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools

Fields = list[tuple[bytes, bytes]]

SHORT = 256
"""Bytes of a target that is worth remembering."""
MAX_KNOWN = 4096
"""Bytes of a head that is worth remembering."""
MAX_KNOWN_HEADS = 64
"""Heads that are remembered at once: a client has one or two."""
MAX_DIGITS = 15
"""Digits of a length that are read without the parser."""

_LENGTHS = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")


class Refused(Exception):
    """A request that no application sees; the text is what the client is told."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Target(NamedTuple):
    """Where a request goes."""

    path: str
    raw_path: bytes
    query: bytes


class Head:
    """The head of a request as it was understood; one that comes again and again is remembered, but for its length."""

    __slots__ = ("_after", "_before", "headers", "kept", "method", "size", "target", "version")

    def __init__(self, method: str, target: Target, version: str, headers: Fields) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self.kept: Any = None
        """What the application keeps with a head that it need not look at again."""
        self.size = 0
        """Bytes of the head but for the digits of the length, if it is remembered."""
        self._before = self._after = b""

    @property
    def path(self) -> str:
        """Where the request goes."""
        return self.target.path

    def remember(self, before: bytes, after: bytes) -> None:
        """This is to be found again by what stands before and behind the digits of the length."""
        self._before, self._after = before, after
        self.size = len(before) + len(after)

    def length_in(self, data: bytes) -> bytes | None:
        """The digits of the length, if these bytes begin with this head and any length."""
        before = self._before
        if data.startswith(before):
            start = len(before)
            stop = data.find(b"\r", start, start + MAX_DIGITS + 1)
            if data.startswith(self._after, stop) and (digits := data[start:stop]).isdigit():
                return digits
        return None

    def headers_with(self, digits: bytes) -> Fields:
        """The headers with this length in its place."""
        return [(name, digits if name == b"content-length" else value) for name, value in self.headers]


class KnownHeads:
    """The heads that came lately and say nothing unusual: what follows from one follows from it every time.

    A connection compares only with the last head of its own, so that no answer comes sooner for a good guess at what
    somebody else has sent.
    """

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[tuple[bytes, bytes], Head] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def learn(self, data: bytes, head: Head) -> Head | None:
        """The head that is to be remembered for one which the parser took from the beginning of these bytes, if any."""
        parts = _around_length(data, head)
        if parts is None:
            return None
        known = self._heads.get(parts)
        if known is None:
            if len(self._heads) >= MAX_KNOWN_HEADS:
                del self._heads[next(iter(self._heads))]
            self._heads[parts] = known = head
            head.remember(*parts)
        return known


def _around_length(data: bytes, head: Head) -> tuple[bytes, bytes] | None:
    """What stands before and behind the digits of the length, if the bytes of the head are beyond doubt."""
    end = data.find(b"\r\n\r\n", 0, MAX_KNOWN)
    lines = len(head.headers) + 1
    # Line ends before the first line, or any that only the parser takes for one: nothing is built on those.
    if end < 0 or not data.startswith(head.method.encode()) or data.count(b"\n", 0, end + 2) != lines:
        return None
    for name in _LENGTHS:
        at = data.find(name, 0, end)
        if at >= 0:
            start = at + len(name)
            stop = data.find(b"\r", start, end + 1)
            return (data[:start], data[stop : end + 4]) if data[start:stop].isdigit() else None
    return None


def plain_target(url: bytes) -> Target | None:
    """A target that is a path with or without a query, which is what nearly all are."""
    return _known_target(url) if len(url) <= SHORT else _path_target(url)


def parse_target(url: bytes, headers: Fields) -> Target:
    """Any other target; if it names a host, that replaces the one in the headers."""
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        raise Refused(400, "The target of the request is not valid.") from None
    if parsed.host is not None:
        host = url.split(b"//", 1)[1].split(b"/", 1)[0].split(b"?", 1)[0].rsplit(b"@", 1)[-1]
        headers[:] = [(b"host", host), *(header for header in headers if header[0] != b"host")]
    return _target(parsed.path or b"/", parsed.query or b"")


def check_head(version: str, notable: Sequence[bytes], headers: Fields) -> None:
    """Raise Refused for a head that is not to be trusted, or asks for what we do not do.

    `notable` are the names of those headers that mean something to a connection.
    """
    if version not in {"1.1", "1.0"}:
        raise Refused(505, "This server speaks HTTP/1.1.")
    if version == "1.1" and notable.count(b"host") != 1:
        raise Refused(400, "A request must name its host once.")
    if b"transfer-encoding" in notable:
        if version == "1.0":
            raise Refused(400, "HTTP/1.0 has no Transfer-Encoding.")
        if notable.count(b"transfer-encoding") != 1:
            raise Refused(400, "A request must name its Transfer-Encoding once.")
        if dict(headers)[b"transfer-encoding"].strip().lower() != b"chunked":
            raise Refused(501, "The only Transfer-Encoding taken is `chunked`.")
    if b"expect" in notable and dict(headers)[b"expect"].strip().lower() != b"100-continue":
        raise Refused(417, "The only expectation met is `100-continue`.")


def weight(url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes of a head, however it was cut on its way."""
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def without_upgrade(method: str, url: bytes, version: str, headers: Fields) -> bytes:
    """The head of a request that would change the protocol, as one that would not.

    We go on as if nothing had been asked. The parser cannot: it takes what follows for another protocol, though it may
    well be a body.
    """
    if method == "CONNECT":
        raise Refused(405, "This server is not a proxy.")
    lines = [b"%b %b HTTP/%b" % (method.encode(), url, version.encode())]
    lines += (b": ".join(header) for header in headers if header[0] != b"upgrade")
    return b"\r\n".join([*lines, b"", b""])


def _path_target(url: bytes) -> Target | None:
    if not url.startswith(b"/") or b"#" in url:
        return None
    raw_path, _, query = url.partition(b"?")
    return _target(raw_path, query)


_known_target = lru_cache(maxsize=128)(_path_target)
"""Most clients ask for the same path again and again."""


def _target(raw_path: bytes, query: bytes) -> Target:
    path = raw_path.decode("ascii")
    return Target(unquote(path) if "%" in path else path, raw_path, query)
