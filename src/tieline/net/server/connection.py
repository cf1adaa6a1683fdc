"""A client's TCP connection, independent of HTTP: flow control in both directions, closing, and timeouts."""

import asyncio
import math
import socket
import struct
import sys
from typing import cast

LINGER_TIMEOUT = 15.0
"""Seconds that a closing connection may take to send its last bytes. The time restarts if the client reads data."""

_RESET_ON_CLOSE = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)
"""SO_LINGER with a timeout of zero: closing drops unsent data and sends RST."""


class ClientConnection(asyncio.Protocol):
    """A client's connection, with at most one timeout at a time.

    A subclass defines how long the current wait may take (`timeout`) and what happens if it takes longer
    (`on_timeout`). A new wait does not postpone the timer, which saves work for each request. A timer that fires too
    early is simply set again.
    """

    __slots__ = (
        "_drain_waiters",
        "_due",
        "_idle",
        "_is_read_paused",
        "_timer",
        "_unsent",
        "_waiting_since",
        "done",
        "is_closing",
        "is_write_paused",
        "loop",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, idle: float) -> None:
        self.loop = loop
        self.done: asyncio.Future[None] = loop.create_future()
        """A completed future. Write methods return it if there is nothing to wait for."""
        self.done.set_result(None)
        self.is_write_paused = False
        """Whether writing is paused, because the client reads more slowly than the server writes."""
        self.is_closing = False
        """Whether the server has written all its data and only waits for the connection to end."""
        self._idle = idle
        self._is_read_paused = False
        self._drain_waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._waiting_since = 0.0
        self._unsent = 0
        """The number of bytes in the write buffer when LINGER_TIMEOUT was last restarted."""

    # ── for subclasses to override ──

    def timeout(self) -> float:
        """Return how many seconds the current wait may take, or infinity while the application works on a request."""
        return self._idle

    def on_timeout(self) -> None:
        """Handle a wait that took longer than `timeout` allows."""
        self.close()

    # ── called by the transport ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the idle timeout."""
        self.transport = cast("asyncio.Transport", transport)
        self.restart_timeout(self._idle)

    def connection_lost(self, _error: Exception | None) -> None:
        """Stop the timer and wake waiting writers."""
        self.is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()

    def pause_writing(self) -> None:
        """Record that the write buffer is full."""
        self.is_write_paused = True

    def resume_writing(self) -> None:
        """Wake the writers that wait in `drain`."""
        self.is_write_paused = False
        waiters, self._drain_waiters = self._drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ── flow control ──

    async def drain(self) -> None:
        """Wait until the write buffer has room again or the connection is lost."""
        while self.is_write_paused:
            waiter: asyncio.Future[None] = self.loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter

    def pause_reading(self) -> None:
        """Stop reading from the socket."""
        if not self._is_read_paused:
            self._is_read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        if self._is_read_paused:
            self._is_read_paused = False
            self.transport.resume_reading()

    # ── closing ──

    def half_close(self) -> None:
        """Close the sending side and wait for the client to close its side.

        Closing both sides while the client is still sending would reset the connection, and the client could lose the
        last response.
        """
        self.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._linger()

    def close(self) -> None:
        """Close the connection after all written data has been sent."""
        self.transport.close()
        self._linger()

    def reset(self) -> None:
        """Drop the connection with a TCP reset, which no client mistakes for the end of a response."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()

    def _linger(self) -> None:
        self.is_closing = True
        self._unsent = self.transport.get_write_buffer_size()
        self.restart_timeout(LINGER_TIMEOUT)

    # ── timeouts ──

    def restart_timeout(self, seconds: float) -> None:
        """Begin a new wait of at most this many seconds."""
        self._waiting_since = self.loop.time()
        self._check_within(seconds)

    def _check_within(self, seconds: float) -> None:
        due = self.loop.time() + seconds
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self.loop.call_at(due, self._check_timeout)

    def _check_timeout(self) -> None:
        self._timer = None
        timeout = LINGER_TIMEOUT if self.is_closing else self.timeout()
        left = math.inf if math.isinf(timeout) else self._waiting_since + timeout - self.loop.time()
        if left > 0:
            self._check_within(min(left, max(self._idle, 1.0)))
        elif self.is_closing:
            self._abort_unless_progress()
        else:
            self.on_timeout()

    def _abort_unless_progress(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        if 0 < unsent < self._unsent:
            self._linger()
        else:
            self.transport.abort()
