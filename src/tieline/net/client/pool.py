"""Connections that carry one request at a time, and a pool per origin that keeps them alive between requests.

A connection is busy from the call to `exchange` until its response is complete, failed or closed. Then it returns to
the pool as idle, or it is aborted. Its slot in the pool is freed when the transport reports that the connection is
lost.

Each connection has one timer, which is never postponed: a wait only stores its deadline, and if the timer fires too
early, it is set again. So a busy connection sets a timer only now and then, not for every read.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from typing import cast

import httptools

from tieline.net.client.proxy import UpstreamRoute, dial
from tieline.net.client.response import HIGH_WATER, Fields, HttpResponse, Phase, PipeError, Reason, Timeouts

SINGLE_WRITE = 64 * 1024
"""Bodies up to this size are sent together with the head in one write."""

SLICE = 256 * 1024
"""Size in bytes of the slices in which bodies larger than SINGLE_WRITE are written.

The transport then never holds a copy of the whole body.
"""

SLACK = 0.001
"""A deadline less than this many seconds away counts as passed, because event loops round timers to milliseconds."""


class PooledConnection(asyncio.Protocol):
    """One keep-alive connection, and the response that it is receiving."""

    __slots__ = (
        "_deadline",
        "_end",
        "_fields",
        "_is_aborted",
        "_is_bodiless",
        "_is_complete",
        "_is_full",
        "_is_paused",
        "_is_reusable",
        "_is_sending",
        "_loop",
        "_max_header_bytes",
        "_on_free",
        "_on_lost",
        "_overhead",
        "_parser",
        "_pieces",
        "_response",
        "_timer",
        "_timer_at",
        "_transport",
        "is_alive",
        "is_reused",
        "is_stale",
        "on_body",
        "where",
    )

    def __init__(
        self,
        where: str,
        max_header_bytes: int,
        on_free: Callable[["PooledConnection"], None],
        on_lost: Callable[["PooledConnection"], None],
    ) -> None:
        self.where = where
        self.is_alive = False
        self.is_reused = False
        self.is_stale = False
        """Whether this was a reused connection that was closed before any byte of the response arrived."""
        self._max_header_bytes = max_header_bytes
        self._on_free = on_free
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._end = 0
        # The parser calls this for every part of a body, dozens of times in a burst: use the list method directly.
        self.on_body = self._pieces.append
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._response: HttpResponse | None = None
        self._fields: Fields = []
        self._overhead = 0
        self._is_aborted = False
        self._is_bodiless = False
        self._is_complete = False
        self._is_reusable = False
        self._is_sending = False
        self._is_full = False
        self._is_paused = False
        self._deadline = inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf

    async def exchange(self, head: bytes, body: bytes, timeouts: Timeouts, *, is_bodiless: bool) -> HttpResponse:
        """Send a request and return the response when its head has arrived. Raise PipeError on failure.

        `is_bodiless` says whether this is a HEAD request, whose response has no body.
        """
        transport = self._transport
        if transport is None:
            raise RuntimeError("the connection is not open")
        response = HttpResponse(self, self._pieces, self._loop, timeouts.idle)
        self._response = response
        self._overhead = 0
        self._is_complete = False
        self._is_bodiless = is_bodiless
        try:
            if len(body) > SINGLE_WRITE:
                await self._upload(transport, head, body, response)
            else:
                transport.write(head + body)
            while not response.status:
                if response.error is not None:
                    raise response.error
                await response.news(timeouts.first_byte)
        except asyncio.CancelledError:
            response.close()
            raise
        return response

    async def _upload(self, transport: asyncio.Transport, head: bytes, body: bytes, response: HttpResponse) -> None:
        self._is_sending = True
        transport.write(head)
        view = memoryview(body)
        for start in range(0, len(body), SLICE):
            transport.write(view[start : start + SLICE])
            while self._is_full and not (response.status or response.error):
                await response.news(response.idle)
            if response.status or response.error:
                # An early response, usually an error: the upstream does not want the rest of the body.
                return
        self._is_sending = False

    # ── called by the response and the pool ──

    @property
    def is_made(self) -> bool:
        return self._transport is not None

    def expect(self, seconds: float) -> None:
        """Set the deadline of the current wait to `seconds` from now."""
        deadline = self._deadline = self._loop.time() + seconds
        if deadline < self._timer_at:
            self._arm(deadline)

    def resume(self) -> None:
        """Resume reading from the socket."""
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        """Drop the connection without notifying the response it was receiving."""
        self.is_alive = False
        self._is_aborted = True
        self._response = None
        if self._transport is not None:
            self._transport.abort()

    def shut(self) -> None:
        """Drop the connection because the HTTP client is being closed, and fail the response it was receiving."""
        self._fail("reset", "was disconnected: the HTTP client is closing")

    # ── asyncio.Protocol ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.Transport", transport)
        if self._is_aborted:
            # The loop may complete a connection attempt that was cancelled.
            made.abort()
            return
        self._transport = made
        self.is_alive = True

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            # Data without a request must not be mistaken for the response to the next request.
            self.abort()
            return
        before = len(self._pieces)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._reject(error)
        if self._is_complete:
            self._finish(response)
        elif len(self._pieces) > before:
            self._overhead = 0
            response.buffered += len(data)
            response.wake()
            if response.buffered > HIGH_WATER:
                self._pause()
        else:
            self._overhead += len(data)
            self._check_overhead(response)

    def eof_received(self) -> None:
        self.is_alive = False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self.is_alive = False
        if self._timer is not None:
            self._timer.cancel()
        response, self._response = self._response, None
        if response is not None:
            self._end_by_close(response, exc)
        # Break the reference cycle: the parser holds our bound methods.
        del self._parser
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._response is not None:
            self._response.wake()

    # ── called by the parser ──

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        response = self._response
        if response is None or self._is_complete:
            return
        fields, self._fields = self._fields, []
        parser = self._parser
        status = parser.get_status_code()
        if status < 200:
            return
        first = dict(reversed(fields))
        if b"transfer-encoding" in first and not _is_chunked(fields, first):
            self._fail("protocol", "sent a body with a transfer encoding other than chunked")
            return
        self._is_reusable = parser.should_keep_alive()
        response.begin(status, fields, first)
        if self._is_bodiless:
            self.on_message_complete()

    def on_message_complete(self) -> None:
        response = self._response
        if response is not None and response.status and not self._is_complete:
            self._is_complete = True
            self._end = len(self._pieces)

    def _reject(self, error: Exception) -> None:
        if self._is_complete:
            # The response itself was valid; only the data after it is not.
            self._is_reusable = False
        elif isinstance(error, httptools.HttpParserUpgrade):
            self._fail("protocol", "tried to switch to another protocol")
        else:
            self._fail("protocol", f"sent an invalid HTTP response: {error}")

    # ── end of an exchange ──

    def _finish(self, response: HttpResponse) -> None:
        self._response = None
        pieces = self._pieces
        if len(pieces) > self._end:
            # Data after a complete response does not belong to it.
            self._is_reusable = False
            del pieces[self._end :]
        # The next exchange may begin before the reader has taken all of this data.
        response.chunks = pieces.copy()
        pieces.clear()
        if self._is_paused:
            self.resume()
        self._fields = []
        if self._is_reusable and self.is_alive and not self._is_sending:
            if self._is_bodiless:
                # The parser still expects the body that the head announced.
                self._parser = httptools.HttpResponseParser(self)
            self._on_free(self)
        else:
            self.abort()
        response.finish()

    def _end_by_close(self, response: HttpResponse, exc: Exception | None) -> None:
        if not response.status:
            self.is_stale = self.is_reused and not self._overhead
            error = self._error(response, "reset", "closed the connection without a response")
        elif exc is None and not response.is_framed:
            response.finish()
            return
        else:
            error = self._error(response, "reset", "closed the connection in the middle of the body")
        error.__cause__ = exc
        response.fail(error)

    def _fail(self, reason: Reason, complaint: str) -> None:
        response = self._response
        self.abort()
        if response is not None:
            response.fail(self._error(response, reason, complaint))

    def _error(self, response: HttpResponse, reason: Reason, complaint: str) -> PipeError:
        phase: Phase = "body" if response.status else "send" if self._is_sending else "first_byte"
        return PipeError(phase, reason, f"{self.where} {complaint}", sent=True)

    # ── limits ──

    def _check_overhead(self, response: HttpResponse) -> None:
        """Fail the response if its heads, chunk sizes and trailers take up too many bytes."""
        if self._overhead > self._max_header_bytes:
            self._fail("too_large", f"sent header fields of more than {self._max_header_bytes} bytes")
        elif response.status and response.is_awaited:
            self.expect(response.idle)

    def _pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _arm(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = inf
        response = self._response
        if self._loop.time() + SLACK < self._deadline:
            self._arm(self._deadline)
        elif response is None:
            self.abort()
        elif response.is_awaited:
            self._fail("timeout", "stopped reading the request" if self._is_sending else "sent nothing for too long")


Turn = asyncio.Future[PooledConnection | PipeError | None]
"""A future for a caller in the queue. It resolves to a connection, an error, or None for a free slot."""


class Pool:
    """The connections to one origin, at most `limit`. When all are busy, callers wait in a fair queue."""

    def __init__(
        self,
        route: UpstreamRoute,
        *,
        limit: int,
        idle_keep: float,
        max_header_bytes: int,
        tls: Callable[[], ssl.SSLContext],
    ) -> None:
        self.request_line = route.request_line
        self._route = route
        self._where = route.origin.authority
        self._limit = limit
        self._idle_keep = idle_keep
        self._max_header_bytes = max_header_bytes
        self._tls = tls
        self._idle: list[PooledConnection] = []
        self._connections: set[PooledConnection] = set()
        self._slots = 0
        self._waiters: deque[Turn] = deque()
        self._dialling: set[asyncio.Timeout] = set()
        self._emptied: asyncio.Future[None] | None = None
        self._is_closed = False

    def take_idle(self) -> PooledConnection | None:
        """Return the most recently used idle connection that is still alive, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_alive:
                return connection
        return None

    async def acquire(self, timeouts: Timeouts) -> PooledConnection:
        """Return a new connection or, if `limit` connections are open, the first one that becomes idle.

        Raise PipeError on failure.
        """
        while True:
            if self._is_closed:
                raise self._closed_error()
            if self._slots < self._limit:
                self._slots += 1
                return await self._dial(timeouts)
            connection = await self._queue(timeouts)
            if connection is None:
                return await self._dial(timeouts)
            if connection.is_alive:
                return connection

    async def acquire_fresh(self, timeouts: Timeouts) -> PooledConnection:
        """Return a new connection for a retry. First drop the idle connections, which may be dead as well."""
        while self._idle:
            self._idle.pop().abort()
        return await self.acquire(timeouts)

    async def aclose(self) -> None:
        """Drop every connection, fail all waiters, and return when all connections are closed."""
        self._is_closed = True
        loop = asyncio.get_running_loop()
        while self._waiters:
            self._settle(self._waiters.popleft(), self._closed_error())
        for attempt in self._dialling:
            attempt.reschedule(loop.time())
        for connection in list(self._connections):
            connection.shut()
        while self._slots:
            if self._emptied is None:
                self._emptied = loop.create_future()
            await asyncio.shield(self._emptied)

    async def _dial(self, timeouts: Timeouts) -> PooledConnection:
        """Open a connection in a slot that is already reserved. Free the slot if that fails."""
        if self._is_closed:
            self._free_slot()
            raise self._closed_error()
        connection = PooledConnection(self._where, self._max_header_bytes, self._give_back, self._forget)
        self._connections.add(connection)
        try:
            async with asyncio.timeout(timeouts.connect) as attempt:
                self._dialling.add(attempt)
                try:
                    await dial(connection, self._route, self._tls, timeouts.connect)
                finally:
                    self._dialling.discard(attempt)
        except BaseException as error:
            self._drop(connection)
            if isinstance(error, TimeoutError):
                raise self._dial_timeout_error() from error
            raise
        if not connection.is_alive:
            message = f"{self._where} closed the connection right after accepting it"
            raise PipeError("connect", "reset", message, sent=False)
        return connection

    def _drop(self, connection: PooledConnection) -> None:
        """Clean up after a failed dial. If the connection was established, its slot is freed when it is lost."""
        connection.abort()
        if not connection.is_made:
            self._forget(connection)

    async def _queue(self, timeouts: Timeouts) -> PooledConnection | None:
        """Wait for a connection and return it. If a slot becomes free instead, return None; the caller then dials."""
        loop = asyncio.get_running_loop()
        turn: Turn = loop.create_future()
        message = f"all {self._limit} connections to {self._where} are busy"
        timer = loop.call_later(timeouts.pool, self._settle, turn, PipeError("connect", "busy", message, sent=False))
        self._waiters.append(turn)
        try:
            given = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._return(turn.result())
            raise
        finally:
            timer.cancel()
            if turn in self._waiters:
                self._waiters.remove(turn)
        if isinstance(given, PipeError):
            raise given
        return given

    def _return(self, given: PooledConnection | PipeError | None) -> None:
        """Pass a connection or free slot to another caller, because the caller that it was meant for was cancelled."""
        if given is None:
            self._free_slot()
        elif isinstance(given, PooledConnection) and given.is_alive:
            self._give_back(given)

    def _give_back(self, connection: PooledConnection) -> None:
        connection.is_reused = True
        connection.expect(self._idle_keep)
        while self._waiters:
            if self._settle(self._waiters.popleft(), connection):
                return
        self._idle.append(connection)

    def _forget(self, connection: PooledConnection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._free_slot()

    def _free_slot(self) -> None:
        while self._waiters:
            if self._settle(self._waiters.popleft(), None):
                return
        self._slots -= 1
        if not self._slots and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    @staticmethod
    def _settle(turn: Turn, given: PooledConnection | PipeError | None) -> bool:
        if turn.done():
            return False
        turn.set_result(given)
        return True

    def _dial_timeout_error(self) -> PipeError:
        if self._is_closed:
            return self._closed_error()
        return PipeError("connect", "timeout", f"{self._where} did not accept the connection in time", sent=False)

    def _closed_error(self) -> PipeError:
        return PipeError("connect", "busy", f"{self._where} was not contacted: the HTTP client is closed", sent=False)


def _is_chunked(fields: Fields, first: Mapping[bytes, bytes]) -> bool:
    if len(first) == len(fields):  # no field is repeated
        return first[b"transfer-encoding"].lower() == b"chunked"
    return all(value.lower() == b"chunked" for name, value in fields if name == b"transfer-encoding")
