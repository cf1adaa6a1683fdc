"""A client's connection below any protocol: flow in both directions, how it ends, and a bound on every wait."""

import asyncio
import math
import socket
import struct
from typing import cast

LINGER = 15.0
"""Seconds that a client gets to take our last words; while it takes some of them, it gets more."""


_AT_ONCE = struct.pack("ii", 1, 0)
"""What is not delivered is dropped, and the other side is told."""


class Line(asyncio.Protocol):
    """One timer looks after whatever is waited for, seldom: what goes well never touches it."""

    __slots__ = (
        "_drains",
        "_due",
        "_idle",
        "_is_paused",
        "_left",
        "_since",
        "_timer",
        "is_ending",
        "is_stuck",
        "loop",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, idle: float) -> None:
        self.loop = loop
        self.is_stuck = False
        """Whether the client takes less than it is given."""
        self.is_ending = False
        """Whether all is said, and only the end of the connection is awaited."""
        self._idle = idle
        self._is_paused = False
        self._drains: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._since = 0.0
        """When what is waited for began."""
        self._left = 0

    # ── what a protocol says of itself ──

    def bound(self) -> float:
        """Seconds that what is waited for may take, without end if it is our own turn."""
        return self._idle

    def expire(self) -> None:
        """It took longer."""
        self.close()

    # ── what the transport calls ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self.transport = cast("asyncio.Transport", transport)
        self.wait_anew(self._idle)

    def connection_lost(self, _error: Exception | None) -> None:
        """The client is gone, or we have closed."""
        self.is_ending = True
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()

    def pause_writing(self) -> None:
        """The client takes less than it is given."""
        self.is_stuck = True

    def resume_writing(self) -> None:
        """The client has caught up, or is gone."""
        self.is_stuck = False
        drains, self._drains = self._drains, []
        for drain in drains:
            if not drain.done():
                drain.set_result(None)

    # ── flow ──

    async def writable(self) -> None:
        """Wait until the client has taken most of what it was given, or has left."""
        while self.is_stuck:
            drain: asyncio.Future[None] = self.loop.create_future()
            self._drains.append(drain)
            await drain

    def pause(self) -> None:
        """Read no more for now."""
        if not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    # ── the end ──

    def part(self) -> None:
        """Say no more, and let the client finish: to close on what it still says could take our last words from it."""
        self.resume()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._await_end()

    def close(self) -> None:
        """End when everything written has been taken."""
        self.transport.close()
        self._await_end()

    def reset(self) -> None:
        """End in a way that nobody takes for the end of what was being said."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.transport.abort()

    def _await_end(self) -> None:
        self.is_ending = True
        self._left = self.transport.get_write_buffer_size()
        self.wait_anew(LINGER)

    # ── waits ──

    def wait_anew(self, bound: float) -> None:
        """Something else is waited for from now on, for so many seconds at most."""
        self._since = self.loop.time()
        self._look_within(bound)

    def _look_within(self, seconds: float) -> None:
        due = self.loop.time() + seconds
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self.loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer = None
        bound = LINGER if self.is_ending else self.bound()
        left = math.inf if math.isinf(bound) else self._since + bound - self.loop.time()
        if left > 0:
            self._look_within(min(left, max(self._idle, 1.0)))
        elif self.is_ending:
            self._give_up()
        else:
            self.expire()

    def _give_up(self) -> None:
        left = self.transport.get_write_buffer_size()
        if 0 < left < self._left:
            self._await_end()
        else:
            self.transport.abort()
