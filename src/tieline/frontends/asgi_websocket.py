"""WebSockets on any ASGI server. The gateway's own server does not use this module."""

from collections.abc import Iterable, MutableMapping
from typing import Any

from tieline.frontends.http import AsgiCycle, Hold, Receive, Scope, Send, WebSocket

UNSUPPORTED_DATA, TOO_BIG = 1003, 1009
MAX_REASON = 123
"""Maximum number of bytes for the reason in a close frame."""
RESPONSE = "websocket.http.response"
"""The ASGI extension for refusing a handshake with an HTTP response."""


class AsgiWebSocket:
    """A WebSocket on an ASGI server. The server handles frames and pings, and limits the data that waits to be read."""

    __slots__ = ("_max_size", "_receive", "_send", "is_open")

    def __init__(self, receive: Receive, send: Send, max_size: int) -> None:
        self._receive = receive
        self._send = send
        self._max_size = max_size
        self.is_open = True

    async def receive(self) -> bytes | None:
        """Return the next message as UTF-8 text, or None if the connection is closed."""
        if not self.is_open:
            return None
        message = await self._receive()
        text: str | None = message.get("text")
        if message["type"] == "websocket.disconnect":
            self.is_open = False
        elif text is None:
            await self.close(UNSUPPORTED_DATA, "Only text messages are accepted.")
        elif len(data := text.encode()) > self._max_size:
            await self.close(TOO_BIG, f"A message may have {self._max_size} bytes.")
        else:
            return data
        return None

    async def send(self, *texts: bytes) -> None:
        """Send messages. Drop them if the client has disconnected."""
        for text in texts:
            await self._send_open({"type": "websocket.send", "text": text.decode()})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame, unless the connection is closed already."""
        cut = reason.encode()[:MAX_REASON].decode(errors="ignore")
        await self._send_open({"type": "websocket.close", "code": code, "reason": cut})
        self.is_open = False

    async def _send_open(self, message: MutableMapping[str, Any]) -> None:
        if not self.is_open:
            return
        try:
            await self._send(message)
        except OSError:  # how ASGI servers report that the client has left
            self.is_open = False


class AsgiWebSocketCycle(AsgiCycle):
    """A WebSocket handshake that an ASGI server has checked. An endpoint may also answer it like a GET request."""

    __slots__ = ("_asgi_receive", "_can_respond", "_is_connected", "_websocket")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, self._receive_as_http, send)
        self.is_upgrade = True
        self._asgi_receive = receive
        self._is_connected = False
        """Whether `websocket.connect`, the first ASGI message, was received."""
        self._can_respond = RESPONSE in (scope.get("extensions") or {})
        self._websocket: AsgiWebSocket | None = None

    async def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the head of a response that refuses the handshake.

        A server that does not support this sends its own response with status 403.
        """
        await self._connect()
        if self._can_respond:
            await self._send({"type": f"{RESPONSE}.start", "status": status, "headers": list(headers)})
        else:
            await self._send({"type": "websocket.close"})

    async def write(self, body: bytes, last: bool) -> None:
        """Send the next part of a body."""
        if self._can_respond:
            await self._send({"type": f"{RESPONSE}.body", "body": body, "more_body": not last})

    def upgrade_refusal(self) -> tuple[int, str] | None:
        """Return None, because the server has already checked the handshake."""
        return None

    async def accept(self, headers: Iterable[tuple[bytes, bytes]], max_size: int, _hold: Hold, /) -> WebSocket:
        """Complete the handshake."""
        await self._connect()
        await self._send({"type": "websocket.accept", "headers": list(headers)})
        self._websocket = AsgiWebSocket(self._asgi_receive, self._send, max_size)
        return self._websocket

    async def end(self) -> None:
        """Close the WebSocket after the application has returned."""
        if self._websocket is not None:
            await self._websocket.close()

    async def _connect(self) -> None:
        if not self._is_connected:
            self._is_connected = True
            await self._asgi_receive()

    async def _receive_as_http(self) -> MutableMapping[str, Any]:
        """Return the next ASGI message as for a GET request: first an empty body, then `http.disconnect`."""
        if self._is_connected:
            await self._asgi_receive()  # before the handshake is complete, only `websocket.disconnect` may follow
            return {"type": "http.disconnect"}
        await self._connect()
        return {"type": "http.request", "body": b"", "more_body": False}
