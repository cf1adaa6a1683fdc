"""Serve a leg as an HTTP response, streamed or whole: send keep-alives, and end the leg when the client disconnects."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from tieline.core.legs import losses
from tieline.core.legs.forwarding import ForwardedRequest
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient
from tieline.frontends.http import ELSEWHERE, MISDIRECTED, STREAM_HEAD, Exchange, RenderError, encoded, fail
from tieline.frontends.profiles import Profile
from tieline.model.assemble import fold
from tieline.model.content import Value
from tieline.model.errors import GatewayError, LegFailed, is_transient
from tieline.model.events import Batch, Event, Failed, Finished, Reply, Started, source_of
from tieline.model.request import Request, Selection
from tieline.model.source import AnswerSource
from tieline.tasks import Tasks

FOLDER_HEADER, SERVERS_HEADER = b"x-tieline-folder", b"x-tieline-mcp"
"""Request headers that select a working folder and MCP servers for a coding agent by their configured names."""
_SELECTING = frozenset((FOLDER_HEADER, SERVERS_HEADER))
CHECK_INTERVAL = 0.05
"""Seconds between two checks of all open responses. The task that watches for a disconnect is started only if a request
takes longer than this."""
STALL_TIMEOUT = 300.0
"""Seconds after which a client that reads nothing is disconnected."""

STOPPING = Failed(
    kind="overloaded",
    status=503,
    message="The gateway is being stopped, or the workspace was removed; try again in a moment.",
)


class Writer(Protocol):
    """Writes events as the bytes of a streamed response."""

    def write(self, event: Event) -> bytes: ...
    def write_all(self, batch: Batch) -> bytes: ...

    def keep_alive(self) -> bytes:
        """Return bytes that keep a silent connection open."""


class ServedLeg(Protocol):
    """The leg that answers a request: the part of `WatchedLeg`'s interface that is needed here."""

    @property
    def dropped(self) -> Sequence[str]: ...
    def __aiter__(self) -> "ServedLeg": ...
    async def __anext__(self) -> Batch: ...
    async def aclose(self) -> None: ...


OpenLeg = Callable[[Request, LegClient], Awaitable[ServedLeg]]


class TurnForwarder(Protocol):
    """The other replicas of a cluster."""

    async def forward_turn(self, exchange: Exchange, request: Request) -> bool:
        """Forward a request if another replica has to answer it. Return False if it has to be served here."""


class ClientProtocol(msgspec.Struct, frozen=True):
    """The functions that write the responses of one protocol. `writer` and `render` take the client's options."""

    name: str
    writer: Callable[[Any], Writer]
    render: Callable[[Reply, Any], bytes]
    render_error: RenderError
    request_id: str
    """The response header in which clients of this protocol expect the request id."""
    cuts_failed: bool = True
    """Whether to close the connection after a failure if a retry may succeed. Many clients retry after a broken
    transfer, but treat an error in a completed stream as final."""


class Relay:
    """Serves the gateway's legs to clients. One timer checks all open responses."""

    def __init__(
        self, gateway: Gateway, tasks: Tasks, *, keep_alive: float = 15.0, replicas: TurnForwarder | None = None
    ) -> None:
        self._gateway = gateway
        self._replicas = replicas
        self._tasks = tasks
        self._keep_alive = keep_alive
        self._open: set[_OpenResponse] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def serve(
        self,
        exchange: Exchange,
        request: Request,
        protocol: ClientProtocol,
        options: Value,
        profile: Profile,
        open_leg: OpenLeg | None = None,
    ) -> None:
        """Answer one request with a leg, which `open_leg` (by default, the gateway) opens.

        If the client disconnects, the leg ends at once.
        """
        if self._replicas is not None and await self._replicas.forward_turn(exchange, request):
            return
        writer = protocol.writer(options) if request.stream else None
        request, client = selecting(request, exchange), client_of(exchange, protocol.name, profile)
        response = self._begin(exchange, writer)
        leg: ServedLeg | None = None
        try:
            leg = response.leg = await (open_leg or self._gateway.open)(request, client)
            if writer is None:
                await _send_whole(exchange, leg, protocol, options)
            else:
                await _send_stream(response, leg, writer, protocol)
        except asyncio.CancelledError:
            await response.finish_cancelled(protocol)
        finally:
            self._open.discard(response)
            response.close()
            if leg is not None:
                await leg.aclose()

    async def serve_several(
        self,
        exchange: Exchange,
        requests: Sequence[Request],
        protocol: ClientProtocol,
        render: Callable[[Sequence[Reply]], bytes],
        profile: Profile,
    ) -> None:
        """Answer one HTTP request with the replies of several concurrent legs. If any leg fails, the request fails."""
        if self._replicas is not None and await self._replicas.forward_turn(exchange, requests[0]):
            return
        response = self._begin(exchange, None)
        client = client_of(exchange, protocol.name, profile)
        try:
            replies = await self._replies([selecting(request, exchange) for request in requests], client)
            await exchange.respond(200, render(replies), headers=encoded(replies[0].headers, protocol.request_id))
        except LegFailed as error:
            await fail(exchange, error, protocol.render_error, protocol.request_id)
        except asyncio.CancelledError:
            await response.finish_cancelled(protocol)
        finally:
            self._open.discard(response)
            response.close()

    async def forward(self, exchange: Exchange, request: ForwardedRequest, protocol: ClientProtocol) -> None:
        """Forward a request to its upstream without translating it, and stream the answer back unchanged."""
        response = self._begin(exchange, None)
        forwarded = self._gateway.forward(replace(request, access=exchange.access, place=exchange.place))
        try:
            answer = await forwarded.open()
            response.headers = encoded(answer.headers, protocol.request_id)
            response.head = encoded((("content-type", answer.content_type or "application/octet-stream"),))
            while data := await forwarded.chunk():
                await response.write(data)
            await response.write(b"", True)
        except GatewayError as error:
            await fail(exchange, error, protocol.render_error, protocol.request_id)
            if response.begun:
                exchange.cut()
        except asyncio.CancelledError:
            await response.finish_cancelled(protocol)
        finally:
            self._open.discard(response)
            response.close()
            forwarded.close()

    async def _replies(self, requests: Sequence[Request], client: LegClient) -> list[Reply]:
        """Return the replies to several concurrent requests.

        If a request fails, cancel the others and raise its error.
        """
        try:
            async with asyncio.TaskGroup() as group:
                legs = [group.create_task(self._reply(request, client)) for request in requests]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from failures
        return [leg.result() for leg in legs]

    async def _reply(self, request: Request, client: LegClient) -> Reply:
        async with aclosing(await self._gateway.open(request, client)) as leg:
            reply = fold([event async for batch in leg for event in batch])
            return replace(reply, headers=(*reply.headers, *losses.header(leg.dropped)))

    def _begin(self, exchange: Exchange, writer: Writer | None) -> "_OpenResponse":
        loop = asyncio.get_running_loop()
        now = loop.time()
        response = _OpenResponse(exchange, writer, loop, asyncio.current_task(loop), now, now)
        self._open.add(response)
        if self._timer is None:
            self._timer = loop.call_later(CHECK_INTERVAL, self._check, loop)
        return response

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check all open responses, and restart the timer if there are any."""
        now = loop.time()
        for response in self._open:
            response.check(now, self._keep_alive, self._tasks)
        self._timer = loop.call_later(CHECK_INTERVAL, self._check, loop) if self._open else None


def client_of(exchange: Exchange, frontend: str, profile: Profile, size: int | None = None) -> LegClient:
    """Return the information about a client that a leg needs.

    `size` is the size of the request, by default that of its body.
    """
    return LegClient(
        frontend,
        exchange.header(b"user-agent"),
        profile.activity or "reasoning",
        request_size=exchange.size if size is None else size,
        gets_tools=bool(profile.tools),
        access=exchange.access,
        owner=exchange.owner,
        workspace=exchange.workspace or "",
    )


def selecting(request: Request, exchange: Exchange) -> Request:
    """Return the request with the folder and the MCP servers that its HTTP headers select for a coding agent."""
    if _SELECTING.isdisjoint(exchange.headers):
        return request
    folder = exchange.header(FOLDER_HEADER).strip() if FOLDER_HEADER in exchange.headers else None
    names = (name.strip() for name in exchange.header(SERVERS_HEADER).split(","))
    return replace(request, selection=Selection(folder=folder, servers=tuple(name for name in names if name)))


async def _send_stream(response: "_OpenResponse", leg: ServedLeg, writer: Writer, protocol: ClientProtocol) -> None:
    """Send the batches of a leg as they arrive."""
    async for batch in leg:
        last = batch[-1] if batch else None
        if not response.begun:
            if type(last) is Failed:
                await fail(response.exchange, LegFailed(last), protocol.render_error, protocol.request_id)
                return
            response.headers = [*_response_headers(batch, protocol), *_dropped(leg)]
        data = writer.write_all(batch)
        if type(last) is Failed:
            await response.break_off(data, last, protocol)
        else:
            await response.write(data, type(last) is Finished)


async def _send_whole(exchange: Exchange, leg: ServedLeg, protocol: ClientProtocol, options: Value) -> None:
    """Wait until a leg has ended, and send its complete reply."""
    events: list[Event] = []
    source: AnswerSource | None = None
    async for batch in leg:
        events += batch
        source = source_of(batch) or source
    try:
        reply = fold(events, source)
    except LegFailed as error:
        await fail(exchange, error, protocol.render_error, protocol.request_id)
        return
    headers = [*encoded(reply.headers, protocol.request_id), *_dropped(leg)]
    await exchange.respond(200, protocol.render(reply, options), headers=headers)


class _OpenResponse(msgspec.Struct, eq=False):
    """A response in progress. It is cancelled when the client disconnects, and kept alive while there is no data.

    The head of a stream is sent together with its first bytes, so that a failure before them can set the status code.
    """

    exchange: Exchange
    writer: Writer | None
    _loop: asyncio.AbstractEventLoop
    _task: asyncio.Task[None] | None
    _begun_at: float
    _wrote_at: float
    begun: bool = False
    headers: Sequence[tuple[bytes, bytes]] | None = None
    head: Sequence[tuple[bytes, bytes]] = STREAM_HEAD
    leg: ServedLeg | None = None
    _listener: asyncio.Task[None] | None = None
    _has_left: bool = False
    _is_writing: bool = False
    _is_closed: bool = False

    async def write(self, data: bytes, last: bool = False) -> None:
        """Send the next part of the stream; `last` completes it."""
        if self._is_closed or (not data and not last):
            return
        self._is_closed = last
        self._is_writing = True
        if not self.begun:
            self.begun = True
            await self.exchange.begin_stream(_dropped(self.leg) if self.headers is None else self.headers, self.head)
        await self.exchange.write(data, last)
        self._is_writing = False
        self._wrote_at = self._loop.time()

    async def break_off(self, data: bytes, failed: Failed, protocol: ClientProtocol) -> None:
        """Send the error that ends a stream. If a retry may succeed, cut the connection, so that the client retries."""
        is_cut = protocol.cuts_failed and bool(data) and not self._is_closed and is_transient(failed)
        await self.write(data, last=not is_cut)
        if is_cut:
            self._is_closed = True
            self.exchange.cut()

    def close(self) -> None:
        """Make sure that nothing more is sent, not even a keep-alive, and stop watching for a disconnect."""
        self._is_closed = True
        if self._listener is not None:
            self._listener.cancel()
            self._listener = None  # break the reference cycle

    def check(self, now: float, keep_alive: float, tasks: Tasks) -> None:
        """Start watching for a disconnect, send a keep-alive if one is due, or drop a client that reads nothing."""
        if self._listener is None and now - self._begun_at >= CHECK_INTERVAL:
            self._listener = tasks.start(self._cancel_when_left(), "client watch")
        silent = now - self._wrote_at
        if self._is_writing:
            if silent > STALL_TIMEOUT and self._task is not None:
                self._has_left = True
                self._task.cancel("the client reads nothing")
        elif self.writer is not None and silent >= keep_alive:
            self._wrote_at = now
            tasks.start(self._send_keep_alive(self.writer), "keep-alive")

    async def _send_keep_alive(self, writer: Writer) -> None:
        # A keep-alive may be numbered like an event, so it is built only when it is sent: the numbers must be in order.
        if not self._is_closed:
            await self.write(writer.keep_alive())

    async def finish_cancelled(self, protocol: ClientProtocol) -> None:
        """End a response whose task was cancelled. Unless the client has left, report that the gateway is stopping.

        A replica that forwarded the request is asked to serve it itself, if the response has not begun.
        """
        if self._task is not None:
            self._task.uncancel()
        if self._has_left:
            return
        if self.exchange.is_forwarded and not self.exchange.begun:
            await self.exchange.respond(MISDIRECTED, b"{}", headers=(ELSEWHERE,))
        elif self.writer is None or not self.begun:
            await fail(self.exchange, LegFailed(STOPPING), protocol.render_error)
        else:
            await self.break_off(self.writer.write(STOPPING), STOPPING, protocol)

    async def _cancel_when_left(self) -> None:
        while (await self.exchange.receive())["type"] != "http.disconnect":
            pass
        self._has_left = True
        if self._task is not None:
            self._task.cancel("the client has left")


def _response_headers(batch: Batch, protocol: ClientProtocol) -> list[tuple[bytes, bytes]]:
    started = batch[0] if batch else None
    return encoded(started.headers, protocol.request_id) if type(started) is Started else []


def _dropped(leg: ServedLeg | None) -> list[tuple[bytes, bytes]]:
    """Return the response header that lists the content that could not be translated between the two protocols."""
    dropped = leg.dropped if leg is not None else ()
    return encoded(losses.header(dropped)) if dropped else []
