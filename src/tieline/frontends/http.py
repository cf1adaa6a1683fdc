"""HTTP requests and responses as frontends see them, independent of the server.

No web framework is used, so that little code runs for each request. The gateway's own server passes its
`RequestCycle`. Any other server uses ASGI (`AsgiCycle`).
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from tieline.core.legs.access import ModelAccess
from tieline.frontends.bodies import COUNT_ABOVE, VALUE_MARKS, check_values
from tieline.frontends.keyless import AcceptedConnection
from tieline.frontends.keys import NamedKey
from tieline.model.errors import GatewayError
from tieline.model.events import Headers
from tieline.model.scope import Place
from tieline.model.scope import Scope as VisibleScope
from tieline.tasks import Tasks, step_aside

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("tieline")

JSON = b"application/json"
REQUEST_ID = "request-id"
TEXT = b"text/plain; charset=utf-8"

MIB = 1024 * 1024
MAX_RESERVED = 256 * MIB
"""Maximum total size, in bytes, of the requests in progress and of the conversations that WebSockets remember."""
TRIM_ABOVE = 32 * MIB
"""If the reserved bytes have exceeded this number, free memory is returned to the system once none are reserved."""
RETRY_AFTER = 5.0
STALL_TIMEOUT = 300.0
"""Seconds after which a client that reads nothing is disconnected, for streams that do not belong to a leg."""

UPGRADE = (("upgrade", "websocket"), ("sec-websocket-version", "13"))
"""Headers of a response with status 426 (Upgrade Required), which asks the client to open a WebSocket."""
INTERNAL_ERROR = 1011
"""The close code of a WebSocket that is closed because of an error in the gateway."""

MISDIRECTED = 421
ELSEWHERE = (b"x-tieline-elsewhere", b"1")
"""The response header with which a replica that is about to stop returns a forwarded request to the replica that sent
it, which then serves the request itself. The status of the response is `MISDIRECTED`."""

STREAM_HEAD = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # a reverse proxy must not buffer the stream
)


Hold = Callable[[int], bool]
"""Takes the change in the number of bytes held for a client. Returns False if the total for all clients is too high."""


class WebSocket(Protocol):
    """An accepted WebSocket. It is closed when its endpoint returns.

    Only one task at a time may call `receive`; any number of tasks may call `send`.
    """

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent to the client, because neither side has closed the connection."""

    def receive(self) -> Awaitable[bytes | None]:
        """Return the next message as UTF-8 text, or None if the client has disconnected or the gateway is stopping.

        If the gateway is stopping, `is_open` is still true, and messages can be sent until the endpoint returns.
        """

    def send(self, *texts: bytes) -> Awaitable[None]:
        """Send messages, each of them UTF-8 text. Wait if the client reads slowly.

        If the client has disconnected, drop the messages.
        """

    def close(self, code: int = 1000, reason: str = "") -> Awaitable[None]:
        """Send a close frame, unless the connection is closed already. A long reason is cut off."""


class HttpCycle(Protocol):
    """One request and its response, as the server passes them to the application."""

    method: str
    headers: list[tuple[bytes, bytes]]
    """The headers of the request, with names in lower case."""
    is_upgrade: bool
    """Whether the client asks for a WebSocket."""

    @property
    def path(self) -> str:
        """The percent-decoded path of the request."""

    @property
    def connection(self) -> AcceptedConnection:
        """The connection on which the request arrived."""

    @property
    def scope(self) -> Scope:
        """The ASGI scope of the request."""

    def part(self) -> Awaitable[tuple[bytes | None, bool]]:
        """Return the next part of the request body, and whether it is the last one.

        The part is None if the client has disconnected. After the last part, wait until the client disconnects.
        """

    def receive(self) -> Awaitable[MutableMapping[str, Any]]:
        """Return the next ASGI message: first the parts of the request body, then `http.disconnect`."""

    def respond(
        self, status: int, content_type: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> Awaitable[None]:
        """Send a complete response. The server adds the headers for the content type and length before `headers`."""

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Awaitable[None]:
        """Set the status and the headers of a streamed response."""

    def write(self, body: bytes, last: bool) -> Awaitable[None]:
        """Send the next part of a streamed response; `last` completes it."""

    def cut(self) -> None:
        """Close the connection without completing the response. Data that was already written is still sent."""

    def upgrade_refusal(self) -> tuple[int, str] | None:
        """Return None if the request is a valid WebSocket handshake, otherwise the status and message for a refusal."""

    def accept(self, headers: Iterable[tuple[bytes, bytes]], max_size: int, hold: Hold, /) -> Awaitable[WebSocket]:
        """Complete a WebSocket handshake, with additional headers in the response.

        `max_size` is the maximum size of a message in bytes. `hold` is called with each change in the number of bytes
        that were received but not yet read by the endpoint. If it returns False, the connection is closed.
        """


class AsgiConnection:
    """The connection of one ASGI request. Each request has its own: ASGI does not say which requests share one."""

    __slots__ = ("client", "server", "user_refusal")

    def __init__(self, scope: Scope) -> None:
        self.client: tuple[str, int] | None = scope.get("client")
        self.server: tuple[str, int] | None = scope.get("server")
        self.user_refusal: str | None = None


class AsgiCycle:
    """A request and its response on any ASGI server."""

    __slots__ = ("_send", "connection", "headers", "is_upgrade", "method", "path", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope.get("method", "GET")
        self.is_upgrade = False
        self.path: str = scope["path"]
        self.headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.connection: AcceptedConnection = AsgiConnection(scope)
        self.scope = scope
        self.receive = receive
        self._send = send

    async def part(self) -> tuple[bytes | None, bool]:
        """Return the next part of the body, or None if the client has disconnected, and whether it is the last one."""
        message = await self.receive()
        if message["type"] == "http.disconnect":
            return None, True
        return bytes(message.get("body", b"")), not message.get("more_body", False)

    async def respond(
        self, status: int, content_type: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> None:
        """Send a whole response."""
        await self.begin(status, [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers])
        await self.write(b"" if self.method == "HEAD" else body, True)

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Awaitable[None]:
        """Send the head of a response."""
        return self._send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, body: bytes, last: bool) -> Awaitable[None]:
        """Send the next part of a body."""
        return self._send({"type": "http.response.body", "body": body, "more_body": not last})

    def cut(self) -> None:
        """Do nothing: an ASGI server closes the connection if the application returns with the response incomplete."""

    def upgrade_refusal(self) -> tuple[int, str] | None:
        """Return a refusal, because with ASGI all WebSocket handshakes are handled by `AsgiWebSocketCycle`."""
        return 426, "This takes a WebSocket handshake (`Upgrade: websocket`)."

    async def accept(self, _headers: Iterable[tuple[bytes, bytes]], _max_size: int, _hold: Hold, /) -> WebSocket:
        """Raise RuntimeError: there is no handshake to complete."""
        raise RuntimeError("`accept` is out of order")


class BodyBudget:
    """Limits the total memory that request bodies, and data kept between requests, take up."""

    __slots__ = ("_limit", "_peak", "_trim", "kept", "reserved")

    def __init__(self, limit: int = MAX_RESERVED, trim: Callable[[], object] | None = None) -> None:
        self._limit = limit
        self._trim = trim
        self._peak = 0
        self.reserved = 0
        """The number of bytes reserved for requests in progress."""
        self.kept = 0
        """The number of bytes that are kept between requests."""

    def keep(self, change: int) -> bool:
        """Add `change` to the number of bytes kept between requests.

        If that would exceed the limit, leave the number unchanged and return False.
        """
        if change > 0 and self.reserved + self.kept + change > self._limit:
            return False
        self.kept += change
        return True

    def reserve(self, size: int) -> None:
        """Reserve `size` bytes. Raise GatewayError if the limit is exceeded.

        The bytes count even then, so the caller must always release them.
        """
        self.reserved += size
        if self.reserved > self._peak:
            self._peak = self.reserved
        if self.reserved + self.kept > self._limit:
            raise GatewayError(
                "overloaded",
                f"The requests in progress hold more than {self._limit // MIB} MiB together; try again in a moment.",
                retry_after=RETRY_AFTER,
            )

    def release(self, size: int) -> None:
        """Release `size` bytes.

        If none remain reserved after a high peak, return free memory to the operating system.
        """
        self.reserved -= size
        if self.reserved == 0 and self._peak > TRIM_ABOVE:
            self._peak = 0
            if self._trim is not None:
                self._trim()


class Exchange(msgspec.Struct, eq=False):
    """One HTTP request and its response, as an endpoint sees them."""

    _cycle: HttpCycle
    _max_body: int
    _bodies: BodyBudget = msgspec.field(default_factory=BodyBudget)
    keeps_body: bool = False
    """Whether to keep the body in `content` once it has been read."""
    is_forwarded: bool = False
    """Whether another replica forwarded the request to this one."""
    headers: Mapping[bytes, bytes] = {}
    """The headers of the request by their lower-case names."""
    path: str = ""
    """The percent-decoded path of the request, without the prefix that names a workspace."""
    client_key: NamedKey | None = None
    """The key with which the guard accepted the request; None if no key was needed."""
    is_still_valid: Callable[[], bool] | None = None
    """Returns whether the key is still valid, for responses that take long; None if it cannot become invalid."""
    begun: bool = False
    """Whether the response has begun."""
    response_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers to add to every response, including errors."""
    cors_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers to add as well, which let a web page of another origin read the response; empty if it may not."""
    content: bytes | None = None
    """The body, for forwarding it; None until it has been read, or if bodies are not kept."""
    size: int = 0
    """The size of the request's body in bytes; 0 until it has been read."""
    reserved: int = 0
    """The number of bytes reserved in the shared budget for the body or for unread WebSocket messages."""
    websocket: WebSocket | None = None
    """The WebSocket, once it has been accepted; otherwise None."""
    workspace: str | None = None
    """The name of the workspace that the request names; None if it names none."""

    __repr__ = object.__repr__  # the headers contain keys, which must not be logged

    def __post_init__(self) -> None:
        self.headers = dict(self._cycle.headers)
        self.path = self._cycle.path

    @property
    def method(self) -> str:
        """The method of the request, in upper case."""
        return self._cycle.method

    @property
    def scope(self) -> Scope:
        """The ASGI scope of the request."""
        return self._cycle.scope

    @property
    def target(self) -> str:
        """The path and the query of the request, as the client sent them."""
        scope = self._cycle.scope
        query: bytes = scope.get("query_string", b"")
        path: bytes = scope.get("raw_path") or quote(self._cycle.path).encode()
        return (path + b"?" + query if query else path).decode("latin-1")

    @property
    def header_fields(self) -> Sequence[tuple[bytes, bytes]]:
        """All headers of the request, with lower-case names, including those that occur more than once."""
        return self._cycle.headers

    def receive(self) -> Awaitable[MutableMapping[str, Any]]:
        """Return the next ASGI message from the client: first the parts of the body, then `http.disconnect`."""
        return self._cycle.receive()

    def header(self, name: bytes) -> str:
        """Return the value of a request header, given its lower-case name, or an empty string."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def key(self) -> str:
        """The key that the client sent in `Authorization: Bearer`, `x-api-key` or `api-key` (Azure); empty if none."""
        scheme, _, token = self.header(b"authorization").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        return self.header(b"x-api-key") or self.header(b"api-key")

    @property
    def access(self) -> ModelAccess | None:
        """The models that the request may use; None if there is no limit."""
        return None if self.client_key is None else self.client_key.access

    @property
    def owner(self) -> str:
        """The name of the client's key; empty if no key was needed."""
        return "" if self.client_key is None else self.client_key.name

    @property
    def place(self) -> Place:
        """The owner and the workspace to which the legs and sessions of the request belong."""
        return Place(self.owner, self.workspace or "")

    @property
    def visible(self) -> VisibleScope:
        """The legs, sessions and inbox items that the client may see.

        The gateway's own keys and admin keys see those of all owners, and a request that names no workspace those of
        all workspaces.
        """
        key = self.client_key
        return VisibleScope(None if key is None or key.is_admin else key.name, self.workspace)

    async def body(self, counted: bytes = VALUE_MARKS) -> bytes:
        """Return the whole body. Raise GatewayError if it is too large or the client disconnects.

        A JSON body may contain at most `MAX_VALUES` of the characters in `counted` (see `bodies`). For a body that is
        not JSON, pass an empty `counted`. If bodies are kept for forwarding, the body can be read several times.
        """
        if self.content is not None:
            return self.content
        chunks: list[bytes] = []
        chunk: bytes | None = b""
        size, limit, is_last = 0, self._max_body, False
        try:
            # A body that is too large is read up to four times the limit but not kept, because many clients read the
            # response only after they have sent the whole body.
            while not is_last and size <= 4 * limit:
                chunk, is_last = await self._cycle.part()
                if chunk is None:
                    raise GatewayError("cancelled", "The client left before its request was complete.")
                size += len(chunk)
                if size > limit:
                    chunks.clear()
                else:
                    chunks.append(chunk)
                    self.reserve(len(chunk))
            if size > limit:
                message = f"The request is larger than the {limit // MIB} MiB this gateway accepts."
                raise GatewayError("too_large", message)
            if size > COUNT_ABOVE and counted:
                await check_values(chunks, counted)
            body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        finally:
            chunks.clear()  # a traceback must not keep the body alive
            chunk = None
        self.size = size
        if self.keeps_body:
            self.content = body
        if size > COUNT_ABOVE:
            await step_aside()  # joining took a while, and so will parsing
        return body

    def respond(
        self, status: int, body: bytes, content_type: bytes = JSON, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> Awaitable[None]:
        """Send a whole response."""
        self.begun = True
        if self.response_headers or self.cors_headers:
            headers = (*headers, *self.response_headers, *self.cors_headers)
        return self._cycle.respond(status, content_type, headers, body)

    def begin_stream(
        self, headers: Iterable[tuple[bytes, bytes]] = (), head: Iterable[tuple[bytes, bytes]] = STREAM_HEAD
    ) -> Awaitable[None]:
        """Begin a streamed response with the headers `head` (by default those of server-sent events) and `headers`."""
        self.begun = True
        return self._cycle.begin(200, [*head, *headers, *self.response_headers, *self.cors_headers])

    def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> Awaitable[None]:
        """Begin a response with any status and headers."""
        self.begun = True
        return self._cycle.begin(status, [*headers, *self.response_headers, *self.cors_headers])

    def write(self, data: bytes, last: bool = False) -> Awaitable[None]:
        """Send the next part of a streamed response; `last` completes it."""
        return self._cycle.write(data, last)

    def cut(self) -> None:
        """Close the connection without completing the stream, so that the client sees a broken transfer."""
        self._cycle.cut()

    @property
    def is_upgrade(self) -> bool:
        """Whether the client asks for a WebSocket. `accept` opens the WebSocket, `respond` refuses it."""
        return self._cycle.is_upgrade

    async def accept(self, headers: Sequence[tuple[bytes, bytes]] = ()) -> WebSocket:
        """Open the WebSocket that the client asks for, with additional headers in the response to its handshake.

        Raise GatewayError if the handshake is not valid. Messages have the same size limit as request bodies. A client
        that sends a larger message, or a message that is not UTF-8 text, is disconnected.
        """
        refusal = self._cycle.upgrade_refusal()
        if refusal is not None:
            status, reason = refusal
            raise GatewayError("bad_request", reason, status=status, headers=UPGRADE if status == 426 else ())
        self.begun = True
        self.websocket = await self._cycle.accept(headers, self._max_body, self.hold)
        return self.websocket

    def hold(self, change: int) -> bool:
        """Add `change` to the number of bytes held for this client. Return False if that exceeds the shared budget.

        Bytes that are still held when the endpoint returns are released then.
        """
        if change < 0:
            self.release(-change)
            return True
        try:
            self.reserve(change)
        except GatewayError:
            return False
        return True

    def reserve(self, size: int) -> None:
        """Count more bytes against the budget that all clients share. Raise GatewayError if that exceeds it.

        The bytes count even then, until `release` is called or the endpoint returns.
        """
        self.reserved += size
        self._bodies.reserve(size)

    def keep(self, change: int) -> bool:
        """Add `change` to the number of bytes that count against the budget between requests.

        These bytes are not released when the endpoint returns. If they would exceed the budget, count nothing and
        return False.
        """
        return self._bodies.keep(change)

    def release(self, size: int) -> None:
        """Count fewer bytes against the budget."""
        self.reserved -= size
        self._bodies.release(size)


Endpoint = Callable[[Exchange], Awaitable[None]]
RenderError = Callable[[GatewayError], bytes]


def address(exchange: Exchange) -> str:
    """Return the base URL of the gateway, with the host name that the client used."""
    return f"{exchange.scope.get('scheme', 'http')}://{exchange.header(b'host')}"


async def fail(
    exchange: Exchange, error: GatewayError, render_error: RenderError, request_id: str = REQUEST_ID
) -> None:
    """Respond with an error, unless a response has already begun. If there is an open WebSocket, close it.

    `request_id` is the name of the response header for the id that the upstream gave to the request. If it gave none,
    the response gets a new id.
    """
    if exchange.websocket is not None:
        await exchange.websocket.close(INTERNAL_ERROR, error.message)
    if exchange.begun:
        return
    headers = encoded(error.headers, request_id)
    if not error.request_id:
        minted = f"req_{secrets.token_hex(10)}"
        error.headers = (*error.headers, (REQUEST_ID, minted))
        headers += ((b"request-id", minted.encode()), (b"x-request-id", minted.encode()))
    if error.retry_after is not None and not any(name == b"retry-after" for name, _ in headers):
        headers.append((b"retry-after", str(max(1, round(error.retry_after))).encode()))
    await exchange.respond(error.status, render_error(error), headers=headers)


def encoded(headers: Headers, request_id: str = REQUEST_ID) -> list[tuple[bytes, bytes]]:
    """Return headers as bytes, with the request id under the name `request_id`.

    Leave out headers whose value contains a line break.
    """
    return [
        ((request_id if name == REQUEST_ID else name).encode("latin-1", "replace"), value.encode("latin-1", "replace"))
        for name, value in headers
        if "\n" not in value and "\r" not in value
    ]


# ── Streams without a leg ────────────────────────────────────────────────────────────────────────


async def send_events(exchange: Exchange, tasks: Tasks, events: AsyncGenerator[bytes, None]) -> None:
    """Send server-sent events until `events` is exhausted, the client disconnects or the gateway stops."""
    client = WatchedClient(exchange)
    leaving = tasks.start(client.cancel_when_left(), "client watch")
    try:
        try:
            async with aclosing(events):
                await exchange.begin_stream()
                async for data in events:
                    if exchange.is_still_valid is not None and not exchange.is_still_valid():
                        break  # the key was revoked
                    await write_in_time(exchange, data)
            await write_in_time(exchange, b"", last=True)
        except asyncio.CancelledError:
            if not await client.finish():
                raise
    except TimeoutError:
        message = "%s: closed the connection of a client that had read nothing for %.0f seconds"
        log.info(message, exchange.path, STALL_TIMEOUT)
    finally:
        leaving.cancel()


class WatchedClient:
    """Cancels the task that serves a stream when the client disconnects."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._task = asyncio.current_task()
        self.has_left = False

    async def cancel_when_left(self) -> None:
        """Wait until the client disconnects, then cancel the task."""
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        if self._task is not None:
            self._task.cancel("the client has left")

    async def finish(self) -> bool:
        """Complete the stream after a cancellation. Return False if the caller has to raise CancelledError again.

        Raise TimeoutError if the client reads nothing for too long.
        """
        self.uncancel()
        if not self.has_left and self._exchange.begun:
            # The gateway is stopping. Complete the stream, so that the client does not take it for a broken transfer.
            await write_in_time(self._exchange, b"", last=True)
        return self.has_left or self._exchange.begun

    def uncancel(self) -> None:
        """Record that the task has handled its cancellation."""
        if self._task is not None:
            self._task.uncancel()


async def write_in_time(exchange: Exchange, data: bytes, *, last: bool = False) -> None:
    """Send the next part of a streamed response. Raise TimeoutError if the client reads nothing for too long."""
    async with asyncio.timeout(STALL_TIMEOUT):
        await exchange.write(data, last=last)
