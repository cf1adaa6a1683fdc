"""The blobs a run keeps for the service: history that the run request names by id, and state the service stores.

The service asks for what it needs and goes on only when it was answered; a blob that is missing ends the run.
"""

from collections.abc import ItemsView, Mapping
from hashlib import sha256

ID_BYTES = 32
LIMIT_EACH = 32 << 20
LIMIT_TOTAL = 128 << 20

_KEEPING = 128
"""What it takes to keep a blob beside its bytes: a flood of empty ones is a flood too."""


def blob_id(data: bytes) -> bytes:
    """The id of a blob: its SHA-256."""
    return sha256(data).digest()


class Blobs:
    """Blobs by id. What the service stores is capped; what a run begins with is there in any case."""

    def __init__(
        self,
        initial: Mapping[bytes, bytes] | None = None,
        *,
        limit_each: int = LIMIT_EACH,
        limit_total: int = LIMIT_TOTAL,
    ) -> None:
        self._blobs = dict(initial or {})
        self._size = sum(_cost(key, data) for key, data in self._blobs.items())
        self._limit_each = limit_each
        self._limit_total = limit_total

    @property
    def size(self) -> int:
        """How many bytes the blobs take."""
        return self._size

    def get(self, blob_id: bytes) -> bytes | None:
        """What is kept under an id, or None.

        At times the service names a small blob by its content instead of its hash: such an id is its own data.
        """
        data = self._blobs.get(blob_id)
        if data is None and blob_id and len(blob_id) != ID_BYTES:
            return blob_id
        return data

    def set(self, blob_id: bytes, data: bytes) -> str | None:
        """Keep a blob; gives the reason if there is no room for it. The id is not checked, as no client does."""
        if len(data) > self._limit_each:
            return f"a blob of {len(data)} bytes is larger than the {self._limit_each} that are allowed"
        before = self._blobs.get(blob_id)
        size = self._size + _cost(blob_id, data) - (0 if before is None else _cost(blob_id, before))
        if size > self._limit_total:
            return f"the blobs of this run would take {size} bytes, more than the {self._limit_total} that are allowed"
        self._blobs[blob_id] = data
        self._size = size
        return None

    def items(self) -> ItemsView[bytes, bytes]:
        """Every blob with its id."""
        return self._blobs.items()


def _cost(blob_id: bytes, data: bytes) -> int:
    return len(blob_id) + len(data) + _KEEPING
