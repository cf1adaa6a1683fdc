"""Bytes that a waiting run has to keep, but will hardly need: compressed in the meantime."""

import zlib

MIN_COMPRESSED = 2048
"""Shorter data is not compressed."""
_FASTEST = 1


class CompressedBytes:
    """Bytes that `pack` compresses until the next `read`."""

    __slots__ = ("_data", "_is_packed")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._is_packed = False

    def pack(self) -> None:
        """Compress the bytes."""
        if not self._is_packed and len(self._data) >= MIN_COMPRESSED:
            self._data = zlib.compress(self._data, _FASTEST)
            self._is_packed = True

    def read(self) -> bytes:
        """Return the bytes, which stay uncompressed until the next `pack`."""
        if self._is_packed:
            self._data = zlib.decompress(self._data)
            self._is_packed = False
        return self._data

    @property
    def size(self) -> int:
        """The number of bytes in memory now."""
        return len(self._data)
