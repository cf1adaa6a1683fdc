"""The blobs that a run keeps for the service: history that the run request refers to by id, and state of the service.

The service requests blobs as it needs them, and waits for each. A missing blob ends the run.
"""

from collections.abc import ItemsView, Iterator, Mapping
from hashlib import sha256

from tieline.wire.cursor.compressed import MIN_COMPRESSED, CompressedBytes

ID_BYTES = 32
LIMIT_EACH = 32 << 20
LIMIT_TOTAL = 128 << 20

_OVERHEAD = 128
"""The memory that a blob takes besides its bytes, so that many empty blobs count too."""


def blob_id(data: bytes) -> bytes:
    """Return the id of a blob: its SHA-256."""
    return sha256(data).digest()


class Blobs:
    """Blobs by id. The limits apply to what the service stores, not to the blobs that a run begins with."""

    def __init__(
        self,
        initial: Mapping[bytes, bytes] | None = None,
        *,
        limit_each: int = LIMIT_EACH,
        limit_total: int = LIMIT_TOTAL,
    ) -> None:
        self._blobs = dict(initial or {})
        self._bundles: list[_Bundle] = []
        """Compressed blobs; no blob is both here and in `_blobs`."""
        self._size = sum(_cost(key, len(data)) for key, data in self._blobs.items())
        self._limit_each = limit_each
        self._limit_total = limit_total

    @property
    def size(self) -> int:
        """The number of bytes of all blobs, uncompressed."""
        return self._size

    def get(self, blob_id: bytes) -> bytes | None:
        """Return the blob with this id, or None.

        The service sometimes refers to a small blob by its content instead of its hash: such an id is its own data.
        """
        data = self._found(blob_id)
        if data is None and blob_id and len(blob_id) != ID_BYTES:
            return blob_id
        return data

    def set(self, blob_id: bytes, data: bytes) -> str | None:
        """Keep a blob, or return the reason if it is too large. Like Cursor's client, this does not verify the id."""
        if len(data) > self._limit_each:
            return f"a blob of {len(data)} bytes exceeds the limit of {self._limit_each} bytes"
        before = self._found(blob_id)
        size = self._size + _cost(blob_id, len(data)) - (0 if before is None else _cost(blob_id, len(before)))
        if size > self._limit_total:
            return f"the blobs of this run would take {size} bytes, the limit is {self._limit_total} bytes"
        self._blobs[blob_id] = data
        self._size = size
        return None

    def items(self) -> ItemsView[bytes, bytes]:
        """Return all blobs with their ids."""
        while self._bundles:
            self._blobs.update(self._bundles.pop().opened())
        return self._blobs.items()

    def pack(self) -> None:
        """Compress the blobs, which are not expected to be needed soon."""
        if sum(map(len, self._blobs.values())) >= MIN_COMPRESSED:
            self._bundles.append(_Bundle(self._blobs))
            self._blobs = {}

    def _found(self, blob_id: bytes) -> bytes | None:
        data = self._blobs.get(blob_id)
        if data is None:
            for bundle in self._bundles:
                if blob_id in bundle.sizes:
                    self._bundles.remove(bundle)
                    self._blobs.update(bundle.opened())
                    return self._blobs[blob_id]
        return data


class _Bundle:
    """Several blobs, compressed together."""

    __slots__ = ("_data", "sizes")

    def __init__(self, blobs: Mapping[bytes, bytes]) -> None:
        self.sizes = {blob_id: len(data) for blob_id, data in blobs.items()}
        self._data = CompressedBytes(b"".join(blobs.values()))
        self._data.pack()

    def opened(self) -> Iterator[tuple[bytes, bytes]]:
        data, start = self._data.read(), 0
        for blob_id, size in self.sizes.items():
            yield blob_id, data[start : start + size]
            start += size


def _cost(blob_id: bytes, size: int) -> int:
    return len(blob_id) + size + _OVERHEAD
