"""An HTTP response: its head, its body as it arrives, and errors.

A response has two sides. The connection feeds it (`begin`, `chunks`, `finish`, `fail`), and one reader consumes it
(`take`, `chunk`, `read`, `close`). A single future is enough to synchronise them. Data is decompressed only when it is
read, in parts of bounded size, so that a decompression bomb cannot exhaust memory.
"""

import asyncio
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Phase = Literal["connect", "send", "first_byte", "body"]
Reason = Literal["refused", "dns", "tls", "timeout", "reset", "protocol", "too_large", "proxy", "busy"]
Fields = list[tuple[bytes, bytes]]

HIGH_WATER = 256 * 1024
"""If more than this many bytes wait for the reader, reading from the socket pauses."""

MAX_DECODED = 256 * 1024
"""Maximum number of bytes that a decoder returns per call."""

_NOTHING: Mapping[bytes, bytes] = {}


class PipeError(Exception):
    """A network operation failed. `phase` and `reason` classify the failure, `message` is meant for the user.

    `sent` says whether the upstream may have received any part of the request. If so, a retry may make the upstream
    process the request twice.
    """

    def __init__(self, phase: Phase, reason: Reason, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.phase: Phase = phase
        self.reason: Reason = reason
        self.message = message
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How many seconds each phase of a request may take.

    `first_byte` is the time until the head of the response is complete, `idle` the time without data inside a body, and
    `pool` the time to wait for a free connection.
    """

    connect: float = 10
    first_byte: float = 300
    idle: float = 120
    pool: float = 30


class ResponseSource(Protocol):
    """The connection that feeds a response."""

    where: str

    def expect(self, seconds: float) -> None: ...
    def resume(self) -> None: ...
    def abort(self) -> None: ...


class HttpResponse:
    """A response: its status and header fields, and its body as it arrives."""

    __slots__ = (
        "_decoder",
        "_ended",
        "_fields",
        "_first",
        "_is_plain",
        "_loop",
        "_source",
        "_waiter",
        "_where",
        "buffered",
        "chunks",
        "error",
        "idle",
        "status",
    )

    def __init__(
        self, source: ResponseSource, chunks: list[bytes], loop: asyncio.AbstractEventLoop, idle: float
    ) -> None:
        self.status = 0
        self.error: PipeError | None = None
        self.buffered = 0
        """How many bytes have arrived since the reader last took data."""
        self.chunks = chunks
        """The parts of the body that the reader has not taken yet. The connection appends new parts."""
        self._source: ResponseSource | None = source
        self._where = source.where
        self._loop = loop
        self.idle = idle
        self._fields: Sequence[tuple[bytes, bytes]] = ()
        self._first = _NOTHING
        self._is_plain = False
        self._decoder: _Inflate | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False

    # ── for the reader ──

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The header fields, with names in lower case. `content-encoding` is kept although the body is decoded."""
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._fields]

    def header(self, name: str) -> str | None:
        """Return the first value of a header field, or None. The name must be in lower case."""
        value = self._first.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def field(self, name: bytes) -> bytes:
        """Return the first value of a header field as bytes, or b"". The name must be in lower case."""
        return self._first.get(name, b"")

    def pick(self, names: Mapping[bytes, str]) -> tuple[tuple[str, str], ...]:
        """Return the header fields, renamed according to `names`. Fields whose name maps to "" are omitted.

        `names` must have a value for every field name.
        """
        return tuple([(named, value.decode("latin-1")) for name, value in self._fields if (named := names[name])])

    def take(self) -> bytes:
        """Return the data that has arrived since the last call, without waiting.

        b"" means that no data has arrived. The body may still continue.
        """
        if self._is_plain:
            return self._drain() if self.chunks else b""
        if self._decoder is None:
            if not self.chunks:
                return b""
            encoding = self.field(b"content-encoding").decode("latin-1").strip().lower() or "identity"
            if encoding == "identity":
                self._is_plain = True
                return self._drain()
            self._decoder = self._open_decoder(encoding)
        return self._take_decoded(self._decoder)

    async def chunk(self) -> bytes:
        """Wait for data and return all data that has arrived since the last call, or b"" at the end of the body."""
        while not (data := self.take()):
            if self._ended:
                self._check_end()
                return b""
            try:
                await self.news(self.idle)
            except asyncio.CancelledError:
                self.close()
                raise
        return data

    async def read(self, limit: int) -> bytes:
        """Return the whole body. If it exceeds `limit` bytes, drop the connection and raise PipeError (`too_large`)."""
        parts: list[bytes] = []
        size = 0
        while data := self.take() or await self.chunk():
            size += len(data)
            if size > limit:
                self.close()
                message = f"{self._where} sent a body of more than {limit} bytes"
                raise PipeError("body", "too_large", message, sent=True)
            parts.append(data)
            if self._ended and self._is_plain and self.error is None:
                # The body is complete and all of it was taken.
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Discard unread data, and abort the connection if the body has not arrived in full."""
        source = self._source
        if source is not None:
            source.abort()
        elif not self.chunks:
            return
        self.chunks.clear()
        self.fail(PipeError("body", "reset", f"the response of {self._where} was closed by its reader", sent=True))

    def release(self, grace: float = 1.0) -> None:
        """Stop reading. If the body ends within `grace` seconds, the connection is reused, otherwise it is aborted."""
        source, self._source = self._source, None
        if source is not None:
            self._loop.call_later(grace, self._abort_unless_ended, source)

    def news(self, seconds: float) -> asyncio.Future[None]:
        """Return a future that resolves when the response next changes.

        If that takes more than `seconds`, the response fails: the future resolves and `error` is set. A caller that is
        cancelled while awaiting the future must call `close`.
        """
        if self._waiter is not None:
            raise RuntimeError("a response has one reader at a time")
        if self._source is not None:
            self._source.expect(seconds)
        self._waiter = waiter = self._loop.create_future()
        return waiter

    # ── for the connection ──

    @property
    def is_awaited(self) -> bool:
        return self._waiter is not None

    @property
    def is_framed(self) -> bool:
        """Whether the head says where the body ends. If not, the body ends when the connection is closed."""
        return b"content-length" in self._first or b"transfer-encoding" in self._first

    def begin(self, status: int, fields: Fields, first: Mapping[bytes, bytes]) -> None:
        """Store the response head. `first` maps the name of each field to its first value, for lookups."""
        self.status = status
        self._fields = fields
        self._first = first
        self._is_plain = b"content-encoding" not in first
        if self._waiter is not None:
            self.wake()

    def finish(self) -> None:
        """Mark the body as complete. The connection may then serve another request."""
        self._ended = True
        self._source = None
        if self._waiter is not None:
            self.wake()

    def fail(self, error: PipeError) -> None:
        """Set an error. It is raised in the reader once the reader has taken the data that arrived before the error."""
        self.error = error
        self.finish()

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _abort_unless_ended(self, source: ResponseSource) -> None:
        if not self._ended:
            source.abort()

    # ── decoding ──

    def _drain(self) -> bytes:
        chunks = self.chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        if self.buffered > HIGH_WATER and self._source is not None:
            self._source.resume()
        self.buffered = 0
        return data

    def _open_decoder(self, encoding: str) -> "_Inflate":
        if encoding not in _Inflate.ENCODINGS:
            complaint = f"sent a body in the encoding {encoding[:40]!r}, which was not requested and is not supported"
            raise self._protocol_error(complaint)
        return _Inflate(encoding)

    def _take_decoded(self, decoder: "_Inflate") -> bytes:
        while True:
            if not decoder.needs_input:
                more = b""
            elif self.chunks:
                more = self._drain()
            else:
                return b""
            try:
                data = decoder.decode(more)
            except zlib.error:
                raise self._protocol_error(f"sent a broken {decoder.encoding} body") from None
            if data:
                return data

    def _check_end(self) -> None:
        if self.error is not None:
            raise self.error
        if self._decoder is not None and not self._decoder.is_complete:
            raise self._protocol_error(f"sent an incomplete {self._decoder.encoding} body")

    def _protocol_error(self, complaint: str) -> PipeError:
        self.close()
        self.error = PipeError("body", "protocol", f"{self._where} {complaint}", sent=True)
        self._ended = True
        return self.error


class _Inflate:
    """Decompresses gzip or deflate in parts of bounded size."""

    ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))

    __slots__ = ("_inflate", "_tail", "encoding", "needs_input")

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self.needs_input = True
        self._tail = b""
        # A "deflate" body has one of two formats; `decode` tells them apart by the first byte.
        self._inflate = None if encoding == "deflate" else zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def is_complete(self) -> bool:
        return self._inflate is not None and self._inflate.eof

    def decode(self, data: bytes) -> bytes:
        """Return up to `MAX_DECODED` bytes of decoded data. While `needs_input` is False, call again with b""."""
        inflate = self._inflate
        if inflate is None:
            # The standard requires the zlib format (low nibble of the first byte is 8); some servers send raw deflate.
            inflate = self._inflate = zlib.decompressobj(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        out = inflate.decompress(self._tail + data, MAX_DECODED)
        self._tail = inflate.unconsumed_tail
        if inflate.unused_data or (inflate.eof and self._tail):
            if self.encoding == "deflate":
                raise zlib.error("data after the end")
            # A gzip body may consist of several members, followed by zero padding.
            self._tail = (inflate.unused_data + self._tail).lstrip(b"\0")
            if self._tail:
                self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
                self.needs_input = False
            return out
        # After a full part the decompressor may hold more output even though all input is consumed.
        self.needs_input = len(out) < MAX_DECODED
        return out
