"""A leg as an HTTP response: streamed or whole, kept alive while it is silent, ended when the client leaves."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from tieline.core.legs import losses
from tieline.core.legs.forwarding import Passage
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import Asker, WatchedLeg
from tieline.frontends.http import STREAM_HEAD, Exchange, RenderError, encoded, fail
from tieline.frontends.profiles import Profile
from tieline.model.assemble import fold
from tieline.model.content import Value
from tieline.model.errors import GatewayError, LegFailed, is_transient
from tieline.model.events import Batch, Event, Failed, Finished, Headers, Reply, Started, source_of
from tieline.model.request import Request, Selection
from tieline.model.source import AnswerSource
from tieline.tasks import Tasks

FOLDER_HEADER, SERVERS_HEADER = b"x-tieline-folder", b"x-tieline-mcp"
"""Select a working folder and MCP servers for a coding agent, by their names in the configuration."""
GRACE = 0.05
"""How often deliveries are looked after. Listening for a client's leaving costs a task; a request that is answered
sooner than this never pays for it."""

STOPPING = Failed(kind="overloaded", status=503, message="The gateway is being stopped; ask again in a moment.")

STALLED = 300.0
"""A client that takes nothing for this long is given up."""


class Writer(Protocol):
    """Events → bytes of a streamed response."""

    def write(self, event: Event) -> bytes: ...
    def write_all(self, batch: Batch) -> bytes: ...


class Face(msgspec.Struct, frozen=True):
    """How one protocol shows a leg to its client; the writers take the options of that client."""

    name: str
    writer: Callable[[Any], Writer]
    render: Callable[[Reply, Any], bytes]
    render_error: RenderError
    keep_alive: bytes
    request_id: str
    """The header this protocol's clients look for the request id in."""


class Relay:
    """Carries legs from the gateway to clients, and looks after all that are under way."""

    def __init__(self, gateway: Gateway, tasks: Tasks, *, keep_alive: float = 15.0) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._keep_alive = keep_alive
        self._open: set[_Delivery] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def carry(self, exchange: Exchange, request: Request, face: Face, options: Value, profile: Profile) -> None:
        """Answer one request; a client that leaves ends the leg at once, wherever it is."""
        writer = face.writer(options) if request.stream else None
        client = exchange.header(b"user-agent")
        if FOLDER_HEADER in exchange.headers or SERVERS_HEADER in exchange.headers:
            request = _selected(request, exchange)
        asker = Asker(face.name, client, profile.activity or "reasoning", exchange.size, bool(profile.tools))
        delivery = self._begin(exchange, b"" if writer is None else face.keep_alive, writer)
        leg: WatchedLeg | None = None
        try:
            leg = delivery.leg = await self._gateway.open(request, asker)
            if writer is None:
                await _whole(exchange, leg, face, options)
            else:
                await _streamed(delivery, leg, writer, face)
        except asyncio.CancelledError:
            await delivery.part(face)
        finally:
            self._open.discard(delivery)
            delivery.close()
            if leg is not None:
                await leg.aclose()

    async def carry_several(
        self,
        exchange: Exchange,
        requests: Sequence[Request],
        face: Face,
        render: Callable[[Sequence[Reply]], bytes],
    ) -> None:
        """Answer with the replies of several legs at once; if one fails, all do."""
        delivery = self._begin(exchange, b"", None)
        legs = asyncio.gather(*(self._reply(request, face) for request in requests))
        try:
            replies = await legs
            await exchange.respond(200, render(replies), headers=_shown(replies[0].headers, face))
        except LegFailed as error:
            legs.cancel()
            await fail(exchange, _error(error.failed(), face), face.render_error)
        except asyncio.CancelledError:
            await delivery.part(face)
        finally:
            self._open.discard(delivery)
            delivery.close()

    async def forward(self, exchange: Exchange, passage: Passage, face: Face) -> None:
        """Pass a request through to its upstream, and the answer back as it comes."""
        delivery = self._begin(exchange, b"", None)
        forwarding = self._gateway.forward(passage)
        try:
            answer = await forwarding.open()
            delivery.headers = _shown(answer.headers, face)
            delivery.head = encoded((("content-type", answer.content_type or "application/octet-stream"),))
            while data := await forwarding.chunk():
                await delivery.write(data)
            await delivery.write(b"", True)
        except GatewayError as error:
            error.headers = _renamed(error.headers, face)
            await fail(exchange, error, face.render_error)
            if delivery.begun:
                exchange.cut()
        except asyncio.CancelledError:
            await delivery.part(face)
        finally:
            self._open.discard(delivery)
            delivery.close()
            forwarding.close()

    async def _reply(self, request: Request, face: Face) -> Reply:
        async with aclosing(await self._gateway.open(request, Asker(face.name))) as leg:
            reply = fold([event async for batch in leg for event in batch])
            return replace(reply, headers=(*reply.headers, *losses.header(leg.dropped)))

    def _begin(self, exchange: Exchange, sign: bytes, writer: Writer | None) -> "_Delivery":
        loop = asyncio.get_running_loop()
        delivery = _Delivery(exchange, sign, writer, loop)
        self._open.add(delivery)
        if self._timer is None:
            self._timer = loop.call_later(GRACE, self._look, loop)
        return delivery

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look after what is under way: one timer for all, and none while nothing is."""
        now = loop.time()
        for delivery in self._open:
            delivery.look(now, self._keep_alive, self._tasks)
        self._timer = loop.call_later(GRACE, self._look, loop) if self._open else None


def _selected(request: Request, exchange: Exchange) -> Request:
    """The request with what its headers select by name."""
    folder, servers = exchange.headers.get(FOLDER_HEADER), exchange.headers.get(SERVERS_HEADER)
    named = None if folder is None else folder.decode("latin-1").strip()
    names = (name.strip() for name in (servers or b"").decode("latin-1").split(","))
    return replace(request, selection=Selection(folder=named, servers=tuple(name for name in names if name)))


async def _streamed(delivery: "_Delivery", leg: WatchedLeg, writer: Writer, face: Face) -> None:
    """Send the batches of a leg as they come."""
    async for batch in leg:
        last = batch[-1] if batch else None
        if not delivery.begun:
            if type(last) is Failed:
                await fail(delivery.exchange, _error(last, face), face.render_error)
                return
            delivery.headers = [*_headers(batch, face), *_dropped(leg)]
        data = writer.write_all(batch)
        if type(last) is Failed:
            await delivery.break_off(data, last)
        else:
            await delivery.write(data, type(last) is Finished)


async def _whole(exchange: Exchange, leg: WatchedLeg, face: Face, options: Value) -> None:
    """Send all of a leg at once when it is over."""
    events: list[Event] = []
    source: AnswerSource | None = None
    async for batch in leg:
        events += batch
        source = source_of(batch) or source
    try:
        reply = fold(events, source)
    except LegFailed as error:
        await fail(exchange, _error(error.failed(), face), face.render_error)
        return
    headers = [*_shown(reply.headers, face), *_dropped(leg)]
    await exchange.respond(200, face.render(reply, options), headers=headers)


class _Delivery:
    """One response under way: cancelled when its client leaves, and with a sign of life in every silence.

    The head of a stream goes out with its first bytes, so that what fails before can still be a status.
    """

    __slots__ = (
        "_begun_at",
        "_is_closed",
        "_is_writing",
        "_listener",
        "_loop",
        "_sign",
        "_task",
        "_wrote",
        "begun",
        "exchange",
        "gone",
        "head",
        "headers",
        "leg",
        "writer",
    )

    def __init__(self, exchange: Exchange, sign: bytes, writer: Writer | None, loop: asyncio.AbstractEventLoop) -> None:
        self.exchange = exchange
        self.writer = writer
        self.begun = False
        self.gone = False
        self.headers: Sequence[tuple[bytes, bytes]] | None = None
        self.head: Sequence[tuple[bytes, bytes]] = STREAM_HEAD
        self.leg: WatchedLeg | None = None
        self._sign = sign
        self._loop = loop
        self._task = asyncio.current_task(loop)
        self._listener: asyncio.Task[None] | None = None
        self._begun_at = self._wrote = loop.time()
        self._is_writing = False
        self._is_closed = False

    async def write(self, data: bytes, last: bool = False) -> None:
        """More of the stream; the last write ends it."""
        if self._is_closed or (not data and not last):
            return
        self._is_closed = last
        self._is_writing = True
        if not self.begun:
            self.begun = True
            await self.exchange.begin_stream(_dropped(self.leg) if self.headers is None else self.headers, self.head)
        await self.exchange.write(data, last)
        self._is_writing = False
        self._wrote = self._loop.time()

    async def break_off(self, data: bytes, failed: Failed) -> None:
        """Write the error that ends a stream. If a retry may help, cut the connection behind it.

        Many clients retry after a broken transfer, but take an error in a stream that ends in order for final.
        """
        is_cut = bool(data) and not self._is_closed and is_transient(failed)
        await self.write(data, last=not is_cut)
        if is_cut:
            self._is_closed = True
            self.exchange.cut()

    def close(self) -> None:
        """Nothing more is written, not even a sign of life that is on its way."""
        self._is_closed = True
        if self._listener is not None:
            self._listener.cancel()
            # It knows of us: without it no garbage collector is needed.
            self._listener = None

    def look(self, now: float, keep_alive: float, tasks: Tasks) -> None:
        """Listen for the client's leaving, say that we are still there, or give up a client that takes nothing."""
        if self._listener is None and now - self._begun_at >= GRACE:
            self._listener = tasks.start(self._listen(), "client watch")
        silent = now - self._wrote
        if self._is_writing:
            if silent > STALLED and self._task is not None:
                self.gone = True
                self._task.cancel("the client takes nothing")
        elif self._sign and silent >= keep_alive:
            self._wrote = now
            tasks.start(self.write(self._sign), "keep-alive")

    async def part(self, face: Face) -> None:
        """A cancellation has done its work: the client has left, or the gateway is about to and tells the client."""
        if self._task is not None:
            self._task.uncancel()
        if self.gone:
            return
        if self.writer is None or not self.begun:
            await fail(self.exchange, LegFailed(STOPPING), face.render_error)
        else:
            await self.break_off(self.writer.write(STOPPING), STOPPING)

    async def _listen(self) -> None:
        while (await self.exchange.receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        if self._task is not None:
            self._task.cancel("the client has left")


def _error(failed: Failed, face: Face) -> LegFailed:
    error = LegFailed(failed)
    error.headers = _renamed(failed.headers, face)
    return error


def _headers(batch: Batch, face: Face) -> list[tuple[bytes, bytes]]:
    started = batch[0] if batch else None
    return _shown(started.headers, face) if type(started) is Started else []


def _dropped(leg: WatchedLeg | None) -> list[tuple[bytes, bytes]]:
    """The header that says what could not be carried over to the other side."""
    dropped = leg.dropped if leg is not None else ()
    return encoded(losses.header(dropped)) if dropped else []


def _shown(headers: Headers, face: Face) -> list[tuple[bytes, bytes]]:
    return encoded(_renamed(headers, face)) if headers else []


def _renamed(headers: Headers, face: Face) -> Headers:
    """The upstream's request id under the name this client looks for."""
    name_here = face.request_id
    if name_here == "request-id":
        return headers
    return tuple([(name_here if name == "request-id" else name, value) for name, value in headers])
