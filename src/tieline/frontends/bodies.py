"""Limit the number of JSON values in a request body.

Decoding JSON blocks the event loop, and a thread would not help because the decoder holds the GIL. The cost depends far
more on the number of values than on the number of bytes. So the values are counted before the body is decoded, which is
much cheaper than decoding.
"""

import asyncio
from collections.abc import Iterator, Sequence

from tieline.model.errors import GatewayError

MAX_VALUES = 100_000
"""Maximum number of JSON values in one body. The longest conversations with coding agents have about 10,000."""
COUNT_ABOVE = 128 * 1024
"""Size in bytes above which values are counted. A smaller body has fewer than MAX_VALUES, at two bytes each."""
SCAN_SIZE = 256 * 1024
"""Number of bytes to scan before giving other tasks a chance to run."""

VALUE_MARKS = b"{[,"
"""Each JSON value except the outermost one, with its name if it has one, follows one of these characters."""
MEMBER_MARKS = b":"
"""Each member of a JSON object contains a colon. Counting colons is enough if arrays are passed on undecoded."""


async def check_values(body: Sequence[bytes], counted: bytes = VALUE_MARKS) -> None:
    """Raise GatewayError if a JSON body, given in chunks, has more than MAX_VALUES of the `counted` characters.

    Characters inside strings do not count. They are included in a fast first count. If that exceeds the limit, an exact
    second count follows, which takes several times as long.
    """
    scan = StructureScan()
    for outside in (bytes, scan.outside_strings):
        values = 0
        for piece in _pieces(body):
            values += occurrences(outside(piece), counted)
            if values > MAX_VALUES:
                break
            await asyncio.sleep(0)
        else:
            return
    raise GatewayError(
        "too_large",
        f"The request has more than the {MAX_VALUES:,} JSON values this gateway accepts.",
        code="too_many_values",
    )


def _pieces(chunks: Sequence[bytes]) -> Iterator[bytes]:
    """Split or join chunks so that each piece has about SCAN_SIZE bytes."""
    pending: list[bytes] = []
    size = 0
    for chunk in chunks:
        for start in range(0, len(chunk), SCAN_SIZE):
            pending.append(chunk[start : start + SCAN_SIZE])
            size += len(pending[-1])
            if size >= SCAN_SIZE:
                yield b"".join(pending)
                pending, size = [], 0
    yield b"".join(pending)


def occurrences(text: bytes, counted: bytes) -> int:
    """Return the total number of occurrences of the `counted` characters in a text."""
    return len(text) - len(text.translate(None, counted))


class StructureScan:
    """Removes the strings from JSON text that arrives in pieces."""

    __slots__ = ("_is_in_string", "_rest")

    def __init__(self) -> None:
        self._is_in_string = False
        self._rest = b""

    def outside_strings(self, piece: bytes) -> bytes:
        """Return the next piece without its strings."""
        piece = self._rest + piece if self._rest else piece
        self._rest = b""
        if piece.endswith(b"\\") and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece, self._rest = piece[:-1], b"\\"  # it escapes the first character of the next piece
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece
        segments = plain.split(b'"')
        outside = segments[self._is_in_string :: 2]
        self._is_in_string ^= len(segments) % 2 == 0
        return b"".join(outside)
