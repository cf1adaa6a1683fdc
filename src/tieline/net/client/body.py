"""The response of an HTTP exchange as its reader sees it: head, body in pieces, and how either can fail.

A response has two sides. The connection feeds it (`begin`, `chunks`, `finish`, `fail`); its reader takes from it
(`take`, `chunk`, `read`, `close`). There is one reader, so one future is all the synchronisation there is. What arrives
is kept as it came and decoded only when it is taken: a compressed bomb unfolds at the pace of its reader, piece by
piece.
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
"""Reading pauses when more than this waits for the reader."""

PIECE = 256 * 1024
"""The most a decoder puts out at once."""

_NOTHING: Mapping[bytes, bytes] = {}


class PipeError(Exception):
    """A pipe did not carry: `phase` says when, `reason` what kind, `message` how to tell a person.

    `sent` says whether any byte of the request may have reached the upstream; if so, a retry may happen twice there.
    """

    def __init__(self, phase: Phase, reason: Reason, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.phase: Phase = phase
        self.reason: Reason = reason
        self.message = message
        self.sent = sent


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How many seconds each phase may take: `first_byte` is for the whole head, `idle` for silence inside a body."""

    connect: float = 10
    first_byte: float = 300
    idle: float = 120
    pool: float = 30


class Source(Protocol):
    """What a response needs of the connection that feeds it."""

    where: str

    def expect(self, seconds: float) -> None: ...
    def resume(self) -> None: ...
    def abort(self) -> None: ...


class HttpResponse:
    """One answer: its status and header fields, and its body as it arrives."""

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

    def __init__(self, source: Source, chunks: list[bytes], loop: asyncio.AbstractEventLoop, idle: float) -> None:
        self.status = 0
        self.error: PipeError | None = None
        self.buffered = 0
        """How many bytes arrived since something was taken."""
        self.chunks = chunks
        """What has arrived of the body and was not taken yet; the connection puts it here."""
        self._source: Source | None = source
        self._where = source.where
        self._loop = loop
        self.idle = idle
        self._fields: Sequence[tuple[bytes, bytes]] = ()
        self._first = _NOTHING
        self._is_plain = False
        self._decoder: _Inflate | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False

    # ── the reader's side ──

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The fields as they came, names in lower case; a body is decoded, but `content-encoding` still stands here."""
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._fields]

    def header(self, name: str) -> str | None:
        """The first value of a field, by its lower-case name."""
        value = self._first.get(name.encode("latin-1"))
        return None if value is None else value.decode("latin-1")

    def field(self, name: bytes) -> bytes:
        """The first value of a field as it came, b"" if there is none; for who asks often."""
        return self._first.get(name, b"")

    def pick(self, names: Mapping[bytes, str]) -> tuple[tuple[str, str], ...]:
        """The fields to which this mapping gives a name, under that name."""
        return tuple([(named, value.decode("latin-1")) for name, value in self._fields if (named := names[name])])

    def take(self) -> bytes:
        """What has arrived since the last call; b"" does not mean that it is the end."""
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
        """Everything that has arrived since the last call, waiting for something if need be; b"" at the end."""
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
        """The whole body; beyond `limit` bytes the connection is dropped and `too_large` is raised."""
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
                # All that had arrived was taken, so nothing is left to wait for.
                break
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def close(self) -> None:
        """Give up what was not read. A connection whose body has not arrived in full is aborted at once."""
        source = self._source
        if source is not None:
            source.abort()
        elif not self.chunks:
            return
        self.chunks.clear()
        self.fail(PipeError("body", "reset", f"the response of {self._where} was closed by its reader", sent=True))

    def release(self, grace: float = 1.0) -> None:
        """The reader has what it wants. The end of the body may take a moment more, so that the connection lives on."""
        source, self._source = self._source, None
        if source is not None:
            self._loop.call_later(grace, self._give_up, source)

    def news(self, seconds: float) -> asyncio.Future[None]:
        """What is done when the connection has news; whoever is cancelled in awaiting it must `close` the response."""
        if self._waiter is not None:
            raise RuntimeError("a response has one reader at a time")
        if self._source is not None:
            self._source.expect(seconds)
        self._waiter = waiter = self._loop.create_future()
        return waiter

    # ── the connection's side ──

    @property
    def is_awaited(self) -> bool:
        return self._waiter is not None

    @property
    def is_framed(self) -> bool:
        """Whether the head says where the body ends; without that, the end of the connection does."""
        return b"content-length" in self._first or b"transfer-encoding" in self._first

    def begin(self, status: int, fields: Fields, first: Mapping[bytes, bytes]) -> None:
        """The head is in: its fields, and the first value of each."""
        self.status = status
        self._fields = fields
        self._first = first
        self._is_plain = b"content-encoding" not in first
        if self._waiter is not None:
            self.wake()

    def finish(self) -> None:
        """The body is complete; the connection is no longer ours."""
        self._ended = True
        self._source = None
        if self._waiter is not None:
            self.wake()

    def fail(self, error: PipeError) -> None:
        """Nothing more will come; what came before is still given to the reader first."""
        self.error = error
        self.finish()

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def _give_up(self, source: Source) -> None:
        if not self._ended:
            source.abort()

    # ── taking ──

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
            raise self._refuse(f"sent a body encoded as {encoding[:40]!r}: not asked for, and not understood here")
        return _Inflate(encoding)

    def _take_decoded(self, decoder: "_Inflate") -> bytes:
        while True:
            if not decoder.is_hungry:
                more = b""
            elif self.chunks:
                more = self._drain()
            else:
                return b""
            try:
                data = decoder.decode(more)
            except zlib.error:
                raise self._refuse(f"sent a broken {decoder.encoding} body") from None
            if data:
                return data

    def _check_end(self) -> None:
        if self.error is not None:
            raise self.error
        if self._decoder is not None and not self._decoder.is_complete:
            raise self._refuse(f"ended its {self._decoder.encoding} body too early")

    def _refuse(self, complaint: str) -> PipeError:
        self.close()
        self.error = PipeError("body", "protocol", f"{self._where} {complaint}", sent=True)
        self._ended = True
        return self.error


class _Inflate:
    """gzip or deflate, undone in pieces of bounded size."""

    ENCODINGS = frozenset(("gzip", "x-gzip", "deflate"))

    __slots__ = ("_inflate", "_tail", "encoding", "is_hungry")

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self.is_hungry = True
        self._tail = b""
        # Which of its two forms a "deflate" body has shows in its first byte, see `decode`.
        self._inflate = None if encoding == "deflate" else zlib.decompressobj(16 + zlib.MAX_WBITS)

    @property
    def is_complete(self) -> bool:
        return self._inflate is not None and self._inflate.eof

    def decode(self, data: bytes) -> bytes:
        """Up to `PIECE` bytes; while the decoder is not hungry there is more to come without new data."""
        inflate = self._inflate
        if inflate is None:
            # Servers send both raw deflate and the zlib format the standard asks for, whose first byte ends in 8.
            inflate = self._inflate = zlib.decompressobj(zlib.MAX_WBITS if data[0] & 0x0F == 8 else -zlib.MAX_WBITS)
        out = inflate.decompress(self._tail + data, PIECE)
        self._tail = inflate.unconsumed_tail
        if inflate.unused_data or (inflate.eof and self._tail):
            if self.encoding == "deflate":
                raise zlib.error("data after the end")
            # A gzip body may have several members, one behind the other, and zeros behind the last.
            self._tail = (inflate.unused_data + self._tail).lstrip(b"\0")
            if self._tail:
                self._inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
                self.is_hungry = False
            return out
        # A full piece may have left output inside the decompressor even when all input is gone.
        self.is_hungry = len(out) < PIECE
        return out
