"""The sending side of an HTTP/2 connection: schedules streams and flushes bytes to the transport.

All bytes that are queued in one iteration of the event loop are sent in one write. Streams that are blocked by flow
control or by the transport take turns, one frame each, so that a large message does not delay small ones.
"""

import asyncio
from collections.abc import Callable

from h2.connection import H2Connection

from tieline.net.h2 import frames as frames
from tieline.net.h2.stream import Http2Stream

MAX_UNREAD = 4 * 1024 * 1024
"""Maximum number of bytes (acknowledgements, window updates) that may wait for a peer that sends but does not read."""


class Http2Writer:
    """Writes the output of h2 and of the streams to the transport."""

    def __init__(
        self, h2: H2Connection, window: int, on_done: Callable[[Http2Stream], None], on_not_reading: Callable[[], None]
    ) -> None:
        self.unacknowledged = 0
        """The number of bytes received on the connection for which no window update has been sent yet."""
        self._h2 = h2
        self._window = window
        self._on_done = on_done
        self._on_not_reading = on_not_reading
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._blocked: dict[int, Http2Stream] = {}
        self._updates = bytearray()
        self._consumed = 0
        self._unread = 0
        self._is_full = False
        self._is_flushing = False

    def open(self, transport: asyncio.Transport) -> None:
        """Start writing to a transport."""
        self._transport = transport

    def close(self) -> None:
        """Stop writing."""
        self._transport = None
        self._blocked.clear()

    def push(self, stream: Http2Stream) -> None:
        """Send the queued data of a stream as far as flow control and the transport allow."""
        if not (self._is_full or self._blocked):
            self._send_frame(stream)
            self.flush_soon()
        if stream.has_more:
            self._blocked[stream.number] = stream
            self.pump()

    def drop(self, stream: Http2Stream) -> None:
        """Remove a stream from the queue."""
        self._blocked.pop(stream.number, None)

    def pump(self) -> None:
        """Let blocked streams send in turn until none of them can send any more."""
        has_moved = True
        while has_moved and self._blocked and self._transport is not None and not self._is_full:
            has_moved = False
            for number, stream in list(self._blocked.items()):
                has_moved |= self._send_frame(stream)
                if not stream.has_more:
                    self._blocked.pop(number, None)
            self.flush()

    def pause(self) -> None:
        """Record that the transport's buffer is full."""
        self._is_full = True

    def resume(self) -> None:
        """Continue sending after the transport's buffer has drained."""
        self._is_full = False
        self._unread = 0
        self.pump()

    # ── receive windows ──

    def credit(self, size: int) -> None:
        """Count `size` bytes as consumed. Send a window update for every quarter of the connection's window."""
        self._consumed += size
        if self._consumed >= self._window // 4:
            self.grant(0, self._consumed)
            self.unacknowledged -= self._consumed
            self._consumed = 0

    def grant(self, number: int, size: int) -> None:
        """Queue a window update of `size` bytes for a stream, or for the connection (number 0)."""
        self._updates += frames.window_update(number, size)
        self.flush_soon()

    # ── writing ──

    def flush_soon(self) -> None:
        """Arrange for all queued bytes to be written at the end of this iteration of the event loop."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write all queued bytes."""
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
                self._on_not_reading()

    def _send_frame(self, stream: Http2Stream) -> bool:
        """Send up to one frame of a stream. Return whether anything was sent."""
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
