"""One two-way HTTP/2 stream as its users see it: what they send, what comes back, and how either can fail.

A stream has two sides. The connection feeds it (`begin`, `finish`, `fail`) and takes what it has to say; its users
send, read and close. There is one reader. Any number may send: what each hands over goes out whole and in order, even
if the one who handed it over stops waiting. A reader that is cancelled or runs out of patience may try again.
"""

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Protocol

from tieline.net.client.body import Fields, Phase, PipeError, Reason, Timeouts

MAX_BACKLOG = 64 * 1024 * 1024
"""What may wait in a stream for the peer to take it, beyond the one message that waits first."""

SLACK = 0.001
"""Loops round timers to milliseconds: what is nearer than this is now."""


class Carrier(Protocol):
    """What a stream needs of the connection that carries it."""

    where: str

    def push(self, stream: "Duplex") -> None: ...
    def credit(self, stream: "Duplex", size: int) -> None: ...
    def cancel(self, stream: "Duplex") -> None: ...


class Duplex:
    """A request that can go on while its response is already coming in."""

    __slots__ = (
        "_carrier",
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
        "error",
        "held",
        "incoming",
        "is_ended",
        "is_ending",
        "is_gone",
        "is_over",
        "number",
        "outgoing",
        "owed",
        "queued",
        "sent",
    )

    def __init__(self, carrier: Carrier, number: int, timeouts: Timeouts, loop: asyncio.AbstractEventLoop) -> None:
        self.number = number
        self.code = 0
        """The status of the response, 0 until its head is in."""
        self.error: PipeError | None = None
        self.incoming = bytearray()
        self.outgoing: list[memoryview] = []
        self.queued = 0
        self.sent = 0
        self.held = 0
        """Bytes of the peer's window that we have not given back."""
        self.owed = 0
        """Those of them whose content was taken, and which go back when they are worth a frame."""
        self.is_over = False
        """The response is complete."""
        self.is_ending = False
        """The request ends when all that was queued is sent."""
        self.is_ended = False
        self.is_gone = False
        """The connection no longer knows this stream."""
        self._carrier = carrier
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
        """Wait for the head of the response; `Timeouts.first_byte` counts from this call."""
        while not self.code:
            if self.error is not None:
                raise self.error
            if not await self._wait(self._timeouts.first_byte):
                raise self._late()
        return self.code

    @property
    def headers(self) -> Sequence[tuple[str, str]]:
        """The fields of the head, names in lower case; none before `status` has returned."""
        return _decoded(self._fields)

    def header(self, name: str) -> str | None:
        """The first value of a field of the head, by its lower-case name."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def trailers(self) -> Sequence[tuple[str, str]]:
        """The fields that came after the body; none before `chunk` has returned b""."""
        return _decoded(self._trailers)

    async def chunk(self, idle: float | None = None) -> bytes:
        """Everything that has arrived since the last call, waiting for something if need be; b"" at the end.

        `idle` takes the place of `Timeouts.idle` for this call. With `inf` only a dead connection ends the wait.
        """
        while not self.incoming:
            if self.is_over:
                return b""
            if self.error is not None:
                raise self.error
            if not await self._wait(self._timeouts.idle if idle is None else idle):
                raise self._late()
        data = bytes(self.incoming)
        self.incoming.clear()
        self._carrier.credit(self, len(data))
        return data

    # ── the request ──

    async def send(self, data: bytes) -> None:
        """Hand over the next bytes of the request and return when the connection has taken them all.

        A peer that takes nothing for `Timeouts.idle` seconds fails the stream: half a message cannot be taken back.
        """
        if self.error is not None:
            raise self.error
        if self.is_ending:
            raise RuntimeError("nothing can be sent after the end of a request")
        if self.outgoing and self.queued - self.sent + len(data) > MAX_BACKLOG:
            raise self.failure("busy", "has not taken what was sent before", phase="send")
        if not data:
            return
        self.outgoing.append(memoryview(data))
        self.queued += len(data)
        self._carrier.push(self)
        if self.sent < self.queued:
            await self._taken(self.queued)

    def end(self) -> None:
        """Say that the request is complete; what was handed over before still goes out first. Never raises."""
        if not (self.is_ending or self.is_gone):
            self.is_ending = True
            self._carrier.push(self)

    def close(self) -> None:
        """Give up whatever is not complete: the peer is told to cancel, users get an error. Never raises."""
        if not self.is_gone:
            self._carrier.cancel(self)
        if self.incoming:
            self.is_over = False
        self.fail(self.failure("reset", "is no longer listened to: the stream was closed here"))
        self._drop_unread()

    # ── the connection's side ──

    @property
    def has_more(self) -> bool:
        """Whether something waits to be sent, if only the end of the request."""
        return not self.is_gone and bool(self.outgoing or (self.is_ending and not self.is_ended))

    def next_piece(self, limit: int) -> bytes | memoryview:
        """Take up to `limit` bytes of what waits first."""
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
        """The head is in."""
        self.code = code
        self._fields = fields
        self.wake()

    def trail(self, fields: Fields) -> None:
        """The trailers are in."""
        self._trailers = fields

    def finish(self) -> None:
        """The response is complete."""
        self.is_over = True
        self.wake()

    def fail(self, error: PipeError) -> None:
        """The stream is gone; a reader still gets what came before, and no error if that was all."""
        self.is_gone = True
        if self.error is None:
            self.error = error
        self.outgoing.clear()
        self.retire()
        self.wake()
        self.progress()

    def retire(self) -> None:
        """Let go of the timers: nothing more has to be watched."""
        for timer in (self._timer, self._stall):
            if timer is not None:
                timer.cancel()
        self._timer = self._stall = None
        self._timer_at = inf

    def wake(self) -> None:
        """There is news for the reader."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(True)

    def progress(self) -> None:
        """Some of what was queued is sent, or never will be."""
        while self._senders and (self.error is not None or self._senders[0][0] <= self.sent):
            waiter = self._senders.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    def failure(self, reason: Reason, complaint: str, *, sent: bool = True, phase: Phase | None = None) -> PipeError:
        """An error of this stream, of the phase it is in."""
        phase = phase or ("body" if self.code else "first_byte")
        return PipeError(phase, reason, f"{self._carrier.where} {complaint}", sent=sent)

    # ── waiting ──

    async def _wait(self, seconds: float) -> bool:
        """Sleep until there is news; False if there was none for so long."""
        if self._waiter is not None:
            raise RuntimeError("a stream has one reader at a time")
        self._waiter = self._loop.create_future()
        self._expect(seconds)
        try:
            return await self._waiter
        finally:
            self._waiter = None

    def _expect(self, seconds: float) -> None:
        """Keep a deadline; as a timer is only moved when it fires, most waits cost none."""
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

    async def _taken(self, mark: int) -> None:
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
        self._carrier.cancel(self)
        self.fail(self.failure("timeout", "took no more of the request", phase="send"))

    def _late(self) -> PipeError:
        return self.failure("timeout", "was silent for too long")

    def _drop_unread(self) -> None:
        unread = len(self.incoming)
        if unread:
            self.incoming.clear()
            self._carrier.credit(self, unread)


def _decoded(fields: Fields) -> Sequence[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in fields]
