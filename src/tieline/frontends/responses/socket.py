"""Responses over a WebSocket at `/v1/responses`: many requests on one connection.

Each `response.create` message is a request. Each event of the response is sent as one message. A connection remembers
its latest responses, stored or not, so that a request can continue a response by its id and send only the new items.
Requests with the same `stream_id` form a *lane* and are answered one after another. Lanes run concurrently.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from itertools import count

import msgspec
from msgspec.structs import replace

from tieline.core.legs.leg import INTERNAL_ERROR
from tieline.frontends.bodies import COUNT_ABOVE, check_values
from tieline.frontends.guard import Guard
from tieline.frontends.http import Exchange, WebSocket
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.relay import STOPPING, client_of, selecting
from tieline.frontends.replicas import Replicas
from tieline.frontends.responses.creation import Creation, ResponseCreator, StoringWriter, context_after
from tieline.frontends.responses.forwarded_turn import ForwardedTurn
from tieline.frontends.responses.history import Context
from tieline.frontends.responses.requests import Owners
from tieline.model.bounded_cache import BoundedCache
from tieline.model.content import Checkpoint
from tieline.model.errors import BadRequest, GatewayError, LegFailed
from tieline.model.events import Batch, Event, Failed, Finished, Started, StopReason, Usage
from tieline.wire.openai_responses.frames import error_frame, events_in, with_stream_id
from tieline.wire.shared.json import parse, replace_lone_surrogates

log = logging.getLogger("tieline")

MAX_LANES = 32
"""Maximum number of different values of `stream_id` on one connection."""
MAX_RUNNING = 16
"""Maximum number of requests that are answered at the same time on one connection."""
MAX_WAITING = 32
"""Maximum number of requests on one connection that wait for an earlier request."""
MAX_STREAM_ID = 256
MAX_CONTEXTS = 4096
MAX_CONTEXT_BYTES = 64 * 1024 * 1024
"""Maximum total size, in bytes, of the conversations that all connections together remember."""
STOP_TIMEOUT = 5.0
"""Maximum number of seconds to wait for a client to read the end of a response when the gateway stops."""
GOING_AWAY = 1001
"""The WebSocket close code of a server that is stopping."""

LaneKey = tuple[int, str | None]
"""The number of a connection, and a `stream_id`."""
RememberedResponse = tuple[str, Context]
"""The id of a response, and the conversation up to and including it."""


class _Message(msgspec.Struct):
    type: str | None = None
    stream_id: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


class ResponsesSocket:
    """Serves responses over WebSockets."""

    def __init__(
        self,
        profiles: Profiles,
        creator: ResponseCreator,
        owners: Owners,
        guard: Guard,
        *,
        keep_alive: float = 15.0,
        replicas: Replicas | None = None,
    ) -> None:
        self._replicas = replicas
        self._profiles = profiles
        self._creator = creator
        self._owners = owners
        self._guard = guard
        self._keep_alive = keep_alive
        self._numbers = count()
        self._latest: BoundedCache[LaneKey, RememberedResponse] = BoundedCache(
            MAX_CONTEXTS, max_weight=MAX_CONTEXT_BYTES
        )

    async def serve(self, exchange: Exchange) -> None:
        """Answer the messages on one connection until it is closed."""
        profile = self._profiles.common or self._profiles.of(exchange)
        socket = await exchange.accept()
        async with asyncio.TaskGroup() as tasks:
            session = _Session(
                exchange,
                socket,
                self._creator,
                profile,
                _Memory(self._latest, next(self._numbers), exchange),
                self._guard,
                owner=self._owners.of(exchange),
                keep_alive=self._keep_alive,
                tasks=tasks,
                replicas=self._replicas,
            )
            try:
                while (message := await socket.receive()) is not None:
                    await session.receive(message)
            finally:
                await session.close()
        if socket.is_open:
            await socket.close(GOING_AWAY, "The gateway is being stopped.")


class _Memory:
    """Remembers the last response in each lane of one connection. `latest` is a bounded cache for all connections.

    The remembered conversations count against the budget for all bodies.
    """

    def __init__(self, latest: BoundedCache[LaneKey, RememberedResponse], connection: int, exchange: Exchange) -> None:
        self._latest = latest
        self._connection = connection
        self._exchange = exchange

    def put(self, stream_id: str | None, response_id: str, context: Context) -> None:
        """Remember a response. If that exceeds the budget, drop it.

        If the response is not stored either, the client then has to send all items again.
        """
        before = self._latest.weight
        self._latest.put((self._connection, stream_id), (response_id, context), context.size)
        if not self._exchange.keep(self._latest.weight - before):
            log.warning("could not remember %s: the conversations in use take up too much memory", response_id)
            self._latest.pop((self._connection, stream_id))
            self._exchange.keep(self._latest.weight - before)

    def pop(self, stream_id: str | None) -> None:
        before = self._latest.weight
        self._latest.pop((self._connection, stream_id))
        self._exchange.keep(self._latest.weight - before)

    def contexts(self, lanes: Sequence[str | None]) -> dict[str, Context]:
        """Return the remembered conversations of these lanes, by the ids of their last responses."""
        found = (self._latest.get((self._connection, stream_id)) for stream_id in lanes)
        return dict(remembered for remembered in found if remembered is not None)


class _Lane:
    """The requests with the same `stream_id`, which are answered one after another."""

    def __init__(self, stream_id: str | None) -> None:
        self.stream_id = stream_id
        self.waiting: deque[bytes] = deque()
        self.task: asyncio.Task[None] | None = None


class _Session:
    """Answers the requests on one connection."""

    def __init__(
        self,
        exchange: Exchange,
        socket: WebSocket,
        creator: ResponseCreator,
        profile: Profile,
        memory: _Memory,
        guard: Guard,
        *,
        owner: str,
        keep_alive: float,
        tasks: asyncio.TaskGroup,
        replicas: Replicas | None,
    ) -> None:
        self._replicas = replicas
        self._exchange = exchange
        self._socket = socket
        self._creator = creator
        self._profile = profile
        self._memory = memory
        self._guard = guard
        self._owner = owner
        self._keep_alive = keep_alive
        self._tasks = tasks
        self._lanes: dict[str | None, _Lane] = {}

    async def receive(self, message: bytes) -> None:
        """Queue the request in a message. If the message is invalid, answer with an error."""
        stream_id = None
        try:
            if len(message) > COUNT_ABOVE:
                await check_values([message])
            head = _head_of(message)
            stream_id = head.stream_id
            self._guard.count(self._exchange)
            self._queue(head, message)
        except GatewayError as error:
            await self._send_error(error, stream_id)

    async def close(self) -> None:
        """End all requests, because the client has disconnected or the gateway is stopping."""
        for lane in self._lanes.values():
            waiting, stream_id = len(lane.waiting), lane.stream_id
            lane.waiting.clear()
            self._memory.pop(stream_id)
            if lane.task is not None:
                lane.task.cancel()
            for _ in range(waiting if self._socket.is_open else 0):
                with suppress(TimeoutError):
                    async with asyncio.timeout(STOP_TIMEOUT):
                        await self._send_error(LegFailed(STOPPING), stream_id)

    def _queue(self, head: _Message, message: bytes) -> None:
        if head.type != "response.create":
            raise BadRequest(f"`type`: expected response.create, got '{head.type}'", "type")
        stream_id = head.stream_id
        if stream_id is not None and not 0 < len(stream_id) <= MAX_STREAM_ID:
            raise BadRequest(f"`stream_id`: expected 1 to {MAX_STREAM_ID} characters", "stream_id")
        lane = self._lanes.get(stream_id) or self._new_lane(stream_id)
        if sum(len(other.waiting) for other in self._lanes.values()) >= MAX_WAITING:
            raise _limit(f"more than {MAX_WAITING} requests wait on this connection")
        try:
            self._exchange.reserve(len(message))
        except GatewayError:
            self._exchange.release(len(message))
            raise
        lane.waiting.append(message)
        if lane.task is None:
            lane.task = self._tasks.create_task(self._work(lane), name="responses lane")

    def _new_lane(self, stream_id: str | None) -> _Lane:
        if len(self._lanes) >= MAX_LANES:
            idle = next((lane for lane in self._lanes.values() if lane.task is None), None)
            if idle is None:
                raise _limit(f"more than {MAX_LANES} values of `stream_id` are in use on this connection")
            del self._lanes[idle.stream_id]
            self._memory.pop(idle.stream_id)
        lane = self._lanes[stream_id] = _Lane(stream_id)
        return lane

    async def _work(self, lane: _Lane) -> None:
        """Answer the waiting requests in a lane, one after another."""
        try:
            while lane.waiting:
                message = lane.waiting.popleft()
                try:
                    await self._answer(lane, message)
                finally:
                    self._exchange.release(len(message))
        finally:
            lane.task = None

    async def _answer(self, lane: _Lane, message: bytes) -> None:
        running = sum(other.task is not None for other in self._lanes.values())
        if running > MAX_RUNNING:
            await self._send_error(_limit(f"more than {MAX_RUNNING} requests run on this connection"), lane.stream_id)
            return
        try:
            contexts = self._memory.contexts(list(self._lanes))
            creation = await self._prepared(message, contexts)
        except GatewayError as error:
            await self._send_error(error, lane.stream_id)
            return
        except Exception:
            log.exception("a request on a WebSocket could not be prepared")
            await self._send_error(INTERNAL_ERROR, lane.stream_id)
            return
        writer = self._creator.writer(creation)
        sender = _Sender(self._socket, lane.stream_id, writer)
        try:
            if self._replicas is not None and creation.create.generates:
                with self._replicas.counted():
                    turn = await ForwardedTurn.open(self._replicas, self._exchange, creation)
                    if turn is not None:
                        await self._pass_on(turn, lane, creation, sender)
                        return
            if await self._create(creation, sender) and writer.response:
                self._remember(lane, creation, creation.options.response_id, writer.response, writer.checkpoint)
        except Exception:
            # A bug: send the client an error that it can parse, and log the traceback.
            log.exception("a response on a WebSocket failed")
            await sender.fail(INTERNAL_ERROR.failed())
        finally:
            self._creator.release(creation)
            self._exchange.release(creation.context.size)

    async def _prepared(self, message: bytes, contexts: Mapping[str, Context]) -> Creation:
        """Prepare a request. Its history, like its body, counts against the budget for all bodies."""
        creation = await self._creator.prepare(self._owner, message, self._profile, contexts)
        try:
            self._exchange.reserve(creation.context.size)
        except GatewayError:
            self._exchange.release(creation.context.size)
            self._creator.release(creation)
            raise
        return creation

    def _remember(
        self, lane: _Lane, creation: Creation, response_id: str, response: bytes, checkpoint: Checkpoint | None = None
    ) -> None:
        with suppress(GatewayError):  # too large to be continued by its id
            self._memory.put(lane.stream_id, response_id, context_after(creation, response, checkpoint))

    async def _pass_on(self, turn: ForwardedTurn, lane: _Lane, creation: Creation, sender: "_Sender") -> None:
        """Send the events of a response that another replica creates."""
        try:
            async for events in turn:
                await sender.send_events(events)
        except GatewayError as error:
            await self._send_error(error, lane.stream_id)
        finally:
            turn.close()
        if turn.response:
            self._remember(lane, creation, turn.response_id, turn.response)

    async def _create(self, creation: Creation, sender: "_Sender") -> bool:
        """Create a response and send its events. Return whether the response succeeded."""
        if not creation.create.generates:
            await sender.send(_warm_up(creation))
            return True
        request = selecting(replace(creation.request, stream=True), self._exchange)
        client = client_of(self._exchange, "responses", self._profile, creation.size)
        sender.start_keep_alives(self._keep_alive, self._tasks)
        last: Event | None = None
        try:
            async with aclosing(await self._creator.open(creation, request, client)) as leg:
                async for batch in leg:
                    last = batch[-1] if batch else last
                    if isinstance(last, Finished):
                        sender.list_dropped(leg.dropped)  # WebSocket messages have no header for it
                    await (sender.fail(last, batch) if isinstance(last, Failed) else sender.send(batch))
        except asyncio.CancelledError:
            sender.stop_keep_alives()
            if self._socket.is_open:
                with suppress(TimeoutError):
                    async with asyncio.timeout(STOP_TIMEOUT):
                        await sender.fail(STOPPING)
            raise
        finally:
            sender.stop_keep_alives()
        return isinstance(last, Finished)

    async def _send_error(self, error: GatewayError, stream_id: str | None) -> None:
        frame = error_frame(error)
        await self._socket.send(frame if stream_id is None else with_stream_id(frame, stream_id))


class _Sender:
    """Sends the events of one response, each as a message of its own."""

    def __init__(self, socket: WebSocket, stream_id: str | None, writer: StoringWriter) -> None:
        self._socket = socket
        self._stream_id = stream_id
        self._writer = writer
        self._has_begun = False
        self._sent = 0
        """How many times events have been sent."""
        self._timer: asyncio.TimerHandle | None = None
        self._order = asyncio.Lock()
        """Held while events are sent, because two tasks may send events and the order must be preserved."""

    def list_dropped(self, dropped: Sequence[str]) -> None:
        """Make the response list the content that could not be translated. Call this before its last batch is sent."""
        self._writer.dropped = dropped

    async def send(self, batch: Batch) -> None:
        """Send a batch of the leg."""
        await self.send_events(events_in(self._writer.write_all(batch)))

    async def fail(self, failed: Failed, batch: Batch = ()) -> None:
        """Send a failure: as an error with a status if no event was sent before, otherwise as the end of the response.

        `batch` is the batch that ends with `failed`, if there is one.
        """
        if self._has_begun:
            await self.send(batch or (failed,))
        else:
            await self.send_events([error_frame(LegFailed(failed))])

    def start_keep_alives(self, interval: float, tasks: asyncio.TaskGroup) -> None:
        """Send the response's state after each `interval` seconds without an event; otherwise some clients give up.

        This uses a timer instead of a task, because most responses end before the first keep-alive is due.
        """
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(interval, self._check, interval, tasks, self._sent)

    def stop_keep_alives(self) -> None:
        """Send no more keep-alives, and break the reference cycle with the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, interval: float, tasks: asyncio.TaskGroup, sent: int) -> None:
        if sent == self._sent:
            tasks.create_task(self._send_keep_alive(), name="keep-alive")
        self.start_keep_alives(interval, tasks)

    async def _send_keep_alive(self) -> None:
        await self.send_events(events_in(self._writer.keep_alive()))

    async def send_events(self, events: list[bytes]) -> None:
        """Send events, each given as JSON."""
        if not events:
            return
        if self._stream_id is not None:
            events = [with_stream_id(event, self._stream_id) for event in events]
        self._has_begun = True
        self._sent += 1
        async with self._order:
            await self._socket.send(*events)


def _head_of(message: bytes) -> _Message:
    try:
        return parse(_MESSAGE, message)
    except BadRequest:
        return parse(_MESSAGE, replace_lone_surrogates(message))


def _warm_up(creation: Creation) -> Batch:
    """Return the events of an empty response, for a client that announces a conversation but wants no answer yet."""
    started = Started(id=creation.options.response_id, model=creation.request.model)
    return [started, Usage(), Finished(reason=StopReason.END_TURN)]


def _limit(problem: str) -> GatewayError:
    return GatewayError("rate_limited", f"Too many requests: {problem}.", code="websocket_stream_limit_reached")
