"""Responses over a WebSocket at `/v1/responses`: many requests on one connection.

Each `response.create` message is a request; its events are sent as one message each. A connection remembers its latest
responses, stored or not, so that a request can continue one by its id and send only what is new. Requests with
different `stream_id`s run at the same time, those with the same one after another.
"""

import asyncio
from collections import deque
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient
from tieline.frontends.bodies import COUNT_ABOVE, check_values
from tieline.frontends.http import Exchange, WebSocket
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.responses.creation import Creation, ResponseCreator, StoringWriter, context_after
from tieline.frontends.responses.history import Context
from tieline.frontends.responses.requests import Owners
from tieline.model.errors import BadRequest, GatewayError, LegFailed
from tieline.model.events import Batch, Failed, Finished, Started, StopReason, Usage
from tieline.wire.openai_responses.frames import error_frame, events_in, with_stream_id
from tieline.wire.shared.json import parse

MAX_LANES = 32
"""Different values of `stream_id` on one connection."""
MAX_RUNNING = 16
"""Requests that are being answered at the same time."""
MAX_WAITING = 32
"""Requests that wait for an earlier one."""
MAX_STREAM_ID = 256
STOPPING = 1001
"""The close code for a server that is going away."""


class _Message(msgspec.Struct):
    type: str | None = None
    stream_id: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


class ResponsesSocket:
    """Serves responses over WebSockets."""

    def __init__(
        self,
        gateway: Gateway,
        profiles: Profiles,
        creator: ResponseCreator,
        owners: Owners,
        *,
        keep_alive: float = 15.0,
    ) -> None:
        self._gateway = gateway
        self._profiles = profiles
        self._creator = creator
        self._owners = owners
        self._keep_alive = keep_alive

    async def serve(self, exchange: Exchange) -> None:
        """Answer the messages of one connection until it is closed."""
        profile = self._profiles.common or self._profiles.of(exchange)
        socket = await exchange.accept()
        async with asyncio.TaskGroup() as tasks:
            session = _Session(
                socket,
                self._gateway,
                self._creator,
                profile,
                owner=self._owners.of(exchange),
                user_agent=exchange.header(b"user-agent"),
                keep_alive=self._keep_alive,
                tasks=tasks,
            )
            while (message := await socket.receive()) is not None:
                await session.receive(message)
            session.close()
        if socket.is_open:
            await socket.close(STOPPING, "the gateway is being stopped")


class _Lane:
    """The requests with one `stream_id`, which are answered one after another."""

    def __init__(self, stream_id: str | None) -> None:
        self.stream_id = stream_id
        self.waiting: deque[bytes] = deque()
        self.task: asyncio.Task[None] | None = None
        self.latest: tuple[str, Context] | None = None
        """The id of its last response, and the conversation up to it."""


class _Session:
    """One connection."""

    def __init__(
        self,
        socket: WebSocket,
        gateway: Gateway,
        creator: ResponseCreator,
        profile: Profile,
        *,
        owner: str,
        user_agent: str,
        keep_alive: float,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._socket = socket
        self._gateway = gateway
        self._creator = creator
        self._profile = profile
        self._owner = owner
        self._user_agent = user_agent
        self._keep_alive = keep_alive
        self._tasks = tasks
        self._lanes: dict[str | None, _Lane] = {}

    async def receive(self, message: bytes) -> None:
        """Start or queue the request in a message; answer an invalid message with an error."""
        stream_id = None
        try:
            if len(message) > COUNT_ABOVE:
                await check_values([message])
            head = parse(_MESSAGE, message)
            stream_id = head.stream_id
            self._queue(head, message)
        except GatewayError as error:
            await self._send_error(error, stream_id)

    def close(self) -> None:
        """Cancel all requests, because the client has left or the gateway is being stopped."""
        for lane in self._lanes.values():
            lane.waiting.clear()
            if lane.task is not None:
                lane.task.cancel()

    def _queue(self, head: _Message, message: bytes) -> None:
        if head.type != "response.create":
            raise BadRequest(f"`type`: expected response.create, got '{head.type}'", "type")
        stream_id = head.stream_id
        if stream_id is not None and not 0 < len(stream_id) <= MAX_STREAM_ID:
            raise BadRequest(f"`stream_id`: expected 1 to {MAX_STREAM_ID} characters", "stream_id")
        lane = self._lanes.get(stream_id) or self._new_lane(stream_id)
        if sum(len(other.waiting) for other in self._lanes.values()) >= MAX_WAITING:
            raise _limit(f"more than {MAX_WAITING} requests wait on this connection")
        lane.waiting.append(message)
        if lane.task is None:
            lane.task = self._tasks.create_task(self._work(lane), name="responses lane")

    def _new_lane(self, stream_id: str | None) -> _Lane:
        idle = next((lane for lane in self._lanes.values() if lane.task is None), None)
        if len(self._lanes) >= MAX_LANES:
            if idle is None:
                raise _limit(f"more than {MAX_LANES} values of `stream_id` are in use on this connection")
            del self._lanes[idle.stream_id]
        lane = self._lanes[stream_id] = _Lane(stream_id)
        return lane

    async def _work(self, lane: _Lane) -> None:
        """Answer the requests of a lane."""
        try:
            while lane.waiting:
                await self._answer(lane, lane.waiting.popleft())
        finally:
            lane.task = None

    async def _answer(self, lane: _Lane, message: bytes) -> None:
        running = sum(other.task is not None for other in self._lanes.values())
        try:
            if running > MAX_RUNNING:
                raise _limit(f"more than {MAX_RUNNING} requests run on this connection")
            contexts = dict(other.latest for other in self._lanes.values() if other.latest is not None)
            creation = await self._creator.prepare(self._owner, message, self._profile, contexts)
        except GatewayError as error:
            await self._send_error(error, lane.stream_id)
            return
        try:
            await self._create(lane, creation, len(message))
        finally:
            self._creator.release(creation)

    async def _create(self, lane: _Lane, creation: Creation, size: int) -> None:
        writer = self._creator.writer(creation)
        if creation.create.generates:
            is_complete = await self._run(lane, creation, writer, size)
        else:
            is_complete = True
            await self._send(lane, writer.write_all(_warm_up(creation)))
        if is_complete and writer.response:
            response_id: str = msgspec.json.decode(writer.response)["id"]
            lane.latest = response_id, context_after(creation, writer.response)

    async def _run(self, lane: _Lane, creation: Creation, writer: StoringWriter, size: int) -> bool:
        """Send the events of a leg; return whether it succeeded."""
        client = LegClient(
            "responses",
            self._user_agent,
            self._profile.activity or "reasoning",
            request_size=size,
            gets_tools=bool(self._profile.tools),
        )
        request = replace(creation.request, stream=True)
        pulse = self._tasks.create_task(self._send_keep_alives(lane, writer), name="keep-alive")
        last: object = None
        try:
            async with aclosing(await self._gateway.open(request, client)) as leg:
                has_begun = False
                async for batch in leg:
                    last = batch[-1] if batch else last
                    if isinstance(last, Failed) and not has_begun and len(batch) == 1:
                        await self._send_error(LegFailed(last), lane.stream_id)
                        return False
                    has_begun = True
                    await self._send(lane, writer.write_all(batch))
        finally:
            pulse.cancel()
        return isinstance(last, Finished)

    async def _send_keep_alives(self, lane: _Lane, writer: StoringWriter) -> None:
        """Repeat the state of a response from time to time: some clients give up when no event arrives for minutes."""
        while True:
            await asyncio.sleep(self._keep_alive)
            await self._send(lane, writer.keep_alive())

    async def _send(self, lane: _Lane, written: bytes) -> None:
        events = events_in(written)
        if lane.stream_id is not None:
            events = [with_stream_id(event, lane.stream_id) for event in events]
        if events:
            await self._socket.send(*events)

    async def _send_error(self, error: GatewayError, stream_id: str | None) -> None:
        frame = error_frame(error)
        await self._socket.send(frame if stream_id is None else with_stream_id(frame, stream_id))


def _warm_up(creation: Creation) -> Batch:
    """Return the events of an empty response: the client only announces its conversation."""
    started = Started(id=creation.options.response_id, model=creation.request.model)
    return [started, Usage(), Finished(reason=StopReason.END_TURN)]


def _limit(problem: str) -> GatewayError:
    return GatewayError("rate_limited", f"Too many requests: {problem}.", code="websocket_stream_limit_reached")
