"""Background responses: created even if the client disconnects. A client polls or follows a response by its id.

A response is stored when it begins and again when it ends. Its events are kept in memory while it is being created and
for some time afterwards, so that a client can follow them from any point.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.core.legs import losses
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import INTERNAL_ERROR, LegClient
from tieline.frontends.http import Exchange, send_events
from tieline.frontends.relay import STOPPING
from tieline.frontends.responses.creation import Creation, ResponseCreator, checkpoint_in
from tieline.frontends.responses.history import ResponseHistory
from tieline.frontends.responses.requests import number_in
from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import Checkpoint
from tieline.model.errors import BadRequest, GatewayError
from tieline.model.events import Failed
from tieline.tasks import Tasks
from tieline.wire import openai_responses as wire
from tieline.wire.openai_responses.frames import (
    begun_response,
    events_in,
    server_sent,
    with_dropped,
    with_response,
    with_status,
)
from tieline.wire.openai_responses.stored import StoredResponse, response_not_found, with_failure

log = logging.getLogger("tieline")

MAX_RUNNING = 32
MAX_RUNNING_OF_KEY = 8
"""Maximum number per key, so that one client cannot keep all others from creating background responses.

Does not apply if the gateway has no keys, because all clients then belong to one user.
"""
MAX_DURATION = 3600.0
"""Maximum number of seconds that a response may take."""
MAX_LOG = 8 * 1024 * 1024
"""Maximum total size, in bytes, of the events that are kept for one response."""
KEPT_LOGS = 64
KEPT_BYTES = 32 * 1024 * 1024
MAX_SEQUENCE = 10**9
CANCEL_TIMEOUT = 10.0
"""Maximum number of seconds to wait for a cancelled response to end."""

_CANCELLED = Failed(kind="cancelled", status=499, message="The response was cancelled.")
_TOO_LONG = Failed(kind="timeout", status=504, message="The response was not complete within the time allowed.")
_LOST = Failed(kind="internal", status=500, message="The gateway was restarted while this response was being created.")


class _Numbered(msgspec.Struct):
    sequence_number: int = 0


_NUMBER = msgspec.json.Decoder(_Numbered)


class RunningResponse:
    """A background response, the events written for it, and the task that creates it.

    This object is kept for some time after the response has ended.
    """

    def __init__(self, owner: str, response_id: str, snapshot: bytes) -> None:
        self.key = owner, response_id
        self.snapshot = snapshot
        """The current state of the response as JSON."""
        self.events: list[bytes] = []
        """The events that were written for the response, each as JSON."""
        self.size = 0
        self.is_over = False
        self.is_cancelled = False
        """Whether the client has cancelled the response."""
        self.is_removed = False
        """Whether the client has removed the response. If so, it must not be stored when it ends."""
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def add(self, events: list[bytes]) -> None:
        """Add events. Once the total size exceeds MAX_LOG, add only the last event of the response."""
        self.size += sum(map(len, events))
        self.events += events if self.size <= MAX_LOG else events[-1:] if self.is_over else []
        self._changed.set()
        self._changed = asyncio.Event()

    def finish(self, response: bytes) -> None:
        """Mark the response as complete. The caller adds its last events afterwards."""
        self.snapshot = response
        self.is_over = True

    async def after(self, number: int, keep_alive: float) -> AsyncGenerator[bytes, None]:
        """Yield the events after the sequence number `number`, as they arrive.

        After each `keep_alive` seconds without an event, yield an empty one.
        """
        place = 0
        while True:
            while place < len(self.events):
                event = self.events[place]
                place += 1
                if _NUMBER.decode(event).sequence_number > number:
                    yield event
            if self.is_over:
                return
            changed = self._changed
            try:
                async with asyncio.timeout(keep_alive):
                    await changed.wait()
            except TimeoutError:
                yield b""


class BackgroundResponses:
    """The background responses of all clients."""

    def __init__(
        self,
        gateway: Gateway,
        creator: ResponseCreator,
        history: ResponseHistory,
        tasks: Tasks,
        *,
        keep_alive: float = 15.0,
    ) -> None:
        self._gateway = gateway
        self._creator = creator
        self._history = history
        self._tasks = tasks
        self._keep_alive = keep_alive
        self._running: dict[tuple[str, str], RunningResponse] = {}
        self._ended: BoundedCache[tuple[str, str], RunningResponse] = BoundedCache(KEPT_LOGS, max_weight=KEPT_BYTES)

    async def start(self, exchange: Exchange, creation: Creation, client: LegClient) -> None:
        """Start creating a response.

        Answer at once: with its events if the client streams, otherwise with its state.
        """
        try:
            running = self._begun(creation)
        except BaseException:
            self._creator.release(creation)
            raise
        work = self._create(running, creation, client)
        running.task = self._tasks.start(work, "background response")
        running.task.add_done_callback(lambda _: self._end(running, creation))
        if creation.create.stream:
            await self._stream(exchange, running, -1)
        else:
            await exchange.respond(200, running.snapshot)

    async def get(self, owner: str, response_id: str) -> StoredResponse:
        """Return the current state of any stored response. Raise GatewayError if it is not stored.

        A response whose creation was interrupted by a restart is returned as failed.
        """
        stored = await self._history.get(owner, response_id)
        if stored is None:
            raise response_not_found(response_id)
        running = self._running.get((owner, response_id))
        if running is not None:
            stored.response = Raw(running.snapshot)
        elif not stored.is_complete:
            stored.response = Raw(with_failure(bytes(stored.response), _LOST))
        return stored

    async def follow(self, exchange: Exchange, owner: str, response_id: str) -> None:
        """Stream the events of a background response after the number in the query parameter `starting_after`."""
        after = number_in(exchange, "starting_after", -1, 0, MAX_SEQUENCE)
        running = self._running.get((owner, response_id)) or self._ended.get((owner, response_id))
        if running is None:
            await self.get(owner, response_id)
            message = "The events of this response are no longer kept; get it without `stream`."
            raise BadRequest(message, "stream")
        await self._stream(exchange, running, after)

    async def cancel(self, owner: str, response_id: str) -> None:
        """Cancel a response and wait up to CANCEL_TIMEOUT until it has ended. Do nothing if it is not being created."""
        running = self._running.get((owner, response_id))
        if running is not None and running.task is not None:
            running.is_cancelled = True
            running.task.cancel()
            await asyncio.wait([running.task], timeout=CANCEL_TIMEOUT)

    async def remove(self, owner: str, response_id: str) -> bool:
        """Remove a stored response. If it is still being created, cancel it first. Return False if it is not stored."""
        running = self._running.get((owner, response_id))
        if running is not None:
            running.is_removed = True
            await self.cancel(owner, response_id)
        self._ended.pop((owner, response_id))
        return await self._history.remove(owner, response_id)

    def _begun(self, creation: Creation) -> RunningResponse:
        """Register and store a response that has just begun.

        Raise GatewayError if too many responses are being created, if the request is too large, or if it names no model
        and there is no default.
        """
        owned = sum(owner == creation.owner for owner, _ in self._running) if creation.owner else 0
        if owned >= MAX_RUNNING_OF_KEY or len(self._running) >= MAX_RUNNING:
            whose = "of this key " if owned >= MAX_RUNNING_OF_KEY else ""
            message = f"Too many background responses {whose}are being created; try again when some have ended."
            raise GatewayError("rate_limited", message, retry_after=10)
        self._gateway.named(creation.request)  # raises GatewayError if there is no model name
        snapshot = with_status(begun_response(wire.ResponseWriter(creation.options).keep_alive()), "queued")
        if not self._creator.begun(creation, snapshot):
            raise GatewayError(
                "too_large", "This request is too large to be stored, as a background response has to be."
            )
        running = RunningResponse(creation.owner, creation.options.response_id, snapshot)
        self._running[running.key] = running
        return running

    async def _create(self, running: RunningResponse, creation: Creation, client: LegClient) -> None:
        """Create a response and store it when it ends, even if it fails or is cancelled."""
        writer = wire.ResponseWriter(creation.options)
        running.add(events_in(writer.keep_alive()))
        running.snapshot = with_status(running.snapshot, "in_progress")
        try:
            request = replace(creation.request, stream=True)
            async with (
                asyncio.timeout(MAX_DURATION),
                aclosing(await self._creator.open(creation, request, client)) as leg,
            ):
                async for batch in leg:
                    events = events_in(writer.write_all(batch))
                    if writer.response:
                        response = writer.response
                        if dropped := losses.listed(leg.dropped):  # a header would not be stored
                            response = with_dropped(response, dropped)
                            events[-1] = with_response(events[-1], response)
                        self._finish(running, creation, response, checkpoint_in(batch))
                    running.add(events)
        except TimeoutError:
            self._break_off(running, creation, writer, _TOO_LONG)
        except asyncio.CancelledError:
            self._break_off(running, creation, writer, _CANCELLED if running.is_cancelled else STOPPING)
        except Exception:
            log.exception("a background response failed because of a bug")
            self._break_off(running, creation, writer, INTERNAL_ERROR.failed())

    def _break_off(
        self, running: RunningResponse, creation: Creation, writer: wire.ResponseWriter, failed: Failed
    ) -> None:
        """End a response with `failed`, unless it is complete. Keep the part of the answer that was received."""
        if running.is_over:
            return
        *events, last = events_in(writer.write(failed))
        response = with_status(writer.response, "cancelled") if failed is _CANCELLED else writer.response
        self._finish(running, creation, response)
        running.add([*events, with_response(last, response)])

    def _finish(
        self,
        running: RunningResponse,
        creation: Creation,
        response: bytes,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        running.finish(response)
        if not running.is_removed:
            self._creator.finished(creation, response, checkpoint)

    def _end(self, running: RunningResponse, creation: Creation) -> None:
        """Clean up when the task that creates a response has ended, even if it was cancelled before it began."""
        if not running.is_over:
            failed = _CANCELLED if running.is_cancelled else STOPPING
            self._break_off(running, creation, wire.ResponseWriter(creation.options), failed)
        self._creator.release(creation)
        self._running.pop(running.key, None)
        running.task = None
        if not running.is_removed:
            self._ended.put(running.key, running, running.size)

    async def _stream(self, exchange: Exchange, running: RunningResponse, after: int) -> None:
        """Send the events of a response after the sequence number `after`, until the response is complete."""
        await send_events(exchange, self._tasks, _server_sent(running.after(after, self._keep_alive)))


async def _server_sent(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(events):
        async for event in events:
            yield server_sent(event) if event else wire.KEEP_ALIVE
