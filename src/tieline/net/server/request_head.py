"""Parses request targets, and refuses request heads that are ambiguous or unsupported.

llhttp is strict by default: it refuses bare line endings, folded headers, duplicate or malformed lengths, and a length
together with chunked encoding. This module also refuses heads that llhttp accepts but that two HTTP implementations
could interpret differently (request smuggling).
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import unquote

import httptools

WEBSOCKET_VERSION = b"13"

Fields = list[tuple[bytes, bytes]]
Target = tuple[str, bytes, bytes]
"""The target of a request: the percent-decoded path, then the path and the query as the client sent them."""


class RefusedRequest(Exception):
    """The server refuses a request with this status and reason, and closes the connection."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def parse_target(url: bytes, headers: Fields) -> Target:
    """Parse a request target. If it is a whole URL, its host replaces the Host header in `headers`.

    Raise RefusedRequest if the target is invalid.
    """
    if url.startswith(b"/") and b"#" not in url:
        raw_path, _, query = url.partition(b"?")
    else:
        raw_path, query = _parse_url(url, headers)
    path = raw_path.decode("ascii")
    return unquote(path) if "%" in path else path, raw_path, query


def _parse_url(url: bytes, headers: Fields) -> tuple[bytes, bytes]:
    try:
        parsed = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        raise RefusedRequest(400, "The target of the request is not valid.") from None
    if parsed.host is not None:
        host = url.split(b"//", 1)[1].split(b"/", 1)[0].split(b"?", 1)[0].rsplit(b"@", 1)[-1]
        headers[:] = [(b"host", host), *(header for header in headers if header[0] != b"host")]
    return parsed.path or b"/", parsed.query or b""


def check_head(version: str, headers: Fields) -> Mapping[bytes, bytes]:
    """Return the headers by name. Raise RefusedRequest for a head that is ambiguous or asks for something unsupported.

    If a header occurs more than once, only its last value is returned.
    """
    named = dict(headers)
    repeated = () if len(named) == len(headers) else _repeated(headers)
    if version == "1.1":
        if b"host" not in named or b"host" in repeated:
            raise RefusedRequest(400, "A request must have exactly one Host header.")
    elif version != "1.0":
        raise RefusedRequest(505, "This server speaks HTTP/1.1.")
    if b"transfer-encoding" in named:
        if version == "1.0":
            raise RefusedRequest(400, "HTTP/1.0 has no Transfer-Encoding.")
        if b"transfer-encoding" in repeated:
            raise RefusedRequest(400, "A request must not have more than one Transfer-Encoding header.")
        if named[b"transfer-encoding"].strip().lower() != b"chunked":
            raise RefusedRequest(501, "The only supported Transfer-Encoding is `chunked`.")
    if b"expect" in named and named[b"expect"].strip().lower() != b"100-continue":
        raise RefusedRequest(417, "The only supported expectation is `100-continue`.")
    return named


def _repeated(headers: Fields) -> Collection[bytes]:
    """Return the names of the headers that occur more than once."""
    counts = Counter(name for name, _ in headers)
    return [name for name, count in counts.items() if count > 1]


def head_size(url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the approximate size of a head in bytes."""
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


def without_upgrade(method: str, url: bytes, version: str, headers: Fields) -> bytes:
    """Return the head of an upgrade request as bytes, without its Upgrade header, so that it can be parsed again.

    The application may accept a WebSocket. All other upgrades are ignored, as HTTP allows. The parser has no option to
    ignore them: it stops after the head of an upgrade request, although a body may follow. Raise RefusedRequest for
    CONNECT, which the parser treats as an upgrade.
    """
    if method == "CONNECT":
        raise RefusedRequest(405, "This server is not a proxy.")
    lines = [b"%b %b HTTP/%b" % (method.encode(), url, version.encode())]
    lines += (b": ".join(header) for header in headers if header[0] != b"upgrade")
    return b"\r\n".join([*lines, b"", b""])


def is_handshake(method: str, version: str, headers: Fields) -> bool:
    """Return whether an upgrade request asks for a WebSocket. Such a request has no body."""
    if method != "GET" or version != "1.1":
        return False
    protocols = b",".join(value for name, value in headers if name == b"upgrade")
    names = {name for name, _ in headers}
    return (
        b"websocket" in (protocol.strip() for protocol in protocols.lower().split(b","))
        and b"content-length" not in names
        and b"transfer-encoding" not in names
    )


def handshake_refusal(headers: Fields) -> tuple[int, str] | None:
    """Return the status and the reason for refusing a WebSocket handshake, or None if its headers are acceptable."""
    versions = [value for name, value in headers if name == b"sec-websocket-version"]
    if versions != [WEBSOCKET_VERSION]:
        return 426, "The only supported WebSocket version is 13 (`Sec-WebSocket-Version: 13`)."
    keys = [value for name, value in headers if name == b"sec-websocket-key"]
    if len(keys) != 1 or not _is_key(keys[0]):
        return 400, "A WebSocket handshake must have one `Sec-WebSocket-Key` header: 16 bytes in base64."
    return None


def _is_key(value: bytes) -> bool:
    try:
        return len(b64decode(value, validate=True)) == 16
    except ValueError:
        return False
