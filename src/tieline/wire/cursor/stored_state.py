"""Data that a run stores for the service: blobs and the last checkpoint.

A blob is either a piece of history that the run request refers to by id, or state that the service asked the run to
store. When the service needs a blob, it sends a request and waits for the reply. A missing blob ends the run.
"""

from collections.abc import ItemsView, Iterator, Mapping
from hashlib import sha256

from tieline.wire.cursor._pb import kv_pb2 as kv
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor._pb.conversation_pb2 import ConversationStateStructure
from tieline.wire.cursor.compressed import MIN_COMPRESSED, CompressedBytes

ID_BYTES = 32
LIMIT_EACH = 32 << 20
LIMIT_TOTAL = 128 << 20

_OVERHEAD = 128
"""The estimated number of bytes that a blob takes besides its id and data.

It makes even empty blobs count towards the total limit.
"""


def blob_id(data: bytes) -> bytes:
    """Return the id of a blob: the SHA-256 hash of its data."""
    return sha256(data).digest()


class Blobs:
    """The blobs of one run, by id.

    The limits are checked when the service stores a blob. The initial blobs are always accepted, but count towards the
    total.
    """

    def __init__(
        self,
        initial: Mapping[bytes, bytes] | None = None,
        *,
        limit_each: int = LIMIT_EACH,
        limit_total: int = LIMIT_TOTAL,
    ) -> None:
        self._blobs = dict(initial or {})
        self._bundles: list[_Bundle] = []
        """The compressed blobs. They are not in `_blobs`."""
        self._size = sum(_cost(key, len(data)) for key, data in self._blobs.items())
        self._limit_each = limit_each
        self._limit_total = limit_total

    @property
    def size(self) -> int:
        """The number of bytes of memory that all blobs take when uncompressed, including ids and overhead."""
        return self._size

    def get(self, blob_id: bytes) -> bytes | None:
        """Return the blob with this id, or None.

        The service sometimes uses the content of a small blob as its id, instead of the hash. In this case, the id
        itself is returned.
        """
        data = self._found(blob_id)
        if data is None and blob_id and len(blob_id) != ID_BYTES:
            return blob_id
        return data

    def set(self, blob_id: bytes, data: bytes) -> str | None:
        """Store a blob and return None. If it exceeds a limit, return an error message instead.

        As in Cursor's client, the id is not compared with the hash of the data.
        """
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
        """Compress the blobs in memory. They are decompressed when they are needed again."""
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


def blob_reply(query_id: int, data: bytes | None) -> AgentClientMessage:
    """Return the reply to a request for a blob. `data` is None if the blob is missing, and b"" if the blob is empty."""
    reply = kv.KvClientMessage(id=query_id, get_blob_result=kv.GetBlobResult(blob_data=data))
    return AgentClientMessage(kv_client_message=reply)


def stored_reply(query_id: int, problem: str | None) -> AgentClientMessage:
    """Return the reply to a request to store a blob. `problem` is an error message, or None if the blob was stored."""
    result = kv.SetBlobResult(error=kv.Error(message=problem)) if problem else kv.SetBlobResult()
    return AgentClientMessage(kv_client_message=kv.KvClientMessage(id=query_id, set_blob_result=result))


class LastCheckpoint:
    """The last checkpoint that the service sent, and whether it is usable.

    A checkpoint is usable if it includes every tool call that the run has made, with its result. Continuing from any
    other checkpoint would repeat a call.
    """

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.is_usable = False
        self._may_miss_a_result = False
        """Whether the client has answered a call whose result the checkpoint may not include yet."""

    def inherit(self, before: "LastCheckpoint") -> None:
        """Start with the checkpoint of `before`, the previous attempt at the same turn."""
        self.data = before.data
        self.is_usable = before.is_usable

    def call_made(self) -> None:
        """Mark the checkpoint as unusable, because a tool call was made after it."""
        self.is_usable = False

    def call_answered(self) -> None:
        """Record that the client answered a tool call.

        A checkpoint that still lists pending calls may have been taken before the result arrived. Therefore,
        checkpoints are unusable until the service sends one that lists no pending calls.
        """
        self._may_miss_a_result = True

    def update(self, state: ConversationStateStructure, *, has_open_calls: bool) -> None:
        """Replace the checkpoint with `state`, including fields that are missing from Tieline's schema.

        `has_open_calls` says whether tool calls are still waiting for the client.
        """
        self.data = state.SerializeToString()
        if not state.pending_tool_calls:
            self._may_miss_a_result = False
        self.is_usable = not (has_open_calls or self._may_miss_a_result)
