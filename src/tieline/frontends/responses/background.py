"""Background responses: created without a connection, polled or followed by their id.

The events of a response are kept in memory, so that a client can follow it from any point, as long as the response is
being created and for some time afterwards.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient
from tieline.frontends.http import Exchange
from tieline.frontends.responses.creation import Creation, ResponseCreator
from tieline.frontends.responses.history import ResponseHistory
from tieline.frontends.responses.requests import query_of
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import BadRequest, GatewayError
from tieline.tasks import Tasks
from tieline.wire.openai_responses.frames import begun_response, events_in, with_status
from tieline.wire.openai_responses.stored import response_not_found

MAX_RUNNING = 64
MAX_LOG = 16 * 1024 * 1024
"""Bytes of events of one response that are kept."""
KEPT_LOGS = 64
KEPT_BYTES = 32 * 1024 * 1024
KEEP_ALIVE = 15.0


class _Numbered(msgspec.Struct):
    sequence_number: int = 0


_NUMBER = msgspec.json.Decoder(_Numbered)


class RunningResponse:
    """A background response and its events so far."""

    def __init__(self, creation: Creation, snapshot: bytes) -> None:
        self.creation = creation
        self.snapshot = snapshot
        """The response as it is now, as JSON."""
        self.events: list[bytes] = []
        """The events, as the JSON of each."""
        self.size = 0
        self.is_over = False
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def add(self, events: list[bytes]) -> None:
        """Add events. Followers of a response with too many events miss the later ones, except for the last."""
        self.size += sum(map(len, events))
        self.events += events if self.size <= MAX_LOG or self.is_over else []
        self._changed.set()
        self._changed = asyncio.Event()

    def finish(self, response: bytes) -> None:
        """Mark the response as complete."""
        self.snapshot = response
        self.is_over = True

    async def after(self, number: int) -> AsyncGenerator[bytes, None]:
        """Yield the events after a sequence number, as they come; an empty one for each pause of KEEP_ALIVE seconds."""
        place = 0
        while True:
            while place < len(self.events):
                event = self.events[place]
                place += 1
                if _NUMBER.decode(event).sequence_number > number:
                    yield event
            if self.is_over and place >= len(self.events):
                return
            changed = self._changed
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    await changed.wait()
            except TimeoutError:
                yield b""


class BackgroundResponses:
    """The background responses of all clients."""

    def __init__(self, gateway: Gateway, creator: ResponseCreator, history: ResponseHistory, tasks: Tasks) -> None:
        self._gateway = gateway
        self._creator = creator
        self._history = history
        self._tasks = tasks
        self._running: dict[tuple[str, str], RunningResponse] = {}
        self._ended: BoundedCache[tuple[str, str], RunningResponse] = BoundedCache(KEPT_LOGS, max_weight=KEPT_BYTES)

    async def start(self, exchange: Exchange, creation: Creation) -> None:
        """Begin to create a response; answer at once, with its events if the client wants to stream them."""
        if len(self._running) >= MAX_RUNNING:
            self._creator.release(creation)
            message = f"{MAX_RUNNING} background responses are being created; try again when some have ended."
            raise GatewayError("rate_limited", message, retry_after=10)
        response_id = creation.options.response_id
        running = RunningResponse(
            creation, with_status(begun_response(self._creator.writer(creation).keep_alive()), "queued")
        )
        self._running[creation.owner, response_id] = running
        client = LegClient("responses", exchange.header(b"user-agent"), request_size=exchange.size)
        running.task = self._tasks.start(self._run(running, client), "background response")
        if creation.create.stream:
            await _stream(exchange, running, -1)
        else:
            await exchange.respond(200, running.snapshot)

    def snapshot(self, owner: str, response_id: str) -> bytes | None:
        """Return a response that is being created, as JSON; None if there is none with this id."""
        running = self._running.get((owner, response_id))
        return None if running is None else running.snapshot

    async def follow(self, exchange: Exchange, owner: str, response_id: str) -> None:
        """Stream the events of a background response, after the sequence number in `starting_after`."""
        after = query_of(exchange).get("starting_after", ["-1"])[-1]
        if not after.removeprefix("-").isdecimal():
            raise BadRequest(f"`starting_after`: expected a sequence number, got '{after}'", "starting_after")
        running = self._running.get((owner, response_id)) or self._ended.get((owner, response_id))
        if running is None:
            if await self._history.get(owner, response_id) is None:
                raise response_not_found(response_id)
            message = "The events of this response are no longer kept; get it without `stream`."
            raise BadRequest(message, "stream")
        await _stream(exchange, running, int(after))

    async def cancel(self, owner: str, response_id: str) -> bytes | None:
        """Cancel a response and return it, as JSON; None if no response with this id is being created."""
        running = self._running.get((owner, response_id))
        if running is None or running.task is None:
            return None
        running.task.cancel()
        await asyncio.wait([running.task])
        return running.snapshot

    async def _run(self, running: RunningResponse, client: LegClient) -> None:
        """Create a response. It is stored when it is complete, also if it fails or is cancelled."""
        creation = running.creation
        writer = self._creator.writer(creation)
        try:
            running.add(events_in(writer.keep_alive()))
            running.snapshot = with_status(running.snapshot, "in_progress")
            request = replace(creation.request, stream=True)
            async with aclosing(await self._gateway.open(request, client)) as leg:
                async for batch in leg:
                    written = events_in(writer.write_all(batch))
                    if writer.response:
                        running.finish(writer.response)
                    running.add(written)
        except asyncio.CancelledError:
            if not running.is_over:
                response = with_status(running.snapshot, "cancelled")
                self._creator.finished(creation, response)
                running.finish(response)
                running.add([])
        finally:
            self._creator.release(creation)
            key = creation.owner, creation.options.response_id
            self._running.pop(key, None)
            self._ended.put(key, running, running.size)


async def _stream(exchange: Exchange, running: RunningResponse, after: int) -> None:
    """Send the events of a response after a sequence number, until the response is complete."""
    await exchange.begin_stream()
    async with aclosing(running.after(after)) as events:
        async for event in events:
            await exchange.write(_sse(event) if event else b": keep-alive\n")
    await exchange.write(b"", last=True)


def _sse(event: bytes) -> bytes:
    kind = msgspec.json.decode(event, type=_Typed).type
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), event)


class _Typed(msgspec.Struct):
    type: str = ""
