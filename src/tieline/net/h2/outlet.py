"""The writing half of an HTTP/2 connection: whose turn it is to send, and when bytes go to the transport.

What there is to write in one turn of the loop goes out in one write. Streams that have more to say than the windows of
the peer or the transport allow take turns, a frame each, so that a large message does not hold up the small ones.
"""

import asyncio
from collections.abc import Callable

from h2.connection import H2Connection

from tieline.net.h2 import frames as frames
from tieline.net.h2.stream import Duplex

MAX_UNREAD = 4 * 1024 * 1024
"""How much may wait for a peer that asks and asks and reads no answers."""


class Outlet:
    """Writes what h2 and the streams have to say."""

    def __init__(
        self, h2: H2Connection, window: int, on_done: Callable[[Duplex], None], on_deaf: Callable[[], None]
    ) -> None:
        self.held = 0
        """Bytes of the window of the connection that we have not given back."""
        self._h2 = h2
        self._window = window
        self._on_done = on_done
        self._on_deaf = on_deaf
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._blocked: dict[int, Duplex] = {}
        self._updates = bytearray()
        self._owed = 0
        self._unread = 0
        self._is_full = False
        self._is_flushing = False

    def open(self, transport: asyncio.Transport) -> None:
        """Begin to write."""
        self._transport = transport

    def close(self) -> None:
        """Write nothing more."""
        self._transport = None
        self._blocked.clear()

    def push(self, stream: Duplex) -> None:
        """Send what a stream has to say, as far as the peer and the transport let it."""
        if not (self._is_full or self._blocked):
            self._say(stream)
            self.flush_soon()
        if stream.has_more:
            self._blocked[stream.number] = stream
            self.pump()

    def drop(self, stream: Duplex) -> None:
        """A stream has nothing more to say."""
        self._blocked.pop(stream.number, None)

    def pump(self) -> None:
        """Let the streams that wait take turns until nothing moves."""
        has_moved = True
        while has_moved and self._blocked and self._transport is not None and not self._is_full:
            has_moved = False
            for number, stream in list(self._blocked.items()):
                has_moved |= self._say(stream)
                if not stream.has_more:
                    self._blocked.pop(number, None)
            self.flush()

    def pause(self) -> None:
        """The transport has enough for now."""
        self._is_full = True

    def resume(self) -> None:
        """The transport takes more."""
        self._is_full = False
        self._unread = 0
        self.pump()

    # ── windows we grant ──

    def credit(self, size: int) -> None:
        """So many bytes were taken: the peer may send as many more on this connection, and hears of it now and then."""
        self._owed += size
        if self._owed >= self._window // 4:
            self.grant(0, self._owed)
            self.held -= self._owed
            self._owed = 0

    def grant(self, number: int, size: int) -> None:
        """Let the peer send so many bytes more on a stream, or (0) on the connection."""
        self._updates += frames.window_update(number, size)
        self.flush_soon()

    # ── writing ──

    def flush_soon(self) -> None:
        """Write in this turn of the loop, with what else there will be."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write what there is."""
        self._is_flushing = False
        transport = self._transport
        if transport is None:
            return
        data = self._h2.data_to_send()
        if self._updates:
            data += self._updates
            self._updates.clear()
        if data:
            self._unread += len(data) if self._is_full else 0
            transport.write(data)
            if self._unread > MAX_UNREAD:
                self._on_deaf()

    def _say(self, stream: Duplex) -> bool:
        """Say up to one frame of what waits in a stream; whether anything could be said."""
        if stream.outgoing:
            window = self._h2.local_flow_control_window(stream.number)
            piece = stream.next_piece(min(window, frames.MAX_FRAME))
            if not piece:
                return False
            self._h2.send_data(stream.number, piece)
            stream.progress()
        if stream.is_ending and not stream.outgoing:
            self._h2.end_stream(stream.number)
            stream.is_ended = True
            if stream.is_over:
                self._on_done(stream)
        return True
