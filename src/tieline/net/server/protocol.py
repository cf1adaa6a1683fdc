"""The HTTP/1.1 protocol class that uvicorn creates for every connection, on top of httptools.

uvicorn manages the listening sockets and the signals, and starts and stops the server. A connection parses requests and
answers them in order; a `RequestCycle` is one request with its response. Every buffer has a maximum size, and every
wait has a timeout.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import httptools

from tieline.net.server.connection import ClientConnection
from tieline.net.server.cycle import RequestCycle, Serve, closing_response, serve_asgi
from tieline.net.server.request_head import (
    RefusedRequest,
    check_head,
    head_size,
    is_handshake,
    parse_target,
    without_upgrade,
)

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

    from tieline.net.server.websocket import WebSocket

log = logging.getLogger("tieline.serving")

MAX_HEAD = 64 * 1024
"""Maximum size in bytes of a request head, and of the framing between two parts of a body."""
MAX_BUFFER = 64 * 1024
"""Maximum number of bytes of a body that may wait for the application before reading is paused."""
MAX_CHUNKS = 1024
"""Maximum number of parts of a body that may wait before reading is paused. Even a short part takes memory."""
MAX_PIPELINED = 64
"""Maximum number of requests on a connection that may wait for earlier responses. Further requests are refused."""
MAX_DISCARD = 64 * 1024 * 1024
"""Maximum number of bytes of a body that are read and dropped after the response is complete."""

HEAD_TIMEOUT = 30.0
"""Seconds that may pass between the first and the last byte of a request head."""
BODY_TIMEOUT = 60.0
"""Seconds that may pass without data in the middle of a body."""
DISCARD_TIMEOUT = 30.0
"""Seconds for which a client may continue to send a body after the response is complete."""

INTERNAL_ERROR = "Something went wrong inside the gateway; its log says what."


class HttpServerProtocol(ClientConnection):
    """A client's HTTP/1.1 connection: parses its requests and passes them to the application.

    If the application has a method `serve`, that method is called with each `RequestCycle`. Any other application is
    called through ASGI. Only these uvicorn settings are honoured: the application, the default headers and the
    keep-alive timeout.

    After a request for a WebSocket, nothing is parsed until the application has accepted it or sent a response.
    """

    __slots__ = (
        "_current",
        "_discarded",
        "_headers",
        "_held",
        "_incoming",
        "_is_handshake",
        "_parser",
        "_pipelined",
        "_refusal",
        "_serve",
        "_sink",
        "_tasks",
        "_unparsed",
        "_upgrade",
        "_url",
        "_websocket",
        "client",
        "server",
        "state",
        "user_refusal",
    )

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        app_state: dict[str, Any],  # noqa: ARG002 - uvicorn passes the lifespan state, which is not used
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(_loop or asyncio.get_running_loop(), float(config.timeout_keep_alive))
        app: Any = config.loaded_app
        self._serve: Serve = getattr(app, "serve", None) or partial(serve_asgi, app)
        self.state = server_state
        self._tasks = server_state.tasks
        self.client: tuple[str, int] | None = None
        self.server: tuple[str, int] | None = None
        self.user_refusal: str | None = None
        # The request that is being parsed.
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._upgrade = b""
        """The head of an upgrade request without its Upgrade header, to be parsed again."""
        self._is_handshake = False
        """Whether the upgrade request asks for a WebSocket."""
        self._unparsed = 0
        """The number of bytes passed to the parser since the last complete head or part of a body."""
        self._incoming: RequestCycle | None = None
        """The request whose body is being received."""
        self._discarded = 0
        # The request that is being answered, and those after it.
        self._current: RequestCycle | None = None
        self._pipelined: deque[RequestCycle] = deque()
        self._refusal: RefusedRequest | None = None
        """The refusal to send after the responses to earlier requests. Once it is set, nothing more is parsed."""
        # A request for a WebSocket, and the WebSocket.
        self._sink: Callable[[bytes], None] | None = None
        """A function that receives the client's data instead of the parser; None while the parser receives the data."""
        self._held = b""
        """The bytes received after a WebSocket handshake to which the application has not responded yet."""
        self._websocket: WebSocket | None = None

    # ── called by the transport ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register the connection with the server."""
        super().connection_made(transport)
        self.state.connections.add(self)  # type: ignore[arg-type] # uvicorn's type names its own protocols only
        self.client = _address(transport.get_extra_info("peername"))
        self.server = _address(transport.get_extra_info("sockname"))

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell all requests on the connection that the client has disconnected."""
        self.state.connections.discard(self)
        for cycle in (self._current, self._incoming, *self._pipelined):
            if cycle is not None:
                cycle.disconnect()
        self._current = self._incoming = None
        self._pipelined.clear()
        super().connection_lost(_error)
        if self._websocket is not None:
            self._websocket.on_lost()
        self._sink = self._websocket = None
        self._held = b""
        del self._parser  # break the reference cycle: it holds our bound methods

    def data_received(self, data: bytes) -> None:
        """Parse data from the client. It may begin and end anywhere in a request."""
        if self.is_closing or self._refusal is not None:
            return
        if self._sink is not None:
            self._sink(data)
            return
        self._unparsed += len(data)
        rest = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            self._on_parser_error(error)
        if rest is not None:  # outside the handler: an error raised there would lose the cause that httptools sets
            self._parse_after_upgrade(rest)
        if self._unparsed or self._incoming is not None:
            self._check_incomplete(len(data))

    def pause_writing(self) -> None:
        """Record that the write buffer is full."""
        super().pause_writing()
        if self._websocket is not None:
            self._websocket.on_write_paused()

    def resume_writing(self) -> None:
        """Wake the writers that wait for room in the write buffer."""
        super().resume_writing()
        if self._websocket is not None:
            self._websocket.on_write_resumed()

    # ── called by the parser ──

    def on_url(self, url: bytes) -> None:
        """Collect the request target, which may arrive in several parts."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header or a trailer."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Start the request, or queue it until earlier requests have been answered."""
        parser = self._parser
        url, headers = self._url, self._headers
        self._url, self._headers = b"", []
        method, version = parser.get_method().decode(), parser.get_http_version()
        if parser.should_upgrade():
            self._upgrade = without_upgrade(method, url, version, headers)
            self._is_handshake = is_handshake(method, version, headers)
            return
        named = check_head(version, headers)
        if self._unparsed > MAX_HEAD and head_size(url, headers) > MAX_HEAD:
            raise RefusedRequest(431, "The head of the request is too large.")
        self._unparsed = 0
        is_current = version == "1.1"
        cycle = RequestCycle(
            self,
            method,
            parse_target(url, headers),
            version,
            headers,
            keep_alive=is_current and parser.should_keep_alive(),
            expects_continue=is_current and b"expect" in named,
            is_upgrade=self._is_handshake,
        )
        if self._current is None:
            self._start(cycle)
        else:
            self._queue(cycle)
        self._incoming = cycle
        if self._is_handshake:
            self._is_handshake = False
            self._sink = self._hold

    def on_body(self, body: bytes) -> None:
        """Pass a part of a body to its request, or drop it if the response is complete."""
        self._unparsed = 0
        cycle = self._incoming
        if cycle is None or cycle.is_response_complete:
            self._discarded += len(body)
            return
        cycle.chunks.append(body)
        if cycle.waiters:
            cycle.wake()

    def on_message_complete(self) -> None:
        """Mark the request as complete."""
        cycle = self._incoming
        if cycle is None:
            return  # an upgrade request, whose head is parsed again
        self._incoming = None
        self._unparsed = 0
        if self._headers:
            self._headers = []  # ignore trailers
        cycle.is_body_complete = True
        if cycle.waiters:
            cycle.wake()
        if cycle.is_response_complete:
            self._waiting_since = self.loop.time()

    # ── called by a cycle ──

    def on_body_taken(self) -> None:
        """Continue reading the request's body, because the application has taken all data that had arrived."""
        if self._is_read_paused and not self._pipelined:
            self._waiting_since = self.loop.time()
            self.resume_reading()

    def on_response_complete(self, cycle: RequestCycle) -> None:
        """Continue with the next request on the connection."""
        self.state.total_requests += 1
        self._current = None
        self._waiting_since = self.loop.time()
        if (
            self._pipelined
            or self._incoming is not None
            or self._refusal is not None
            or self._sink is not None
            or not cycle.keep_alive
        ):
            self._continue_after(cycle)

    def on_response_failed(self, cycle: RequestCycle) -> None:
        """Close the connection. If nothing was written yet, first send a response with status 500."""
        if not cycle.is_started:
            self.state.total_requests += 1
            cycle.is_response_complete = True
            self._send_refusal(RefusedRequest(500, INTERNAL_ERROR))
        elif cycle.ends_by_close:
            self.reset()  # an orderly close would look like the end of the body
        else:
            self.close()
        self._current = None

    def on_response_cut(self, cycle: RequestCycle) -> None:
        """Close the connection after all written data has been sent."""
        cycle.keep_alive = False
        self.on_response_complete(cycle)

    def open_websocket(self, max_size: int, hold: Callable[[int], bool]) -> "WebSocket":
        """Return a WebSocket on this connection; see `RequestCycle.accept` for the parameters."""
        from tieline.net.server.websocket import WebSocket  # noqa: PLC0415 - slow to import, and rarely needed

        return WebSocket(self, max_size, hold)

    def on_accepted(self, websocket: "WebSocket") -> None:
        """Pass everything that arrives from now on to the WebSocket."""
        self.state.total_requests += 1
        self._websocket, self._sink = websocket, websocket.feed
        held, self._held = self._held, b""
        self.restart_timeout(websocket.deadline() - self.loop.time())
        self.resume_reading()
        websocket.feed(held)

    # ── called by uvicorn ──

    def shutdown(self) -> None:
        """Close the connection. If a response is in progress, wait until it is complete."""
        if self._websocket is not None:
            self._websocket.stop()
        elif self._current is None:
            self.transport.close()
        else:
            self._current.keep_alive = False

    # ── requests ──

    def _start(self, cycle: RequestCycle) -> None:
        self._current = cycle
        # uvicorn awaits the tasks in this set before it exits; the set also keeps a strong reference to the task.
        cycle.task = asyncio.Task(cycle.run(self._serve, self._tasks), loop=self.loop, name="request")
        self._tasks.add(cycle.task)

    def _queue(self, cycle: RequestCycle) -> None:
        if len(self._pipelined) >= MAX_PIPELINED:
            # HTTP lets a server close the connection after any pipelined request; the client sends the others again.
            self._pipelined[-1].keep_alive = False
            raise RefusedRequest(503, "Too many requests wait on one connection.")
        self._pipelined.append(cycle)
        self.pause_reading()

    def _continue_after(self, cycle: RequestCycle) -> None:
        if not cycle.keep_alive:
            self._pipelined.clear()
            if cycle.is_body_complete:
                self.close()
            else:
                self.half_close()
        elif cycle is self._incoming:
            self._discarded = 0
            self.restart_timeout(DISCARD_TIMEOUT)
            self.resume_reading()
        elif cycle.is_upgrade:
            self._sink = None
            held, self._held = self._held, b""
            self.resume_reading()
            if held:
                self.data_received(held)
        elif self._pipelined:
            self._start(self._pipelined.popleft())
            if not self._pipelined:
                self.resume_reading()
        elif self._refusal is not None:
            self._send_refusal(self._refusal)

    def _check_incomplete(self, size: int) -> None:
        """Apply limits and timeouts to a request that is incomplete after the last `size` bytes have been parsed."""
        cycle = self._incoming
        if self.is_closing or self._refusal is not None:
            return
        if self._unparsed > MAX_HEAD:
            self._refuse(RefusedRequest(431, "The head of the request is too large."))
        elif cycle is None:
            if self._unparsed == size:
                self.restart_timeout(HEAD_TIMEOUT)
        elif not cycle.is_response_complete:
            self.restart_timeout(BODY_TIMEOUT)
            if len(cycle.chunks) > MAX_CHUNKS or sum(map(len, cycle.chunks)) > MAX_BUFFER:
                self.pause_reading()
        elif self._discarded > MAX_DISCARD:
            self.close()

    def _parse_after_upgrade(self, rest: bytes) -> None:
        """Parse an upgrade request again without its Upgrade header, then `rest`, the bytes after its head.

        If the request asks for a WebSocket, `rest` is held back instead.
        """
        while self._upgrade:
            data, self._upgrade = self._upgrade, b""
            if self._is_handshake:
                self._held = rest
            else:
                data += rest
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                rest = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self._on_parser_error(error)

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) > MAX_BUFFER:
            self.pause_reading()

    # ── refusals ──

    def _on_parser_error(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if isinstance(cause, RefusedRequest):
            self._refuse(cause)
        elif isinstance(error, httptools.HttpParserCallbackError):
            log.error("parsing a request failed", exc_info=cause)
            self._refuse(RefusedRequest(500, INTERNAL_ERROR))
        else:
            self._refuse(RefusedRequest(400, f"This is not a valid HTTP/1.1 request: {error}."))

    def _refuse(self, refusal: RefusedRequest) -> None:
        """Stop parsing, and send the refusal after the responses to earlier requests."""
        self._refusal = refusal
        incomplete, self._incoming = self._incoming, None
        if incomplete is not None and not incomplete.is_response_complete:
            incomplete.disconnect()
            if incomplete is self._current:
                self._current = None
            else:
                self._pipelined.remove(incomplete)
        if incomplete is not None and incomplete.is_started:
            self.close()
        elif self._current is None:
            self._send_refusal(refusal)

    def _send_refusal(self, refusal: RefusedRequest) -> None:
        self.transport.write(closing_response(refusal.status, str(refusal), self.state.default_headers))
        self.half_close()

    # ── timeouts ──

    def timeout(self) -> float:
        """Return how many seconds the current wait may take."""
        if self._websocket is not None:
            return self._websocket.deadline() - self._waiting_since
        cycle = self._incoming
        if cycle is not None and cycle.is_response_complete:
            return DISCARD_TIMEOUT
        if cycle is not None and cycle is self._current and not self._is_read_paused:
            return BODY_TIMEOUT
        if self._current is not None:
            return math.inf
        return HEAD_TIMEOUT if self._unparsed else self._idle

    def on_timeout(self) -> None:
        """Refuse a request that does not arrive in time, or close an idle connection."""
        if self._websocket is not None:
            self._websocket.on_timeout()
            return
        cycle = self._incoming
        if self._unparsed if cycle is None else not cycle.is_response_complete:
            self._refuse(RefusedRequest(408, "The request did not arrive in time."))
        else:
            self.close()


def _address(given: Any) -> tuple[str, int] | None:
    return (str(given[0]), int(given[1])) if isinstance(given, tuple) else None
