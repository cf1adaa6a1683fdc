"""Limits on the bodies of requests: how much is held at once, and how many JSON values one may have.

Reading JSON blocks the event loop, and a thread would not help: the decoder holds the interpreter's lock. What it costs
depends on the number of values far more than on bytes, so values are counted while a body arrives, at a fraction of
the cost of reading them.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

from tieline.model.errors import GatewayError

MIB = 1024 * 1024
MAX_HELD = 256 * MIB
"""Bytes of all requests that are being received or answered."""
MUCH = 32 * MIB
"""Bytes at once after which memory is given back to the system."""
RETRY_AFTER = 5.0
MAX_VALUES = 100_000
"""JSON values of one body. The longest conversations of coding agents have some ten thousand."""
UNCOUNTED = 128 * 1024
"""A body of so many bytes cannot have too many values."""
PIECE = 256 * 1024
"""Bytes that are counted before other requests have their turn."""

VALUES = b"{[,"
"""Each value of JSON text but the first follows one of these."""
MEMBERS = b":"
"""One in each member of an object: enough to count where arrays are passed on without being read."""


class HeldBodies:
    """The bytes of all bodies in memory."""

    __slots__ = ("_limit", "_most", "_trim", "held")

    def __init__(self, limit: int = MAX_HELD, trim: Callable[[], object] | None = None) -> None:
        self._limit = limit
        self._trim = trim
        self._most = 0
        self.held = 0

    def hold(self, size: int) -> None:
        """Count more bytes; raise GatewayError if there are more than fit."""
        self.held = held = self.held + size
        if held > self._most:
            self._most = held
        if held > self._limit:
            raise GatewayError(
                "overloaded",
                f"The requests under way hold more than {self._limit // MIB} MiB together; ask again in a moment.",
                retry_after=RETRY_AFTER,
            )

    def release(self, size: int) -> None:
        """Some bytes are not held any more; after a lot of them, the allocator gives back what it keeps."""
        self.held -= size
        if self.held == 0 and self._most > MUCH:
            self._most = 0
            if self._trim is not None:
                self._trim()


async def check_values(body: Sequence[bytes], counted: bytes = VALUES) -> None:
    """Raise GatewayError if a JSON body, in chunks, has more than MAX_VALUES of the `counted` characters.

    An upper bound is enough for most bodies. The exact count, without what strings contain, takes several times as
    long.
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
        f"The request has more than the {MAX_VALUES:,} JSON values this gateway takes.",
        code="too_many_values",
    )


def _pieces(chunks: Sequence[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of a similar size."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE):
            waiting.append(chunk[start : start + PIECE])
            size += len(waiting[-1])
            if size >= PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
    yield b"".join(waiting)


def occurrences(text: bytes, counted: bytes) -> int:
    """Count how often any of the `counted` characters occurs in a text."""
    return sum(map(text.count, (counted[at : at + 1] for at in range(len(counted)))))


class StructureScan:
    """Finds what stands outside the strings of JSON text that comes in pieces."""

    __slots__ = ("_is_in_string", "_rest")

    def __init__(self) -> None:
        self._is_in_string = False
        self._rest = b""

    def outside_strings(self, piece: bytes) -> bytes:
        """Return the next piece without its strings."""
        piece = self._rest + piece if self._rest else piece
        self._rest = b""
        if piece.endswith(b"\\") and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece, self._rest = piece[:-1], b"\\"  # it belongs to the next character
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece
        segments = plain.split(b'"')
        outside = segments[self._is_in_string :: 2]
        self._is_in_string ^= len(segments) % 2 == 0
        return b"".join(outside)
