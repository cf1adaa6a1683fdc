"""A WebSocket on a client's connection, after the handshake.

The `websockets` package implements the protocol; this module adds I/O: flow control, timeouts and closing. Only text
messages are supported, and no extensions. The module is imported with the first WebSocket (ADR 19).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

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
"""Messages, and their bytes, that wait for the application before reading pauses."""
SLICE = 8 * 1024
"""Bytes that are parsed in one go. They may be a thousand frames."""
MAX_FRAMES = 64
"""Frames after which other tasks run before parsing continues."""
MAX_REASON = 123
"""Bytes of the reason in a close frame."""

PING_INTERVAL = 30.0
"""Seconds without a byte from the client after which it is sent a ping."""
STALL_TIMEOUT = 300.0
"""Seconds after which a client is dropped that reads nothing: it takes no data, or does not reply to a ping."""
IDLE_TIMEOUT = 3600.0
"""Seconds without a message in either direction after which the connection is closed."""
CLOSE_TIMEOUT = 10.0
"""Seconds a client may take to reply to a close frame."""

Hold = Callable[[int], bool]
"""Counts more bytes that are held for a client, or fewer; returns False if all clients together have too many."""


class WebSocket:
    """The server's end of a WebSocket.

    One task may wait in `receive`; any number may send. `hold` is called with every change of the number of bytes that
    are held for the application.
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
        # What has arrived.
        self._unparsed = b""
        """Bytes that wait until the messages before them are taken."""
        self._incomplete = 0
        """Bytes of the frame that is being received."""
        self._partial = bytearray()
        """The fragments so far of the message that is being received."""
        self._messages: deque[bytes] = deque()
        self._queued = 0
        """Bytes of the messages."""
        self._hold: Hold | None = hold
        self._held = 0
        """Bytes that `hold` has counted."""
        self._receiver: asyncio.Future[None] | None = None
        self._is_paused = False
        """Whether reading is paused until `_continue`."""
        self._must_write = False
        """Whether replies to pings have filled the write buffer; nothing more is parsed until it has room."""
        # Times of the event loop, for the timeouts.
        self._heard_at = self._message_at = self._paused_at = self._closed_at = self._loop.time()
        self._is_pinged = False

    # ── called by the application ──

    @property
    def is_open(self) -> bool:
        """Whether messages can still reach the client: neither side has closed the connection."""
        return self._protocol.state is State.OPEN

    async def receive(self) -> bytes | None:
        """Return the next message as UTF-8 text, or None if there will be no more.

        That is when the client has left or the gateway is being stopped; in the latter case `is_open` is still true,
        and messages can be sent until the application returns.
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
        """Send messages, each of them UTF-8 text, with one write; drop them if the connection is closed."""
        connection = self._connection
        if connection.is_write_paused:
            return self._send_later(texts)
        if texts and self.is_open:
            for text in texts:
                self._protocol.send_text(text)
            connection.transport.write(b"".join(self._protocol.data_to_send()))
            self._message_at = self._loop.time()
        return connection.done

    def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> Awaitable[None]:
        """Send a close frame, unless the connection is closed already. A long reason is cut off.

        This does not wait for the client's reply; the connection is closed when that has come, or after a timeout.
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
        """Close the connection after the application has returned."""
        self._hold = None  # the application has released what it counted
        if has_failed:
            self.close(CloseCode.INTERNAL_ERROR, "Something went wrong inside the gateway.")
        elif self._is_stopping:
            self.close(CloseCode.GOING_AWAY, "The gateway is being stopped.")
        else:
            self.close()

    def stop(self) -> None:
        """Take no further messages, so that the application returns. Those it still sends are delivered."""
        self._is_stopping = True
        self._drop_messages()

    def feed(self, data: bytes) -> None:
        """Process bytes from the client, split anywhere."""
        self._heard_at = self._loop.time()
        self._is_pinged = False
        self._unparsed += data
        self._parse()

    def on_write_paused(self) -> None:
        """Start the stall timeout."""
        self._paused_at = self._loop.time()

    def on_write_resumed(self) -> None:
        """Continue with what waits for room in the write buffer. A ping in it reaches the client only now."""
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
        """Return the time of the event loop at which `on_timeout` is due."""
        if not self.is_open:
            return self._closed_at + CLOSE_TIMEOUT
        if self._connection.is_write_paused:
            return self._paused_at + STALL_TIMEOUT
        idle_until = self._message_at + IDLE_TIMEOUT
        if self._is_blocked():
            return idle_until
        return min(idle_until, self._heard_at + PING_INTERVAL + (STALL_TIMEOUT if self._is_pinged else 0.0))

    def on_timeout(self) -> None:
        """Send a ping to a silent client; close or drop a connection that took too long."""
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
        """Parse what has arrived. Pause reading if that takes long or has to wait."""
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
        """Parse what was left, or read more, unless something still has to be waited for."""
        if not self._is_paused or self._connection.is_closing or self._is_blocked():
            return
        self._is_paused = False
        self._heard_at = self._loop.time()  # a reply to a ping may be in what is read now
        self._parse()
        if not self._is_paused and not self._connection.is_closing:
            self._connection.resume_reading()

    def _on_frame(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode is CLOSE:
            self._drop_messages()
        elif self._is_stopping or not self.is_open:
            pass  # nothing takes it
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
        """Report the bytes that are held; close the connection if they are too many."""
        held = self._queued + len(self._partial) + self._incomplete
        change, self._held = held - self._held, held
        if change and self._hold is not None and not self._hold(change):
            self._fail(CloseCode.TRY_AGAIN_LATER, "The gateway is overloaded; try again in a moment.")

    def _drop_messages(self) -> None:
        """Drop what was received; wake the application, for which there is nothing more."""
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
        """Write the control frames of the protocol; close our side if it says so."""
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
                self._connection.close()  # the client sends nothing more that a reset could answer


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
