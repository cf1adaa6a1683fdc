"""Bytes that a run has to keep for as long as it waits, though it will hardly need them: kept small meanwhile."""

import zlib

MIN_COMPRESSED = 2048
"""Fewer bytes than this stay as they are."""
_FASTEST = 1


class CompressedBytes:
    """Some bytes, compressed from `pack` on until somebody reads them again."""

    __slots__ = ("_data", "_is_packed")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._is_packed = False

    def pack(self) -> None:
        """Nobody will look at them for a while."""
        if not self._is_packed and len(self._data) >= MIN_COMPRESSED:
            self._data = zlib.compress(self._data, _FASTEST)
            self._is_packed = True

    def read(self) -> bytes:
        """The bytes, which stay as they are until they are packed again."""
        if self._is_packed:
            self._data = zlib.decompress(self._data)
            self._is_packed = False
        return self._data

    @property
    def size(self) -> int:
        """How many bytes it takes now."""
        return len(self._data)
