"""A leg as an HTTP response: streamed or whole, kept alive while it is silent, ended when the client leaves."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, Protocol

from tieline.core.gateway import Gateway
from tieline.core.turn import Turn
from tieline.frontends.http import Exchange, RenderError, encoded, fail
from tieline.model.assemble import fold
from tieline.model.content import Value
from tieline.model.errors import LegFailed
from tieline.model.events import Batch, Event, Failed, Finished, Headers, Reply, Started
from tieline.model.request import Request
from tieline.tasks import Tasks

GRACE = 0.05
"""Listening for a client's leaving costs a task; a request that is answered sooner than this never pays for it."""

STALLED = 300.0
"""A client that takes nothing for this long is given up."""


class Writer(Protocol):
    """Events → bytes of a streamed response."""

    def write(self, event: Event) -> bytes: ...


class Face(NamedTuple):
    """How one protocol shows a leg to its client; the writers take the options of that client."""

    name: str
    writer: Callable[[Any], Writer]
    render: Callable[[Reply, Any], bytes]
    render_error: RenderError
    keep_alive: bytes
    request_id: str
    """The header this protocol's clients look for the request id in."""


class Relay:
    """Carries legs from the gateway to clients."""

    def __init__(self, gateway: Gateway, tasks: Tasks, *, keep_alive: float = 15.0) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._keep_alive = keep_alive

    async def carry(self, exchange: Exchange, request: Request, face: Face, options: Value) -> None:
        """Answer one request; a client that leaves ends the leg at once, wherever it is."""
        leg = self._gateway.leg(request, frontend=face.name)
        watch = _Watch(exchange, self._tasks)
        try:
            async with aclosing(leg):
                if request.stream:
                    await self._stream(exchange, leg, face, options)
                else:
                    await _whole(exchange, leg, face, options)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            watch.forgive()
        finally:
            watch.close()

    async def carry_several(
        self,
        exchange: Exchange,
        requests: Sequence[Request],
        face: Face,
        render: Callable[[Sequence[Reply]], bytes],
    ) -> None:
        """Answer with the replies of several legs at once; if one fails, all do."""
        legs = asyncio.gather(*(self._reply(request, face) for request in requests))
        watch = _Watch(exchange, self._tasks)
        try:
            replies = await legs
            await exchange.respond(200, render(replies), headers=encoded(_renamed(replies[0].headers, face)))
        except LegFailed as error:
            legs.cancel()
            await fail(exchange, _error(error.failed(), face), face.render_error)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            watch.forgive()
        finally:
            watch.close()

    async def _reply(self, request: Request, face: Face) -> Reply:
        async with aclosing(self._gateway.leg(request, frontend=face.name)) as leg:
            return fold([event async for batch in leg for event in batch])

    async def _stream(self, exchange: Exchange, leg: Turn, face: Face, options: Value) -> None:
        write = face.writer(options).write
        stream = _Stream(exchange, face.keep_alive, self._keep_alive, self._tasks)
        try:
            async for batch in leg:
                last = batch[-1] if batch else None
                if isinstance(last, Failed) and not stream.begun:
                    await fail(exchange, _error(last, face), face.render_error)
                    return
                if not stream.begun:
                    stream.headers = _headers(batch, face)
                data = b"".join([write(event) for event in batch])
                await stream.write(data, last=isinstance(last, Finished | Failed))
        finally:
            stream.close()


async def _whole(exchange: Exchange, leg: Turn, face: Face, options: Value) -> None:
    events: list[Event] = []
    async for batch in leg:
        events += batch
    try:
        reply = fold(events)
    except LegFailed as error:
        await fail(exchange, _error(error.failed(), face), face.render_error)
        return
    await exchange.respond(200, face.render(reply, options), headers=encoded(_renamed(reply.headers, face)))


class _Stream:
    """A response of server-sent events: its head goes out with the first bytes, a sign of life in every silence."""

    def __init__(self, exchange: Exchange, sign: bytes, interval: float, tasks: Tasks) -> None:
        self.begun = False
        self.headers: list[tuple[bytes, bytes]] = []
        self._exchange = exchange
        self._sign = sign
        self._interval = interval
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._wrote = self._loop.time()
        self._writing = 0
        self._is_closed = False
        self._timer = self._loop.call_later(interval, self._tick)

    async def write(self, data: bytes, *, last: bool = False) -> None:
        if self._is_closed or (not data and not last):
            return
        self._is_closed = last
        self._writing += 1
        if not self.begun:
            self.begun = True
            await self._exchange.begin_stream(self.headers)
        await self._exchange.write(data, last=last)
        self._writing -= 1
        self._wrote = self._loop.time()

    def close(self) -> None:
        """Nothing more is written, not even a sign of life that is on its way."""
        self._is_closed = True
        self._timer.cancel()

    def _tick(self) -> None:
        silent = self._loop.time() - self._wrote
        if self._writing and silent > STALLED and self._task is not None:
            self._task.cancel("the client takes nothing")
            return
        if not self._writing and silent >= self._interval:
            self._tasks.start(self.write(self._sign), "keep-alive")
        self._timer = self._loop.call_later(self._interval, self._tick)


class _Watch:
    """Cancels the task it was made in when the client leaves."""

    def __init__(self, exchange: Exchange, tasks: Tasks) -> None:
        self.gone = False
        self._receive = exchange.receive
        self._tasks = tasks
        self._task = asyncio.current_task()
        self._listener: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(GRACE, self._listen)

    def close(self) -> None:
        self._timer.cancel()
        if self._listener is not None:
            self._listener.cancel()

    def forgive(self) -> None:
        """The cancellation was ours and has done its work."""
        if self._task is not None:
            self._task.uncancel()

    def _listen(self) -> None:
        self._listener = self._tasks.start(self._wait(), "client watch")

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
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
    return encoded(_renamed(started.headers, face)) if isinstance(started, Started) else []


def _renamed(headers: Headers, face: Face) -> Headers:
    """The upstream's request id under the name this client looks for."""
    return tuple((face.request_id if name == "request-id" else name, value) for name, value in headers)
