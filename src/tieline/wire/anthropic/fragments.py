"""Pieces of a request's JSON, remembered by the objects they were written from.

A client tells its whole conversation again with every request, and what was told before comes as the very same
immutable messages and tools: what was written from them is still right. A piece is kept together with its source, so
that no other object can get the source's identity while the piece is known.
"""

from collections.abc import Hashable, Sequence

from msgspec import Struct

from tieline.model.events import Note
from tieline.wire.shared.schemas import SchemaFitter

MAX_BYTES = 32 << 20
"""The long histories of some dozen agents; the messages that are held with them weigh about as much again."""
MAX_PIECES = 16384
"""A conversation of small messages costs more by their number than by their bytes."""
MAX_PIECE = 4 << 20
"""One piece must not push out all others: a picture that is larger is written anew."""


class Piece(Struct):
    """JSON text, and what the rest of the request has to know of it."""

    source: object
    text: bytes
    mark_at: int = 0
    """Where a cache mark goes, counted from the end of the text; 0 if nothing in it can carry one."""
    marks: int = 0
    """How many cache marks of the client are in it."""
    notes: tuple[Note, ...] = ()
    context: tuple[object, ...] | None = None
    """What the text depends on beside its source, if anything."""
    marked: tuple[bytes, ...] | None = None
    """The text with a cache mark, once it was asked for."""


class Memory:
    """Pieces by the identities of what they were written from; those not used for the longest time go.

    There are two generations: a piece that is used moves to the younger one, and when that has half of what is
    allowed, the older one is forgotten as a whole. So a hit costs one look, and a piece that is never used again goes
    without ever being looked at.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, max_pieces: int = MAX_PIECES) -> None:
        self.schemas = SchemaFitter("anthropic")
        self._max_bytes = max_bytes // 2
        self._max_pieces = max_pieces // 2
        self._max_piece = min(MAX_PIECE, self._max_bytes)
        self._young: dict[Hashable, Piece] = {}
        self._old: dict[Hashable, Piece] = {}
        self._bytes = 0

    def find(self, keys: Sequence[Hashable]) -> list[Piece | None]:
        """What is known under each of the keys."""
        found = [*map(self._young.get, keys)]
        if self._old and not all(found):
            for at, piece in enumerate(found):
                if piece is None and (older := self._old.pop(keys[at], None)) is not None:
                    found[at] = older
                    self.keep(keys[at], older)
        return found

    def get(self, key: Hashable) -> Piece | None:
        """What is known under one key."""
        return self._young.get(key) or self.find((key,))[0]

    def keep(self, key: Hashable, piece: Piece) -> None:
        """Remember a piece under the identity of its source."""
        if len(piece.text) > self._max_piece:
            return
        if self._bytes + len(piece.text) > self._max_bytes or len(self._young) >= self._max_pieces:
            self._old, self._young, self._bytes = self._young, {}, 0
        before = self._young.get(key)
        self._young[key] = piece
        self._bytes += len(piece.text) - (len(before.text) if before else 0)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
