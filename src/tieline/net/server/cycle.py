"""One request and its response on a server connection. The application uses a `RequestCycle` directly or through ASGI.

The head of a response is held back until the first part of the body, so that both are sent in one write.
"""

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tieline.net.server.request_head import Fields, Target, handshake_refusal

if TYPE_CHECKING:
    from tieline.net.server.websocket import WebSocket

log = logging.getLogger("tieline.serving")

Headers = Iterable[tuple[bytes, bytes]]

_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {_PHRASES.get(status, '')}".encode() for status in range(200, 600)}
_STATUSES_WITHOUT_BODY = frozenset((204, 304))
_SERVER_HEADERS = frozenset((b"connection", b"transfer-encoding"))
"""Response headers that only the server writes."""
_SWITCHING = b"HTTP/1.1 101 Switching Protocols"
_ASGI = {"version": "3.0", "spec_version": "2.3"}

# How the body of the response is delimited. `_BY_LENGTH` means a Content-Length header, `_BY_CLOSE` the end of the
# connection (HTTP/1.0), and `_SWITCHED` that a WebSocket follows.
_NOT_STARTED, _BY_LENGTH, _CHUNKED, _BY_CLOSE, _NO_BODY, _SWITCHED = range(6)


class ServerState(Protocol):
    """The part of uvicorn's server state that a request cycle needs."""

    default_headers: list[tuple[bytes, bytes]]


class CycleConnection(Protocol):
    """The connection to which a request cycle belongs."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    client: tuple[str, int] | None
    server: tuple[str, int] | None
    is_write_paused: bool
    done: asyncio.Future[None]
    """A completed future. Write methods return it if there is nothing to wait for."""
    user_refusal: str | None
    """Why the application refuses this connection's user. Empty if it accepts the user; None before it decides."""

    @property
    def state(self) -> ServerState:
        """The server's state, which all its connections share."""

    def on_body_taken(self) -> None:
        """Continue reading the request's body, because the application has taken all data that had arrived."""

    async def drain(self) -> None:
        """Wait until the write buffer has room again or the connection is lost."""

    def on_response_complete(self, cycle: "RequestCycle") -> None:
        """Continue with the next request on the connection."""

    def on_response_failed(self, cycle: "RequestCycle") -> None:
        """Close the connection. If nothing was written yet, first send a response with status 500."""

    def on_response_cut(self, cycle: "RequestCycle") -> None:
        """Close the connection after all written data has been sent."""

    def open_websocket(self, max_size: int, hold: Callable[[int], bool]) -> "WebSocket":
        """Return a WebSocket on this connection; see `RequestCycle.accept` for the parameters."""

    def on_accepted(self, websocket: "WebSocket") -> None:
        """Pass everything that arrives from now on to the WebSocket."""


def closing_response(status: int, text: str, headers: Headers) -> bytes:
    """Return a complete plain-text response with the header `connection: close`."""
    body = text.encode()
    own = (b"content-type: text/plain; charset=utf-8", b"content-length: %d" % len(body), b"connection: close")
    return b"\r\n".join((_STATUS_LINES[status], *map(b": ".join, headers), *own, b"", body))


def _lines(first: bytes, headers: Headers) -> list[bytes]:
    """Return the lines of a response head, beginning with `first`. Raise RuntimeError for an invalid header."""
    lines = [first, *map(b": ".join, headers)]
    flat = b"".join(lines)
    if 10 in flat or 13 in flat or 0 in flat:
        raise RuntimeError("a header of the response contains a line end or a NUL")
    return lines


class RequestCycle:
    """A request and its response. Header names are in lower case, as in ASGI.

    The methods that write are not coroutines: usually there is nothing to wait for, and they return a future that is
    already done.
    """

    __slots__ = (
        "_framing",
        "_is_body_delivered",
        "_remaining",
        "_start",
        "chunks",
        "connection",
        "expects_continue",
        "headers",
        "is_body_complete",
        "is_disconnected",
        "is_response_complete",
        "is_upgrade",
        "keep_alive",
        "method",
        "path",
        "query",
        "raw_path",
        "task",
        "version",
        "waiters",
        "websocket",
    )

    def __init__(
        self,
        connection: CycleConnection,
        method: str,
        target: Target,
        version: str,
        headers: Fields,
        *,
        keep_alive: bool,
        expects_continue: bool,
        is_upgrade: bool = False,
    ) -> None:
        self.connection = connection
        self.method = method
        self.path, self.raw_path, self.query = target
        self.version = version
        self.headers = headers
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        """Whether the client waits for `100 Continue` before it sends the body."""
        self.is_upgrade = is_upgrade
        """Whether the client asks for a WebSocket. The application may send an ordinary response instead."""
        self.websocket: WebSocket | None = None
        self.chunks: list[bytes] = []
        """The parts of the request's body that have arrived and have not been taken yet."""
        self.is_body_complete = False
        self.is_response_complete = False
        self.is_disconnected = False
        """Whether the client has disconnected. Data that is written afterwards is dropped."""
        self.waiters: list[asyncio.Future[None]] | None = None
        """Futures of the callers that wait in `part`."""
        self.task: asyncio.Task[None] | None = None
        self._is_body_delivered = False
        self._start: tuple[int, Headers] | None = None
        self._framing = _NOT_STARTED
        self._remaining = 0
        """Bytes of the body still to be written, if the response has a Content-Length."""

    @property
    def is_started(self) -> bool:
        """Whether any part of the response has been written."""
        return self._framing != _NOT_STARTED

    @property
    def ends_by_close(self) -> bool:
        """Whether the end of the connection marks the end of the response."""
        return self._framing == _BY_CLOSE

    # ── called by the application ──

    @property
    def scope(self) -> dict[str, Any]:
        """The ASGI scope of the request."""
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": self.version,
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.raw_path,
            "query_string": self.query,
            "root_path": "",
            "headers": list(self.headers),
            "client": self.connection.client,
            "server": self.connection.server,
        }

    async def part(self) -> tuple[bytes | None, bool]:
        """Return the next part of the body, and whether it is the last one.

        The part is None if the client has disconnected or the response is complete. After the last part, wait until
        then.
        """
        if self.expects_continue:
            self._write_continue()
        while not (self.is_disconnected or self.is_response_complete):
            if self.chunks or (self.is_body_complete and not self._is_body_delivered):
                chunks, self.chunks = self.chunks, []
                is_last = self._is_body_delivered = self.is_body_complete
                if not is_last:
                    self.connection.on_body_taken()
                return chunks[0] if len(chunks) == 1 else b"".join(chunks), is_last
            await self._wait()
        return None, True

    async def receive(self) -> dict[str, Any]:
        """Return the next ASGI message: parts of the body, then `http.disconnect`."""
        body, is_last = await self.part()
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": not is_last}

    def send(self, message: Mapping[str, Any]) -> Awaitable[None]:
        """Process an ASGI message from the application. Raise RuntimeError if it is out of order."""
        kind = message["type"]
        if kind == "http.response.start":
            return self.begin(message["status"], message.get("headers", ()))
        if kind != "http.response.body":
            raise RuntimeError(f"`{kind}` is out of order")
        return self.write(message.get("body", b""), not message.get("more_body", False))

    def respond(
        self, status: int, content_type: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> Awaitable[None]:
        """Send a complete response. The headers for content type and length are added before `headers`."""
        self.begin(status, ((b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers))
        return self.write(body, True)

    def begin(self, status: int, headers: Headers) -> Awaitable[None]:
        """Set the head of the response, which is sent with the first part of the body."""
        if self._start is not None and not self.is_disconnected:
            raise RuntimeError("`http.response.start` is out of order")
        self._start = (status, headers)
        return self.connection.done

    def write(self, body: bytes, last: bool) -> Awaitable[None]:
        """Send the next part of the body. `last` says whether it completes the response."""
        connection, start = self.connection, self._start
        if self.is_disconnected:
            return connection.done
        if connection.is_write_paused:
            return self._write_later(body, last)
        if start is None or self.is_response_complete:
            raise RuntimeError("`http.response.body` is out of order")
        if self._framing == _NOT_STARTED:
            data = self._head_and_body(*start, body, last)
        else:
            data = self._framed(self._framing, self._remaining, body, last)
        if data:
            connection.transport.write(data)
        if last:
            self._complete()
        return connection.done

    def upgrade_refusal(self) -> tuple[int, str] | None:
        """Return the status and the reason for refusing the WebSocket handshake, or None if it is valid."""
        if not self.is_upgrade:
            return 426, "This takes a WebSocket handshake (`Upgrade: websocket`)."
        return handshake_refusal(self.headers)

    async def accept(self, headers: Headers, max_size: int, hold: Callable[[int], bool]) -> "WebSocket":
        """Complete a WebSocket handshake, which must be valid. `headers` are added to the response.

        `max_size` is the maximum size of a message in bytes. Whenever the number of bytes waiting for the application
        changes, `hold` is called with the difference. It returns False if too many bytes are waiting.
        """
        if self._start is not None or not self.is_upgrade:
            raise RuntimeError("`accept` is out of order")
        websocket = self.connection.open_websocket(max_size, hold)
        key = websocket.accepted_key(dict(self.headers)[b"sec-websocket-key"])
        own = ((b"upgrade", b"websocket"), (b"connection", b"Upgrade"), (b"sec-websocket-accept", key))
        lines = _lines(_SWITCHING, [*self.connection.state.default_headers, *headers, *own])
        self._start, self._framing = (101, headers), _SWITCHED
        self.websocket = websocket
        if self.is_disconnected:
            websocket.on_lost()
        else:
            self.connection.transport.write(b"\r\n".join((*lines, b"", b"")))
            self.connection.on_accepted(websocket)
        return websocket

    def cut(self) -> None:
        """End the response without completing it. The connection is closed after all written data has been sent.

        An HTTP/1.1 client can tell from the missing last chunk that the response is incomplete.
        """
        if self.is_disconnected or self.is_response_complete:
            return
        self.is_response_complete = True
        self.wake()
        self.connection.on_response_cut(self)

    # ── called by the connection ──

    async def run(self, serve: "Serve", tasks: set[asyncio.Task[None]]) -> None:
        """Let the application handle the request.

        Afterwards, the request's task is removed from `tasks`. An incomplete response is treated as a failure.
        """
        has_failed = False
        try:
            await serve(self)
        except asyncio.CancelledError:
            if self.websocket is not None:
                self.websocket.stop()
            raise
        except Exception:
            has_failed = True
            log.exception("%s %s failed", self.method, self.path)
        finally:
            if self.task is not None:
                tasks.discard(self.task)
                self.task = None
            if self.websocket is not None:
                self.websocket.end(has_failed=has_failed)
            elif not (self.is_response_complete or self.is_disconnected):
                self.connection.on_response_failed(self)

    def disconnect(self) -> None:
        """Record that the client has disconnected."""
        self.is_disconnected = True
        self.chunks = []
        self.wake()

    def wake(self) -> None:
        """Wake the callers that wait in `part`."""
        waiters, self.waiters = self.waiters or (), None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ── the request ──

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = self.connection.loop.create_future()
        self.waiters = [*(self.waiters or ()), waiter]
        await waiter

    def _write_continue(self) -> None:
        self.expects_continue = False
        if not (self.is_body_complete or self.chunks or self.is_started or self.is_disconnected):
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # ── the response ──

    async def _write_later(self, body: bytes, last: bool) -> None:
        await self.connection.drain()
        await self.write(body, last)

    def _complete(self) -> None:
        self.is_response_complete = True
        if self.waiters:
            self.wake()
        self.connection.on_response_complete(self)

    def _head_and_body(self, status: int, headers: Headers, body: bytes, last: bool) -> bytes:
        """Return the response head and the first part of the body. Raise RuntimeError for an invalid header."""
        fields = [*self.connection.state.default_headers, *headers]
        named = dict(fields)
        if not _SERVER_HEADERS.isdisjoint(named):
            fields = self._without_server_headers(fields)
        lines = _lines(_STATUS_LINES[status], fields)
        framing, remaining = self._choose_framing(status, named.get(b"content-length"))
        if framing == _CHUNKED:
            lines.append(b"transfer-encoding: chunked")
        if b"upgrade" in named:
            lines.append(b"connection: upgrade")
        # A client that expects `100 Continue` but did not get it may send its body or a new request: do not keep alive.
        if not self.keep_alive or (self.expects_continue and not self.is_body_complete):
            self.keep_alive = False
            lines.append(b"connection: close")
        lines += (b"", self._framed(framing, remaining, body, last))
        return b"\r\n".join(lines)

    def _choose_framing(self, status: int, length: bytes | None) -> tuple[int, int]:
        """Choose how the end of the body is marked. Return this choice and the Content-Length (0 if there is none)."""
        if status in _STATUSES_WITHOUT_BODY or self.method == "HEAD":
            return _NO_BODY, 0
        if length is not None:
            return _BY_LENGTH, int(length)
        return (_BY_CLOSE if self.version == "1.0" else _CHUNKED), 0

    def _without_server_headers(self, fields: Fields) -> Fields:
        """Return the headers without those that only the server writes.

        If a removed header contains `close`, disable keep-alive.
        """
        for name, value in fields:
            if name in _SERVER_HEADERS and b"close" in value.lower():
                self.keep_alive = False
        return [field for field in fields if field[0] not in _SERVER_HEADERS]

    def _framed(self, framing: int, remaining: int, body: bytes, last: bool) -> bytes:
        """Return a part of the body as sent to the client, for example as a chunk.

        Raise RuntimeError if the length of the body differs from its Content-Length. `remaining` is the number of bytes
        that are still to be sent according to this header.
        """
        if framing == _CHUNKED:
            ending = b"0\r\n\r\n" if last else b""
            data = b"%x\r\n%b\r\n%b" % (len(body), body, ending) if body else ending
        elif framing == _BY_LENGTH:
            remaining -= len(body)
            if remaining < 0 or (remaining and last):
                raise RuntimeError("the body of the response is not as long as its Content-Length")
            data = body
        else:
            data = body if framing == _BY_CLOSE else b""
        self._framing, self._remaining = framing, remaining
        return data


Serve = Callable[[RequestCycle], Awaitable[None]]
"""The application: handles a request and sends its response."""


def serve_asgi(app: Any, cycle: RequestCycle) -> Awaitable[None]:
    """Let an ASGI application handle a request."""
    handled: Awaitable[None] = app(cycle.scope, cycle.receive, cycle.send)
    return handled
