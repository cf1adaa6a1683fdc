"""A pipe to Cursor's service whose other end is the test, and what the service says on it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count

import pytest

from tests.cases import asks
from tests.wire.dialogues import received
from tieline.backends.cursor.attempt import Attempt
from tieline.model.events import Event, PartDelta
from tieline.model.ports import Human
from tieline.model.request import Request, ToolSpec
from tieline.net.client.http import PipeError
from tieline.tasks import Tasks
from tieline.wire.cursor._pb.agent_pb2 import AgentClientMessage
from tieline.wire.cursor.opening.run_request import MachineInfo, RunSettings, open_run
from tieline.wire.cursor.run.machine import CursorRun
from tieline.wire.cursor.stored_state import Blobs

WAIT = 60.0
"""No test waits longer than this, in seconds, for anything."""

BROKEN = PipeError("body", "reset", "the connection broke", sent=True)
HEARTBEAT = received('< interaction_update {"heartbeat": {}}')
TURN_ENDED = received('< interaction_update {"turnEnded": {}}')
THINKS = received('< interaction_update {"thinkingDelta": {"text": "Hm."}}')
GOOD_END = received("< end {}")
CALL = received(
    '< exec_server {"id": 1, "mcpArgs": {"name": "weather", "providerIdentifier": "tieline", "toolName": "weather"}}'
)
CHECKPOINT = received("< checkpoint {}")
REQUEST: Request = asks("How is the weather?", tools=(ToolSpec(name="weather"),))


def says(text: str) -> bytes:
    return received(f'< interaction_update {{"textDelta": {{"text": "{text}"}}}}')


class Wire:
    """A pipe whose other end is the test."""

    trailers: Sequence[tuple[str, str]] = ()
    lanes = 1

    def __init__(self, *script: bytes | Exception, refusal: Exception | None = None) -> None:
        self.sent: list[AgentClientMessage] = []
        self.is_released = False
        self.is_closed = False
        self.taken = 0
        self.gate = asyncio.Event()
        """Sends wait for it."""
        self.gate.set()
        self.senders = 0
        self._refusal = refusal
        self._happened = asyncio.Event()
        self._incoming: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        for item in script:
            self._incoming.put_nowait(item)

    async def begin(self, first: Sequence[bytes]) -> None:
        if self._refusal is not None:
            raise self._refusal
        await self.send(first)

    async def send(self, messages: Sequence[bytes]) -> None:
        self.senders += 1
        assert self.senders == 1, "two senders at once"
        await self.gate.wait()
        self.sent += map(AgentClientMessage.FromString, messages)
        self.senders -= 1
        self._happened.set()

    async def chunk(self) -> bytes:
        item = await self._incoming.get()
        self.taken += 1
        if isinstance(item, Exception):
            raise item
        return item

    def release(self) -> None:
        self.is_released = True

    def close(self) -> None:
        self.is_closed = True

    def comes(self, *items: bytes | Exception) -> None:
        """The service sends something; b"" is the end."""
        for item in items:
            self._incoming.put_nowait(item)

    @property
    def kinds(self) -> list[str]:
        return [message.WhichOneof("message") or "" for message in self.sent]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT):
            while not condition():
                self._happened.clear()
                await self._happened.wait()


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    made = Tasks()
    yield made
    await made.aclose()


def words(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, PartDelta))


async def turns(number: int = 10) -> None:
    """Let everything happen that is due now."""
    for _ in range(number):
        await asyncio.sleep(0)


async def attempt_on(wire: Wire, tasks: Tasks, person: Human | None = None, stall_after: float = WAIT) -> Attempt:
    """An attempt at the run of `REQUEST`; what the service asks is held for the person, if there is one."""
    numbers = count(1)
    opening = open_run(
        REQUEST,
        settings=RunSettings(),
        machine_info=MachineInfo(),
        conversation_id="conversation",
        run_id="run",
        message_id="message",
    )
    machine = CursorRun(
        opening,
        mint=lambda: f"call_{next(numbers)}",
        blobs=Blobs(opening.blobs),
        end_wait=0.0,
        can_ask=lambda _: person is not None,
    )
    machine.begin("leg_1", "demo")
    attempt = Attempt("cursor", machine, wire, tasks, stall_after=stall_after, human=person)
    await attempt.begin()
    return attempt
