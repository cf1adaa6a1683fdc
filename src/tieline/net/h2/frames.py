"""Parses received DATA and GOAWAY frames, and builds WINDOW_UPDATE frames, in place of h2.

h2 manages the state of a connection, its header compression and its settings. But it takes about ten times as long as
this module to parse a DATA frame, and after a GOAWAY it rejects all data, even for streams that the peer will still
complete. Therefore these frames bypass h2.
"""

import re
from struct import Struct
from typing import Final

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

DATA: Final = 0x0
HEADERS: Final = 0x1
SETTINGS: Final = 0x4
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8

HEAD = Struct(">HBBBL")
"""The head of a frame: length (upper 16 and lower 8 bits), type, flags, stream number."""
HEAD_SIZE: Final = HEAD.size
NUMBER_MASK: Final = 0x7FFFFFFF

MAX_FRAME: Final = 16384
"""The default maximum frame size in bytes, which the gateway's settings do not change."""

_WINDOW_UPDATE = Struct(">HBBBLL")
STATUS_LINE_SIZE: Final = len("HTTP/1.1 200")
_STATUS_LINE = re.compile(rb"HTTP/(\d(?:\.\d)?) (\d{3})")


def window_update(number: int, size: int) -> bytes:
    """Build a WINDOW_UPDATE frame that adds `size` bytes to the window of a stream, or of the connection (number 0)."""
    return _WINDOW_UPDATE.pack(0, 4, WINDOW_UPDATE, 0, number, size)


def last_trailers(number: int) -> bytes:
    """Build an empty trailers frame. It tells h2 that a body has ended, although h2 has not seen its DATA frames.

    An empty DATA frame would not work: h2 would compare the received length with `content-length`.
    """
    return HEAD.pack(0, 0, HEADERS, END_STREAM | END_HEADERS, number)


def unpadded(payload: bytes) -> bytes:
    """Return the data of a padded DATA frame. Raise ProtocolError if the padding is too long."""
    if not payload or payload[0] >= len(payload):
        raise ProtocolError("a DATA frame has more padding than bytes")
    return payload[1 : len(payload) - payload[0]]


def read_goaway(payload: bytes) -> tuple[int, int, str]:
    """Parse a GOAWAY frame. Return the number of the last stream to be processed, the error code and a description."""
    if len(payload) < 8:
        raise ProtocolError("a GOAWAY frame is too short")
    code = int.from_bytes(payload[4:8], "big")
    debug_data = payload[8:208].decode("ascii", "replace")
    description = error_name(code) + (f": {debug_data}" if debug_data and debug_data.isprintable() else "")
    return int.from_bytes(payload[:4], "big") & NUMBER_MASK, code, description


def error_name(code: int) -> str:
    """Return the name of an HTTP/2 error code, for use in messages."""
    try:
        return ErrorCodes(code).name.lower().replace("_", " ").replace("http 1 1", "HTTP/1.1")
    except ValueError:
        return f"unknown error {code}"


def check_preface(data: bytes) -> str | None:
    """Check the first bytes from a peer, which must begin a SETTINGS frame.

    Return a description of the error, an empty string if they are valid, or None if there are too few bytes to decide.
    """
    if data.startswith(b"HTTP/"):
        if line := _STATUS_LINE.match(data):
            return f"responded with HTTP/{line[1].decode()} (status {line[2].decode()}) instead of HTTP/2"
        return None if len(data) < STATUS_LINE_SIZE else "did not respond with HTTP/2"
    if len(data) < HEAD_SIZE:
        return None
    high, low, kind, flags, number = HEAD.unpack_from(data)
    is_settings = kind == SETTINGS and not (number or flags & ACK) and (high << 8 | low) <= MAX_FRAME
    return "" if is_settings else "did not respond with HTTP/2"
