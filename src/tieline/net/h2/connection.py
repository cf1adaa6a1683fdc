"""An HTTP/2 connection in the client role, with many two-way streams.

The library h2 keeps the protocol state. `Http2ClientConnection` reads frames, owns the streams and decides when the
connection ends. A window update is sent only after a reader has taken the data. So a slow reader blocks only its own
stream, until the window of the whole connection is used up.

One timer per connection serves three purposes: it closes a connection without streams after a while, pings a silent
connection with streams, and drops a connection that does not reply to the ping.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    Event,
    PingAckReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import FlowControlError, ProtocolError
from h2.settings import SettingCodes, Settings

from tieline.net.client.response import Fields, Phase, PipeError, Reason, Timeouts
from tieline.net.h2 import frames as frames
from tieline.net.h2.stream import SLACK, Http2Stream
from tieline.net.h2.writer import Http2Writer

DEFAULT_WINDOW = 65535
"""HTTP/2's initial connection window, in bytes. SETTINGS frames cannot change it."""

MAX_HEADER_BYTES = 64 * 1024

MAX_EARLY = 1024 * 1024
"""Maximum number of bytes that are kept if a tunnel delivers data before it calls `connection_made`."""

LAST_STREAM_ID = 20_001
"""Number of the last stream on a connection: about the 10,000th stream, because the client uses odd numbers only.

Later streams use a new connection, because h2 keeps state for every stream.
"""

CLOSE_TIMEOUT = 1.0
"""Seconds that a closing connection has to send its last frames before it is aborted."""

PING = b"tieline?"

_CONFIGURATION = H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False)


@dataclass(frozen=True, slots=True)
class Http2Config:
    """The settings of every connection. Windows are in bytes, times in seconds."""

    streams: int
    stream_window: int
    window: int
    ping_after: float
    ping_wait: float
    idle_keep: float


class Http2ClientConnection(asyncio.Protocol):
    """One connection and its open streams."""

    def __init__(
        self,
        where: str,
        config: Http2Config,
        on_room: Callable[[], None],
        on_lost: Callable[["Http2ClientConnection"], None],
    ) -> None:
        self.where = where
        self.is_alive = False
        self.is_settled = False
        """Whether the peer has sent its SETTINGS, which contain the number of streams it allows."""
        self.is_leaving = False
        """Whether the connection accepts no new streams because it is about to be closed."""
        self.failure: PipeError | None = None
        self._config = config
        self._on_room = on_room
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(_CONFIGURATION)
        self._writer = Http2Writer(self._h2, config.window, self._forget, self._fail_not_reading)
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Http2Stream] = {}
        self._early = b""
        self._rest = b""
        self._goaway = ""
        self._is_aborted = False
        self._received_at = self._idle_since = self._loop.time()
        self._pinged_at = self._closed_at = -inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf

    @property
    def is_made(self) -> bool:
        return self._transport is not None

    @property
    def room(self) -> int:
        """How many more streams may be opened now. Until the peer has sent its SETTINGS, only one stream is allowed."""
        if self.is_leaving or not self.is_alive:
            return 0
        limit = min(self._config.streams, self._h2.remote_settings.max_concurrent_streams) if self.is_settled else 1
        return limit - len(self._streams)

    @property
    def expected_room(self) -> int:
        """How many more streams can probably be opened once the peer has sent its SETTINGS; 0 if it has sent them."""
        is_new = self.is_alive and not (self.is_settled or self.is_leaving)
        return self._config.streams - len(self._streams) if is_new else 0

    def open(self, fields: Fields, timeouts: Timeouts) -> Http2Stream:
        """Open a stream by sending the head of a request. `room` must be positive."""
        number = self._h2.get_next_available_stream_id()
        self._h2.send_headers(number, fields)
        stream = self._streams[number] = Http2Stream(self, number, timeouts, self._loop)
        self.is_leaving = number >= LAST_STREAM_ID
        self._writer.flush_soon()
        self._arm()
        return stream

    def abort(self) -> None:
        """Drop the connection without notifying its streams."""
        self.is_alive = False
        self._is_aborted = True
        self._writer.close()
        if self._transport is not None:
            self._transport.abort()

    def shut(self) -> None:
        """Drop the connection because the HTTP client is being closed, and fail its streams."""
        self._fail("reset", "was disconnected: the HTTP/2 client is closing")
        self.abort()

    # ── called by a stream ──

    def push(self, stream: Http2Stream) -> None:
        """Send the queued data of a stream as far as flow control and the transport allow."""
        self._writer.push(stream)

    def credit(self, stream: Http2Stream, size: int) -> None:
        """Count `size` bytes of a stream as consumed. Send a window update for every quarter of the stream's window."""
        stream.consumed += size
        if stream.consumed >= self._config.stream_window // 4 and not (stream.is_over or stream.is_gone):
            self._writer.grant(stream.number, stream.consumed)
            stream.unacknowledged -= stream.consumed
            stream.consumed = 0
        self._writer.credit(size)

    def cancel(self, stream: Http2Stream) -> None:
        """Reset a stream that is no longer wanted."""
        self._reset(stream, ErrorCodes.CANCEL)

    # ── asyncio.Protocol ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.Transport", transport)
        if self._is_aborted:
            # The loop may complete a connection attempt that was cancelled or lost.
            made.abort()
            return
        self._transport = made
        self.is_alive = True
        self._writer.open(made)
        self._send_preface()
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            # An HTTP/2 server may send first, even before the tunnel calls `connection_made`.
            self._early = (self._early + data)[:MAX_EARLY]
            return
        if not self.is_alive:
            return
        self._received_at = self._loop.time()
        if self._rest:
            data = self._rest + data
        try:
            self._rest = data[self._read(data) :] if self.is_settled or self._is_preface_valid(data) else data
        except ProtocolError as error:
            self._on_protocol_error(error)
        else:
            self._writer.flush()

    def eof_received(self) -> None:
        self.is_leaving = True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            self._is_aborted = True
            return
        if self.is_alive:
            self._fail_by_close(exc)
        if self._timer is not None:
            self._timer.cancel()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    # ── reading ──

    def _send_preface(self) -> None:
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: self._config.stream_window,
                SettingCodes.MAX_CONCURRENT_STREAMS: self._config.streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
            },
        )
        self._h2.initiate_connection()
        if self._config.window > DEFAULT_WINDOW:
            self._writer.grant(0, self._config.window - DEFAULT_WINDOW)
        self._writer.flush()
        self._arm()

    def _is_preface_valid(self, data: bytes) -> bool:
        """Return whether the first bytes from the peer are complete and valid.

        If they are invalid, fail the connection.
        """
        complaint = frames.check_preface(data)
        if complaint:
            self._fail("protocol", complaint, phase="connect", sent=False)
        return complaint == ""

    def _read(self, data: bytes) -> int:
        """Process the complete frames in `data`, and return the offset at which they end."""
        at, end = 0, len(data)
        while end - at >= frames.HEAD_SIZE and self.is_alive:
            high, low, kind, flags, number = frames.HEAD.unpack_from(data, at)
            size = high << 8 | low
            if size > frames.MAX_FRAME:
                raise ProtocolError(f"a frame of {size} bytes is larger than we accept")
            start = at + frames.HEAD_SIZE
            stop = start + size
            if stop > end:
                break
            if kind == frames.DATA:
                self._receive_data(number & frames.NUMBER_MASK, flags, data[start:stop])
            elif kind == frames.GOAWAY:
                self._receive_goaway(data[start:stop])
            else:
                self._receive(data[at:stop])
            at = stop
        return at

    def _receive_data(self, number: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        stream = self._streams.get(number)
        self._writer.unacknowledged += size
        if stream is None or stream.is_over or not stream.code:
            self._receive_unwanted(number, size)
            return
        stream.unacknowledged += size
        if stream.unacknowledged > self._config.stream_window or self._writer.unacknowledged > self._config.window:
            raise FlowControlError("more data than the window allows")
        if flags & frames.PADDED:
            payload = frames.unpadded(payload)
            self.credit(stream, size - len(payload))
        stream.incoming += payload
        if flags & frames.END_STREAM:
            self._receive(frames.last_trailers(number))
        elif payload:
            stream.wake()

    def _receive_unwanted(self, number: int, size: int) -> None:
        """Handle data for a stream that does not expect any. It still counts against the connection's window."""
        if not number & 1 or number > self._h2.highest_outbound_stream_id:
            raise ProtocolError("data for a stream that was never opened")
        stream = self._streams.get(number)
        if stream is not None:
            self._reset(stream, ErrorCodes.PROTOCOL_ERROR)
            stream.fail(stream.failure("protocol", "sent data before the head or after the end of a response"))
        self._writer.credit(size)

    def _receive(self, frame: bytes) -> None:
        for event in self._h2.receive_data(frame):
            match event:
                case WindowUpdated():
                    self._writer.pump()
                case PingAckReceived():
                    self._arm()
                case RemoteSettingsChanged():
                    self.is_settled = True
                    self._writer.pump()
                    self._on_room()
                case ResponseReceived() | TrailersReceived() | StreamEnded() | StreamReset():
                    # Ignore events for a stream that is already closed.
                    stream = self._streams.get(event.stream_id)
                    if stream is not None:
                        self._receive_for(stream, event)
                case _:
                    pass

    def _receive_for(self, stream: Http2Stream, event: Event) -> None:
        match event:
            case ResponseReceived():
                self._begin(stream, event.headers)
            case TrailersReceived():
                stream.trail(event.headers)
            case StreamEnded():
                stream.finish()
                if stream.is_ended:
                    self._forget(stream)
            case StreamReset():
                self._forget(stream)
                stream.fail(_reset_error(stream, int(event.error_code or 0)))
            case _:
                pass

    def _begin(self, stream: Http2Stream, fields: Fields) -> None:
        status = dict(fields).get(b":status", b"")
        if len(status) == 3 and status.isdigit():
            stream.begin(int(status), [field for field in fields if field[0] != b":status"])
        else:
            self._reset(stream, ErrorCodes.PROTOCOL_ERROR)
            stream.fail(stream.failure("protocol", "sent a response without a status"))

    def _receive_goaway(self, payload: bytes) -> None:
        last, code, description = frames.read_goaway(payload)
        self.is_leaving = True
        self._goaway = f" after announcing it ({description})"
        for stream in [stream for number, stream in self._streams.items() if number > last]:
            self._forget(stream)
            stream.fail(_refusal(stream, code, description))
        self._leave_if_empty()
        self._on_room()

    # ── endings of a stream ──

    def _reset(self, stream: Http2Stream, code: ErrorCodes) -> None:
        if self.is_alive:
            # Do this first: `_forget` makes room for a new stream, whose head must not precede the reset on the wire.
            self._h2.reset_stream(stream.number, code)
            self._writer.flush_soon()
        self._forget(stream)

    def _forget(self, stream: Http2Stream) -> None:
        stream.is_gone = True
        stream.retire()
        self._writer.drop(stream)
        self._streams.pop(stream.number, None)
        if not self._streams:
            self._idle_since = self._loop.time()
            self._leave_if_empty()
            self._arm()
        self._on_room()

    # ── endings of the connection ──

    def _leave_if_empty(self) -> None:
        if self.is_leaving and not self._streams:
            self._loop.call_soon(self._leave)

    def _leave(self) -> None:
        """If there are no streams, send GOAWAY and close the connection."""
        if self.is_alive and not self._streams:
            self._h2.close_connection()
            self._close()

    def _on_protocol_error(self, error: ProtocolError) -> None:
        """Send GOAWAY with the error code and close the connection."""
        self._h2.clear_outbound_data_buffer()
        self._h2.close_connection(error.error_code)
        self._close()
        self._fail("protocol", f"violated the HTTP/2 protocol: {error}")

    def _close(self) -> None:
        """Close the connection after the queued frames have been sent, or after CLOSE_TIMEOUT."""
        self._writer.flush()
        self._writer.close()
        self.is_alive = False
        self._closed_at = self._loop.time()
        self._arm()
        if self._transport is not None:
            self._transport.close()

    def _fail_by_close(self, exc: Exception | None) -> None:
        if self.is_settled:
            self._fail("reset", f"closed the connection{self._goaway}", cause=exc)
        elif self._rest.startswith(b"HTTP/"):
            self._fail("protocol", "did not respond with HTTP/2", phase="connect", sent=False)
        else:
            self._fail("reset", "closed the connection without sending HTTP/2", phase="connect", cause=exc)

    def _fail_not_reading(self) -> None:
        self._fail("timeout", "keeps sending but does not read")

    def _fail(
        self,
        reason: Reason,
        complaint: str,
        *,
        phase: Phase | None = None,
        sent: bool = True,
        cause: Exception | None = None,
    ) -> None:
        """Drop the connection and fail every stream on it.

        `complaint` completes the error message, which begins with the name of the peer.
        """
        if self._closed_at == -inf:
            self.abort()
        self.failure = PipeError("connect", reason, f"{self.where} {complaint}", sent=False)
        streams = list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            error = stream.failure(reason, complaint, sent=sent, phase=phase)
            error.__cause__ = cause
            stream.fail(error)

    # ── time ──

    def _due(self) -> float:
        """Return the time at which the timer has to fire next."""
        if self._closed_at > -inf:
            return self._closed_at + CLOSE_TIMEOUT
        if not self._streams:
            return self._idle_since + self._config.idle_keep
        if self._received_at < self._pinged_at:
            return self._pinged_at + self._config.ping_wait
        return self._received_at + self._config.ping_after

    def _arm(self) -> None:
        due = self._due()
        if due < self._timer_at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = inf
        now = self._loop.time()
        if now + SLACK >= self._due():
            self._act(now)
        if not self._is_aborted:
            self._arm()

    def _act(self, now: float) -> None:
        if self._closed_at > -inf:
            self.abort()
        elif not self._streams:
            self._leave()
        elif self._received_at < self._pinged_at:
            self._fail("timeout", "did not reply to a ping: the connection is dead")
        else:
            self._pinged_at = now
            self._h2.ping(PING)
            self._writer.flush()


def _reset_error(stream: Http2Stream, code: int) -> PipeError:
    description = frames.error_name(code)
    if code in (ErrorCodes.REFUSED_STREAM, ErrorCodes.HTTP_1_1_REQUIRED):
        return _refusal(stream, code, description)
    return stream.failure("reset", f"reset the stream ({description})")


def _refusal(stream: Http2Stream, code: int, description: str) -> PipeError:
    if code == ErrorCodes.HTTP_1_1_REQUIRED:
        return stream.failure("protocol", "requires HTTP/1.1 instead of HTTP/2", phase="connect", sent=False)
    return stream.failure("refused", f"refused the stream ({description})", sent=False)
