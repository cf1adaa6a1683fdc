"""An HTTP/2 connection in the client's role, which carries many two-way streams at a time.

h2 decides what may be said; this class reads frames, keeps the streams and knows when the connection must end. A peer
gets its window back when a reader has taken the data, so a slow reader holds up its own stream and no other, until the
window of the whole connection is used up.

One timer per connection, never moved forward, serves three ends: a connection without streams is closed after a while,
one with streams that has been silent is asked for a sign of life, and one that gives none is dead.
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

from tieline.net.client.body import Fields, Phase, PipeError, Reason, Timeouts
from tieline.net.h2 import frames as frames
from tieline.net.h2.outlet import Outlet
from tieline.net.h2.stream import SLACK, Duplex

DEFAULT_WINDOW = 65535
"""What a connection grants before anybody says otherwise; it cannot grant less."""

MAX_HEADER_BYTES = 64 * 1024

MAX_EARLY = 1024 * 1024
"""What may come through a tunnel before we are told that it is open."""

LAST_NUMBER = 20_001
"""A connection that has carried ten thousand streams makes way for a new one: h2 remembers them all."""

GRACE = 1.0
"""How long the last words of a connection may take."""

PING = b"tieline?"

_CONFIGURATION = H2Configuration(client_side=True, header_encoding=None, validate_outbound_headers=False)


@dataclass(frozen=True, slots=True)
class Terms:
    """What we grant and expect on every connection; windows are in bytes, times in seconds."""

    streams: int
    stream_window: int
    window: int
    ping_after: float
    ping_wait: float
    idle_keep: float


class Connection(asyncio.Protocol):
    """One connection and the streams that are open on it."""

    def __init__(
        self, where: str, terms: Terms, on_room: Callable[[], None], on_lost: Callable[["Connection"], None]
    ) -> None:
        self.where = where
        self.is_alive = False
        self.is_settled = False
        """The peer has greeted us in HTTP/2 and said how many streams it takes."""
        self.is_leaving = False
        """No new streams here."""
        self.failure: PipeError | None = None
        self._terms = terms
        self._on_room = on_room
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(_CONFIGURATION)
        self._outlet = Outlet(self._h2, terms.window, self._forget, self._fail_deaf)
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Duplex] = {}
        self._early = b""
        self._rest = b""
        self._farewell = ""
        self._is_given_up = False
        self._heard_at = self._idle_since = self._loop.time()
        self._pinged_at = self._closed_at = -inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = inf

    @property
    def is_made(self) -> bool:
        return self._transport is not None

    @property
    def room(self) -> int:
        """How many more streams may be opened now; until the peer has said how many it takes, one."""
        if self.is_leaving or not self.is_alive:
            return 0
        limit = min(self._terms.streams, self._h2.remote_settings.max_concurrent_streams) if self.is_settled else 1
        return limit - len(self._streams)

    @property
    def hope(self) -> int:
        """How many streams there may be room for once the peer has said how many it takes."""
        is_new = self.is_alive and not (self.is_settled or self.is_leaving)
        return self._terms.streams - len(self._streams) if is_new else 0

    def open(self, fields: Fields, timeouts: Timeouts) -> Duplex:
        """Send the head of a request; there must be room."""
        number = self._h2.get_next_available_stream_id()
        self._h2.send_headers(number, fields)
        stream = self._streams[number] = Duplex(self, number, timeouts, self._loop)
        self.is_leaving = number >= LAST_NUMBER
        self._outlet.flush_soon()
        self._arm()
        return stream

    def abort(self) -> None:
        """Drop the connection now, without a word to anybody."""
        self.is_alive = False
        self._is_given_up = True
        self._outlet.close()
        if self._transport is not None:
            self._transport.abort()

    def shut(self) -> None:
        """Drop the connection because the client closes, and say so to everybody on it."""
        self._fail("reset", "was left: the HTTP/2 client is closing")
        self.abort()

    # ── what a stream asks of it ──

    def push(self, stream: Duplex) -> None:
        """Send what a stream has to say, as far as the peer and the transport let it."""
        self._outlet.push(stream)

    def credit(self, stream: Duplex, size: int) -> None:
        """Its reader has taken so many bytes: the peer may send as many more, and hears of it now and then."""
        stream.owed += size
        if stream.owed >= self._terms.stream_window // 4 and not (stream.is_over or stream.is_gone):
            self._outlet.grant(stream.number, stream.owed)
            stream.held -= stream.owed
            stream.owed = 0
        self._outlet.credit(size)

    def cancel(self, stream: Duplex) -> None:
        """Tell the peer that a stream is no longer wanted."""
        self._reset(stream, ErrorCodes.CANCEL)

    # ── asyncio.Protocol ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast("asyncio.Transport", transport)
        if self._is_given_up:
            # A loop may still finish what was cancelled, or lost, while it was connecting.
            made.abort()
            return
        self._transport = made
        self.is_alive = True
        self._outlet.open(made)
        self._greet()
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            # In HTTP/2 a server may speak first, even before the one who made the tunnel has told us that it is open.
            self._early = (self._early + data)[:MAX_EARLY]
            return
        if not self.is_alive:
            return
        self._heard_at = self._loop.time()
        if self._rest:
            data = self._rest + data
        try:
            self._rest = data[self._read(data) :] if self.is_settled or self._is_greeting(data) else data
        except ProtocolError as error:
            self._object(error)
        else:
            self._outlet.flush()

    def eof_received(self) -> None:
        self.is_leaving = True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            self._is_given_up = True
            return
        if self.is_alive:
            self._fail_by_close(exc)
        if self._timer is not None:
            self._timer.cancel()
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._outlet.pause()

    def resume_writing(self) -> None:
        self._outlet.resume()

    # ── reading ──

    def _greet(self) -> None:
        self._h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: self._terms.stream_window,
                SettingCodes.MAX_CONCURRENT_STREAMS: self._terms.streams,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
            },
        )
        self._h2.initiate_connection()
        if self._terms.window > DEFAULT_WINDOW:
            self._outlet.grant(0, self._terms.window - DEFAULT_WINDOW)
        self._outlet.flush()
        self._arm()

    def _is_greeting(self, data: bytes) -> bool:
        """Whether the first bytes of the peer are enough to say that it speaks HTTP/2."""
        complaint = frames.misgreeting(data)
        if complaint:
            self._fail("protocol", complaint, phase="connect", sent=False)
        return complaint == ""

    def _read(self, data: bytes) -> int:
        """Take the whole frames out of what has arrived and say where they end."""
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
        self._outlet.held += size
        if stream is None or stream.is_over or not stream.code:
            self._receive_unwanted(number, size)
            return
        stream.held += size
        if stream.held > self._terms.stream_window or self._outlet.held > self._terms.window:
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
        """Data for a stream that was closed here still counts for the connection; the peer may not have known."""
        if not number & 1 or number > self._h2.highest_outbound_stream_id:
            raise ProtocolError("data for a stream that was never opened")
        stream = self._streams.get(number)
        if stream is not None:
            self._reset(stream, ErrorCodes.PROTOCOL_ERROR)
            stream.fail(stream.failure("protocol", "sent data before the head or after the end of a response"))
        self._outlet.credit(size)

    def _receive(self, frame: bytes) -> None:
        for event in self._h2.receive_data(frame):
            match event:
                case WindowUpdated():
                    self._outlet.pump()
                case PingAckReceived():
                    self._arm()
                case RemoteSettingsChanged():
                    self.is_settled = True
                    self._outlet.pump()
                    self._on_room()
                case ResponseReceived() | TrailersReceived() | StreamEnded() | StreamReset():
                    # What comes for a stream that was closed here meanwhile concerns nobody.
                    stream = self._streams.get(event.stream_id)
                    if stream is not None:
                        self._receive_for(stream, event)
                case _:
                    pass

    def _receive_for(self, stream: Duplex, event: Event) -> None:
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

    def _begin(self, stream: Duplex, fields: Fields) -> None:
        status = dict(fields).get(b":status", b"")
        if len(status) == 3 and status.isdigit():
            stream.begin(int(status), [field for field in fields if field[0] != b":status"])
        else:
            self._reset(stream, ErrorCodes.PROTOCOL_ERROR)
            stream.fail(stream.failure("protocol", "sent a response without a status"))

    def _receive_goaway(self, payload: bytes) -> None:
        last, code, words = frames.read_goaway(payload)
        self.is_leaving = True
        self._farewell = f" after it had said that it would ({words})"
        for stream in [stream for number, stream in self._streams.items() if number > last]:
            self._forget(stream)
            stream.fail(_refusal(stream, code, words))
        self._leave_if_empty()
        self._on_room()

    # ── endings of a stream ──

    def _reset(self, stream: Duplex, code: ErrorCodes) -> None:
        if self.is_alive:
            # Before it is forgotten: a stream that takes its place must not come first on the wire.
            self._h2.reset_stream(stream.number, code)
            self._outlet.flush_soon()
        self._forget(stream)

    def _forget(self, stream: Duplex) -> None:
        stream.is_gone = True
        stream.retire()
        self._outlet.drop(stream)
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
        """Say goodbye and go, if nobody needs the connection."""
        if self.is_alive and not self._streams:
            self._h2.close_connection()
            self._hang_up()

    def _object(self, error: ProtocolError) -> None:
        """The peer has broken the rules: tell it so, once, and go."""
        self._h2.clear_outbound_data_buffer()
        self._h2.close_connection(error.error_code)
        self._hang_up()
        self._fail("protocol", f"does not keep to HTTP/2: {error}")

    def _hang_up(self) -> None:
        """Go as soon as the last words are out; the timer sees to it that this does not take long."""
        self._outlet.flush()
        self._outlet.close()
        self.is_alive = False
        self._closed_at = self._loop.time()
        self._arm()
        if self._transport is not None:
            self._transport.close()

    def _fail_by_close(self, exc: Exception | None) -> None:
        if self.is_settled:
            self._fail("reset", f"closed the connection{self._farewell}", cause=exc)
        elif self._rest.startswith(b"HTTP/"):
            self._fail("protocol", "does not answer in HTTP/2", phase="connect", sent=False)
        else:
            self._fail("reset", "closed the connection without a word of HTTP/2", phase="connect", cause=exc)

    def _fail_deaf(self) -> None:
        self._fail("timeout", "asks on and on and does not read the answers")

    def _fail(
        self,
        reason: Reason,
        complaint: str,
        *,
        phase: Phase | None = None,
        sent: bool = True,
        cause: Exception | None = None,
    ) -> None:
        """The connection is of no use any more: every stream on it fails."""
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
        """When the timer is needed next."""
        if self._closed_at > -inf:
            return self._closed_at + GRACE
        if not self._streams:
            return self._idle_since + self._terms.idle_keep
        if self._heard_at < self._pinged_at:
            return self._pinged_at + self._terms.ping_wait
        return self._heard_at + self._terms.ping_after

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
        if not self._is_given_up:
            self._arm()

    def _act(self, now: float) -> None:
        if self._closed_at > -inf:
            self.abort()
        elif not self._streams:
            self._leave()
        elif self._heard_at < self._pinged_at:
            self._fail("timeout", "gave no sign of life: the connection is dead")
        else:
            self._pinged_at = now
            self._h2.ping(PING)
            self._outlet.flush()


def _reset_error(stream: Duplex, code: int) -> PipeError:
    words = frames.error_words(code)
    if code in (ErrorCodes.REFUSED_STREAM, ErrorCodes.HTTP_1_1_REQUIRED):
        return _refusal(stream, code, words)
    return stream.failure("reset", f"broke the stream off ({words})")


def _refusal(stream: Duplex, code: int, words: str) -> PipeError:
    if code == ErrorCodes.HTTP_1_1_REQUIRED:
        return stream.failure("protocol", "does not want HTTP/2 here, but HTTP/1.1", phase="connect", sent=False)
    return stream.failure("refused", f"did not take the stream ({words})", sent=False)
