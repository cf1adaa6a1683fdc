"""Compressed storage for bytes that a run must keep while it waits, but rarely needs."""

import zlib

MIN_COMPRESSED = 2048
"""Data with fewer bytes than this is not compressed."""
_FASTEST = 1


class CompressedBytes:
    """Bytes that can be compressed in memory: `pack` compresses them, `read` decompresses them."""

    __slots__ = ("_data", "_is_packed")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._is_packed = False

    def pack(self) -> None:
        """Compress the bytes, unless they are shorter than `MIN_COMPRESSED`."""
        if not self._is_packed and len(self._data) >= MIN_COMPRESSED:
            self._data = zlib.compress(self._data, _FASTEST)
            self._is_packed = True

    def read(self) -> bytes:
        """Return the original bytes. They stay uncompressed until the next `pack`."""
        if self._is_packed:
            self._data = zlib.decompress(self._data)
            self._is_packed = False
        return self._data

    @property
    def size(self) -> int:
        """The current size in memory in bytes: the compressed size after `pack`, the original size after `read`."""
        return len(self._data)
