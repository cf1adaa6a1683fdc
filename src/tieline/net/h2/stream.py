"""A two-way HTTP/2 stream.

A stream has two sides. The connection feeds it (`begin`, `finish`, `fail`) and takes its outgoing data. Its users send,
read and close. There is one reader, but any number of tasks may send. Each message is sent whole and in order, even if
its sender is cancelled while waiting. A reader that is cancelled or times out may read again.
"""

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Protocol

from tieline.net.client.response import Fields, Phase, PipeError, Reason, Timeouts

MAX_BACKLOG = 64 * 1024 * 1024
"""Maximum number of bytes queued in a stream. A larger message is accepted only if nothing else is queued."""

SLACK = 0.001
"""A deadline less than this many seconds away counts as passed, because event loops round timers to milliseconds."""


class StreamConnection(Protocol):
    """The connection that carries a stream."""

    where: str

    def push(self, stream: "Http2Stream") -> None: ...
    def credit(self, stream: "Http2Stream", size: int) -> None: ...
    def cancel(self, stream: "Http2Stream") -> None: ...


class Http2Stream:
    """A request whose body can continue while its response arrives."""

    __slots__ = (
        "_connection",
        "_deadline",
        "_fields",
        "_loop",
        "_senders",
        "_stall",
        "_timeouts",
        "_timer",
        "_timer_at",
        "_trailers",
        "_waiter",
        "code",
        "consumed",
        "error",
        "incoming",
        "is_ended",
        "is_ending",
        "is_gone",
        "is_over",
        "number",
        "outgoing",
        "queued",
        "sent",
        "unacknowledged",
    )

    def __init__(
        self, connection: StreamConnection, number: int, timeouts: Timeouts, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.number = number
        self.code = 0
        """The HTTP status of the response; 0 until its head has arrived."""
        self.error: PipeError | None = None
        self.incoming = bytearray()
        self.outgoing: list[memoryview] = []
        self.queued = 0
        self.sent = 0
        self.unacknowledged = 0
        """The number of received bytes for which no window update has been sent yet."""
        self.consumed = 0
        """How many of the unacknowledged bytes the reader has taken."""
        self.is_over = False
        """Whether the response is complete."""
        self.is_ending = False
        """Whether the request ends after the queued data, because `end` was called."""
        self.is_ended = False
        self.is_gone = False
        """Whether the connection has forgotten this stream."""
        self._connection = connection
        self._loop = loop
        self._timeouts = timeouts
        self._fields: Fields = []
        self._trailers: Fields = []
        self._waiter: asyncio.Future[bool] | None = None
        self._senders: list[tuple[int, asyncio.Future[None]]] = []
        self._stall: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf
        self._deadline = inf

    # ── the response ──

    async def status(self) -> int:
        """Wait for the head of the response and return its status. `Timeouts.first_byte` counts from this call."""
        while not self.code:
            if self.error is not None:
                raise self.error
            if not await self._wait(self._timeouts.first_byte):
                raise self._timeout_error()
        return self.code

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The header fields of the response, with names in lower case. Empty until `status` has returned."""
        return _decoded(self._fields)

    def header(self, name: str) -> str | None:
        """Return the first value of a header field, or None. The name must be in lower case."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def trailers(self) -> Sequence[tuple[str, str]]:
        """The trailer fields of the response. Empty until `chunk` has returned b""."""
        return _decoded(self._trailers)

    async def chunk(self, idle: float | None = None) -> bytes:
        """Wait for data and return all data that has arrived since the last call, or b"" at the end of the response.

        `idle` replaces `Timeouts.idle` for this call. If it is `inf`, the wait has no timeout.
        """
        while not self.incoming:
            if self.is_over:
                return b""
            if self.error is not None:
                raise self.error
            if not await self._wait(self._timeouts.idle if idle is None else idle):
                raise self._timeout_error()
        data = bytes(self.incoming)
        self.incoming.clear()
        self._connection.credit(self, len(data))
        return data

    # ── the request ──

    async def send(self, data: bytes) -> None:
        """Send the next bytes of the request, and return once all of them have been passed to the transport.

        If the peer accepts nothing for `Timeouts.idle` seconds, the whole stream fails, because a message that was sent
        in part cannot be taken back. Raise PipeError if the stream has failed or too much data is queued.
        """
        if self.error is not None:
            raise self.error
        if self.is_ending:
            raise RuntimeError("nothing can be sent after the end of a request")
        if self.outgoing and self.queued - self.sent + len(data) > MAX_BACKLOG:
            raise self.failure("busy", "has not read the data sent before", phase="send")
        if not data:
            return
        self.outgoing.append(memoryview(data))
        self.queued += len(data)
        self._connection.push(self)
        if self.sent < self.queued:
            await self._wait_until_sent(self.queued)

    def end(self) -> None:
        """End the request after the queued data. This never raises an exception."""
        if not (self.is_ending or self.is_gone):
            self.is_ending = True
            self._connection.push(self)

    def close(self) -> None:
        """Reset the stream unless it is complete. Calls that are waiting fail. This never raises an exception."""
        if not self.is_gone:
            self._connection.cancel(self)
        if self.incoming:
            self.is_over = False
        self.fail(self.failure("reset", "was disconnected: the stream was closed by the gateway"))
        self._drop_unread()

    # ── called by the connection ──

    @property
    def has_more(self) -> bool:
        """Whether queued data or the end of the request still has to be sent."""
        return not self.is_gone and bool(self.outgoing or (self.is_ending and not self.is_ended))

    def next_piece(self, limit: int) -> bytes | memoryview:
        """Remove and return up to `limit` bytes of the first queued message."""
        if limit <= 0:
            return b""
        first = self.outgoing[0]
        if len(first) <= limit:
            del self.outgoing[0]
        else:
            first, self.outgoing[0] = first[:limit], first[limit:]
        self.sent += len(first)
        return first

    def begin(self, code: int, fields: Fields) -> None:
        """Set the head of the response."""
        self.code = code
        self._fields = fields
        self.wake()

    def trail(self, fields: Fields) -> None:
        """Set the trailers of the response."""
        self._trailers = fields

    def finish(self) -> None:
        """Mark the response as complete."""
        self.is_over = True
        self.wake()

    def fail(self, error: PipeError) -> None:
        """End the stream with an error. The reader first receives the data that arrived before it, then the error."""
        self.is_gone = True
        if self.error is None:
            self.error = error
        self.outgoing.clear()
        self.retire()
        self.wake()
        self.progress()

    def retire(self) -> None:
        """Cancel the timers."""
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        self._timer = self._stall = None
        self._timer_at = inf

    def wake(self) -> None:
        """Wake the reader."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(True)

    def progress(self) -> None:
        """Wake the senders whose data has been sent, or all senders after an error."""
        while self._senders and (self.error is not None or self._senders[0][0] <= self.sent):
            waiter = self._senders.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    def failure(self, reason: Reason, complaint: str, *, sent: bool = True, phase: Phase | None = None) -> PipeError:
        """Return an error for this stream. `complaint` completes its message, which begins with the name of the peer.

        `phase` defaults to the current phase of the stream.
        """
        phase = phase or ("body" if self.code else "first_byte")
        return PipeError(phase, reason, f"{self._connection.where} {complaint}", sent=sent)

    # ── waiting ──

    async def _wait(self, seconds: float) -> bool:
        """Wait until the state of the response changes. Return False if that takes longer than `seconds`."""
        if self._waiter is not None:
            raise RuntimeError("a stream has one reader at a time")
        self._waiter = self._loop.create_future()
        self._expect(seconds)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def _expect(self, seconds: float) -> None:
        """Set the deadline of a wait. A timer that is already running is set again only after it has fired."""
        self._deadline = deadline = self._loop.time() + seconds
        if deadline < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._arm()

    def _arm(self) -> None:
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = inf
        waiter = self._waiter
        if waiter is None or waiter.done() or self._deadline == inf:
            return
        if self._loop.time() + SLACK < self._deadline:
            self._arm()
        else:
            waiter.set_result(False)

    async def _wait_until_sent(self, mark: int) -> None:
        if self._stall is None:
            self._stall = self._loop.call_later(self._timeouts.idle, self._check_progress, self.sent)
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._senders.append((mark, waiter))
        await waiter
        if self.error is not None and self.sent < mark:
            raise self.error

    def _check_progress(self, before: int) -> None:
        self._stall = None
        if self.sent == self.queued:
            return
        if self.sent > before:
            self._stall = self._loop.call_later(self._timeouts.idle, self._check_progress, self.sent)
            return
        self._connection.cancel(self)
        self.fail(self.failure("timeout", "stopped reading the request", phase="send"))

    def _timeout_error(self) -> PipeError:
        return self.failure("timeout", "sent nothing for too long")

    def _drop_unread(self) -> None:
        unread = len(self.incoming)
        if unread:
            self.incoming.clear()
            self._connection.credit(self, unread)


def _decoded(fields: Fields) -> Sequence[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
