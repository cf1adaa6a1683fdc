"""A WebSocket on a client's connection, after the handshake.

The `websockets` package implements the protocol, except for the frames of text messages to the client. This module also
adds I/O: flow control, timeouts and closing. Binary messages and extensions are not supported. The module is imported
when the first WebSocket is opened (ADR 19).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from struct import Struct

from websockets.frames import BINARY, CLOSE, CONT, TEXT, CloseCode, Frame
from websockets.protocol import SEND_EOF, State
from websockets.server import ServerProtocol
from websockets.utils import accept_key

from tieline.net.server.connection import ClientConnection

log = logging.getLogger("tieline.serving")

_protocol_log = logging.getLogger("tieline.serving.websocket")
_protocol_log.setLevel(logging.WARNING)  # below that, `websockets` logs the content of every frame

MAX_MESSAGES = 16
MAX_BUFFER = 64 * 1024
"""Reading pauses while more than this many bytes, or at least MAX_MESSAGES messages, wait for the application."""
SLICE = 8 * 1024
"""Maximum number of bytes that are parsed at once. Even so few bytes can contain over a thousand frames."""
MAX_FRAMES = 64
"""The number of frames after which parsing pauses so that other tasks can run."""
MAX_REASON = 123
"""Maximum length of the reason in a close frame, in bytes."""

PING_INTERVAL = 30.0
"""Seconds without data from the client after which a ping is sent to it."""
STALL_TIMEOUT = 300.0
"""Seconds after which a client is dropped if it accepts no data, or does not reply to a ping."""
IDLE_TIMEOUT = 3600.0
"""Seconds without a message in either direction after which the connection is closed."""
CLOSE_TIMEOUT = 10.0
"""Seconds that a client may take to reply to a close frame."""

_FINAL_TEXT = 0x81
"""The first byte of a frame that contains a whole text message."""
_MAX_SHORT, _MAX_MEDIUM = 125, 0xFFFF
"""The largest sizes that fit into the second byte of a frame, and into the two bytes after it."""
_SHORT_HEADER, _MEDIUM_HEADER, _LONG_HEADER = Struct("!BB").pack, Struct("!BBH").pack, Struct("!BBQ").pack

Hold = Callable[[int], bool]
"""Called with each change in the number of held bytes. Returns False if too many are held for all clients together."""


class WebSocket:
    """The server's end of a WebSocket.

    Only one task at a time may call `receive`; any number of tasks may call `send`. Whenever the number of bytes held
    for the application changes, `hold` is called with the difference.
    """

    __slots__ = (
        "_closed_at",
        "_connection",
        "_heard_at",
        "_held",
        "_hold",
        "_incomplete",
        "_is_paused",
        "_is_pinged",
        "_is_stopping",
        "_loop",
        "_message_at",
        "_messages",
        "_must_write",
        "_partial",
        "_paused_at",
        "_protocol",
        "_queued",
        "_receiver",
        "_unparsed",
    )

    def __init__(self, connection: ClientConnection, max_size: int, hold: Hold) -> None:
        self._connection = connection
        self._loop = connection.loop
        self._protocol = ServerProtocol(state=State.OPEN, max_size=max_size, logger=_protocol_log)
        self._is_stopping = False
        # Received data.
        self._unparsed = b""
        """Received bytes that are not parsed until the application has taken the messages before them."""
        self._incomplete = 0
        """How many bytes of an incomplete frame have arrived."""
        self._partial = bytearray()
        """The fragments of an incomplete message that have arrived."""
        self._messages: deque[bytes] = deque()
        self._queued = 0
        """The total size in bytes of the messages that wait for the application."""
        self._hold: Hold | None = hold
        self._held = 0
        """The number of held bytes that was last reported to `hold`."""
        self._receiver: asyncio.Future[None] | None = None
        self._is_paused = False
        """Whether reading is paused until `_continue` is called."""
        self._must_write = False
        """Whether replies to pings have filled the write buffer. If so, nothing more is parsed until it has room."""
        # Event-loop times, for the timeouts.
        self._heard_at = self._message_at = self._paused_at = self._closed_at = self._loop.time()
        self._is_pinged = False

    # ── called by the application ──

    @property
    def is_open(self) -> bool:
        """Whether messages can still reach the client: neither side has closed the connection."""
        return self._protocol.state is State.OPEN

    async def receive(self) -> bytes | None:
        """Return the next message as UTF-8 text, or None if the client has disconnected or the gateway is stopping.

        If the gateway is stopping, `is_open` is still true, and messages can be sent until the application returns.
        """
        while self.is_open and not self._is_stopping:
            if self._messages:
                message = self._messages.popleft()
                self._queued -= len(message)
                self._count()
                self._continue()
                return message
            if self._receiver is not None:
                raise RuntimeError("another task waits in `receive`")
            self._receiver = self._loop.create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        return None

    def send(self, *texts: bytes) -> Awaitable[None]:
        """Send messages (UTF-8 text) in one write. If the connection is closed, drop them."""
        connection = self._connection
        if connection.is_write_paused:
            return self._send_later(texts)
        if texts and self.is_open:
            connection.transport.write(_frames(texts))
            self._message_at = self._loop.time()
        return connection.done

    def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> Awaitable[None]:
        """Send a close frame, unless the connection is closed already. A long reason is truncated.

        This does not wait for the client's reply. The connection is closed when the reply has arrived, or after a
        timeout.
        """
        if self.is_open:
            self._protocol.send_close(int(code), _cut(reason))
            self._closed_at = self._loop.time()
            self._flush()
            self._drop_messages()
            self._connection.restart_timeout(CLOSE_TIMEOUT)
            self._continue()
        return self._connection.done

    # ── called by the cycle and the connection ──

    @staticmethod
    def accepted_key(key: bytes) -> bytes:
        """Return the value of `Sec-WebSocket-Accept` for a client's `Sec-WebSocket-Key`."""
        return accept_key(key.decode("ascii")).encode()

    def end(self, *, has_failed: bool) -> None:
        """Close the connection after the application has returned. `has_failed` says whether it raised an exception."""
        self._hold = None  # the application has released the bytes that it counted
        if has_failed:
            self.close(CloseCode.INTERNAL_ERROR, "Something went wrong inside the gateway.")
        elif self._is_stopping:
            self.close(CloseCode.GOING_AWAY, "The gateway is being stopped.")
        else:
            self.close()

    def stop(self) -> None:
        """Accept no further messages, so that the application returns. Messages that it still sends are delivered."""
        self._is_stopping = True
        self._drop_messages()

    def feed(self, data: bytes) -> None:
        """Process bytes from the client. They may begin and end anywhere in a frame."""
        self._heard_at = self._loop.time()
        self._is_pinged = False
        self._unparsed += data
        self._parse()

    def on_write_paused(self) -> None:
        """Start the stall timeout."""
        self._paused_at = self._loop.time()

    def on_write_resumed(self) -> None:
        """Continue parsing if it was waiting for the write buffer. Restart the time limit for the reply to a ping."""
        self._must_write = False
        self._heard_at = self._loop.time()
        self._continue()

    def on_lost(self) -> None:
        """Wake the application and free all buffers."""
        self._protocol.receive_eof()
        self._unparsed = b""
        self._drop_messages()

    # ── timeouts ──

    def deadline(self) -> float:
        """Return the event-loop time at which `on_timeout` is due."""
        if not self.is_open:
            return self._closed_at + CLOSE_TIMEOUT
        if self._connection.is_write_paused:
            return self._paused_at + STALL_TIMEOUT
        idle_until = self._message_at + IDLE_TIMEOUT
        if self._is_blocked():
            return idle_until
        return min(idle_until, self._heard_at + PING_INTERVAL + (STALL_TIMEOUT if self._is_pinged else 0.0))

    def on_timeout(self) -> None:
        """Send a ping to a silent client. Close or drop a connection whose time limit has passed."""
        if not self.is_open:
            self._connection.half_close()
        elif self._connection.is_write_paused:
            log.info("dropped a WebSocket client that read nothing for %.0f seconds", STALL_TIMEOUT)
            self._connection.transport.abort()
        elif self._loop.time() >= self._message_at + IDLE_TIMEOUT:
            self.close(CloseCode.GOING_AWAY, "There was no message for too long.")
        elif self._is_pinged:
            self._fail(CloseCode.INTERNAL_ERROR, "The ping was not answered.")
        else:
            self._is_pinged = True
            self._protocol.send_ping(b"")
            self._flush()
            self._connection.restart_timeout(PING_INTERVAL)

    # ── receiving ──

    def _is_blocked(self) -> bool:
        """Return whether parsing has to wait for the application, or for room in the write buffer."""
        if self._must_write:
            return True
        return self.is_open and (len(self._messages) >= MAX_MESSAGES or self._queued > MAX_BUFFER)

    def _parse(self) -> None:
        """Parse the received bytes. Pause reading if parsing takes long or has to wait."""
        data, at, frames = self._unparsed, 0, 0
        while at < len(data) and frames < MAX_FRAMES and not self._is_blocked():
            piece = data[at : at + SLICE]
            at += len(piece)
            self._protocol.receive_data(piece)
            events = self._protocol.events_received()
            self._incomplete = 0 if events else self._incomplete + len(piece)
            frames += len(events)
            for frame in events:
                self._on_frame(frame)  # type: ignore[arg-type] # after the handshake all events are frames
            self._flush()
        self._unparsed = data[at:]
        self._count()
        if self._connection.is_closing:
            self._unparsed = b""
        elif self._unparsed or self._is_blocked():
            self._is_paused = True
            self._connection.pause_reading()
            if not self._is_blocked():
                self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        """Resume parsing and then reading after a pause, unless parsing still has to wait."""
        if not self._is_paused or self._connection.is_closing or self._is_blocked():
            return
        self._is_paused = False
        self._heard_at = self._loop.time()  # a reply to a ping may be among the data that is read next
        self._parse()
        if not self._is_paused and not self._connection.is_closing:
            self._connection.resume_reading()

    def _on_frame(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode is CLOSE:
            self._drop_messages()
        elif self._is_stopping or not self.is_open:
            pass  # the application takes no more messages
        elif opcode is BINARY:
            self._fail(CloseCode.UNSUPPORTED_DATA, "Only text messages are accepted.")
        elif opcode is TEXT and frame.fin:
            self._on_message(bytes(frame.data))
        elif opcode is TEXT or opcode is CONT:
            self._partial += frame.data  # one buffer: a list of tiny fragments could take many times their size
            if frame.fin:
                message, self._partial = bytes(self._partial), bytearray()
                self._on_message(message)

    def _on_message(self, message: bytes) -> None:
        if not _is_utf8(message):
            self._fail(CloseCode.INVALID_DATA, "A message is not valid UTF-8.")
        else:
            self._messages.append(message)
            self._queued += len(message)
            self._message_at = self._heard_at
            self._wake()

    def _count(self) -> None:
        """Report the number of held bytes to `hold`. If there are too many, close the connection."""
        held = self._queued + len(self._partial) + self._incomplete
        change, self._held = held - self._held, held
        if change and self._hold is not None and not self._hold(change):
            self._fail(CloseCode.TRY_AGAIN_LATER, "The gateway is overloaded; try again in a moment.")

    def _drop_messages(self) -> None:
        """Drop all received messages, and wake the application, which will receive no more."""
        self._messages.clear()
        self._partial = bytearray()
        self._queued = self._incomplete = 0
        self._count()
        self._wake()

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    # ── sending ──

    async def _send_later(self, texts: tuple[bytes, ...]) -> None:
        await self._connection.drain()
        await self.send(*texts)

    def _fail(self, code: int, reason: str) -> None:
        """Close the connection without waiting for the client's close frame."""
        self._protocol.fail(int(code), reason)
        self._flush()
        self._drop_messages()

    def _flush(self) -> None:
        """Write the control frames that the protocol has queued. Close this side if the protocol requires it."""
        writes = self._protocol.data_to_send()
        if not writes or self._connection.is_closing:
            return
        self._connection.transport.write(b"".join(writes))
        self._must_write = self._connection.is_write_paused
        if writes[-1] == SEND_EOF:
            self._unparsed = b""
            self._drop_messages()
            if self._protocol.close_rcvd is None:
                self._connection.half_close()
            else:
                self._connection.close()  # the client sends nothing more, so this causes no reset


def _frames(texts: Sequence[bytes]) -> bytes:
    """Return the frames of text messages. The frame of a message is a header, followed by its text."""
    parts: list[bytes] = []
    for text in texts:
        size = len(text)
        if size <= _MAX_SHORT:
            header = _SHORT_HEADER(_FINAL_TEXT, size)
        elif size <= _MAX_MEDIUM:
            header = _MEDIUM_HEADER(_FINAL_TEXT, _MAX_SHORT + 1, size)
        else:
            header = _LONG_HEADER(_FINAL_TEXT, _MAX_SHORT + 2, size)
        parts += (header, text)
    return b"".join(parts)


def _cut(reason: str) -> str:
    return reason.encode()[:MAX_REASON].decode(errors="ignore")


def _is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
