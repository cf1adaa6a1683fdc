"""Runs between two requests: parked, claimed once, closed when nobody comes back."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import pytest
from msgspec.structs import replace

from tests.cases import asks, says
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.leg import LegClient, WatchedLeg
from tieline.core.legs.routing import Router
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.events import Batch, Event, Finished, PartEnd, PartStart, Started, StopReason
from tieline.model.ports import Host, ModelInfo
from tieline.model.request import Request, ToolSpec
from tieline.tasks import Tasks


class LiveRun:
    """A run that makes a number of calls one after another and then ends."""

    def __init__(self, number: int, calls: int) -> None:
        self.number = number
        self.answered: list[tuple[tuple[ToolResult, ...], str]] = []
        self.closed = asyncio.Event()
        self._left = calls
        self._pending: frozenset[str] = frozenset()

    @property
    def pending(self) -> frozenset[str]:
        return self._pending

    async def leg(self) -> AsyncGenerator[Batch, None]:
        yield [Started(id=f"leg_{self.number}", model="m")]
        if not self._left:
            text = Text(text=f"done by run {self.number}")
            yield [PartStart(index=0, part=Text()), PartEnd(index=0, part=text)]
            yield [Finished(reason=StopReason.END_TURN)]
            return
        call = ToolCall(id=f"call_{self.number}_{self._left}", name="read", arguments="{}")
        self._left -= 1
        self._pending = frozenset({call.id})
        yield [PartStart(index=0, part=call), PartEnd(index=0, part=call), Finished(reason=StopReason.TOOL_USE)]

    async def answer(self, results: Sequence[ToolResult], request: Request | None = None, words: str = "") -> None:
        assert request is not None
        self.answered.append((tuple(results), words))
        self._pending = frozenset()

    async def aclose(self) -> None:
        self.closed.set()


class LiveBackend:
    """Makes live runs and keeps them."""

    name = "live"
    is_agent = False
    reads_options = False
    obeys_limits = True

    def __init__(self, calls: int = 1) -> None:
        self.runs: list[LiveRun] = []
        self._calls = calls

    async def models(self) -> Sequence[ModelInfo]:
        return [ModelInfo(id="m")]

    async def start(self, request: Request, host: Host) -> LiveRun:
        self.runs.append(LiveRun(len(self.runs), self._calls))
        return self.runs[-1]

    async def count(self, request: Request) -> int | None:
        return None

    async def aclose(self) -> None:
        """Nothing to free."""


Make = Callable[..., Gateway]
INBOX = Inbox(mint=lambda: "ask_1", clock=lambda: 0.0)


@pytest.fixture
async def make() -> AsyncGenerator[Make, None]:
    tasks = Tasks()

    def gateway(backend: LiveBackend, park_for: float = 60.0, park_at_most: int = 8) -> Gateway:
        router = Router({"live": backend})
        return Gateway(
            router, tasks=tasks, inbox=INBOX, clock=lambda: 0.0, park_for=park_for, park_at_most=park_at_most
        )

    yield gateway
    await tasks.aclose()


def ask(*more: object) -> Request:
    request = asks("go", *more)  # type: ignore[arg-type]  # messages or words
    return Request(model="live/m", messages=request.messages, tools=(ToolSpec(name="read"),))


async def events_of(leg: WatchedLeg) -> list[Event]:
    try:
        return [event async for batch in leg for event in batch]
    finally:
        await leg.aclose()


async def first_call(gateway: Gateway) -> ToolCall:
    events = await events_of(await gateway.open(ask(), LegClient("test")))
    return next(event.part for event in events if isinstance(event, PartEnd) and isinstance(event.part, ToolCall))


def with_result(call: ToolCall, *words: str) -> Request:
    result = ToolResult(call_id=call.id, content=(Text(text="fine"),))
    return ask(says("assistant", call), says("user", result, *words))


async def closed(run: LiveRun) -> None:
    async with asyncio.timeout(60):
        await run.closed.wait()


async def test_a_result_continues_the_run_that_waits_for_it(make: Make) -> None:
    backend = LiveBackend(calls=3)
    gateway = make(backend)
    history: list[object] = []
    call = await first_call(gateway)
    for _ in range(2):
        result = ToolResult(call_id=call.id, content=(Text(text="fine"),))
        history += [says("assistant", call), says("user", result)]
        events = await events_of(await gateway.open(ask(*history), LegClient("test")))
        call = next(e.part for e in events if isinstance(e, PartEnd) and isinstance(e.part, ToolCall))
    assert len(backend.runs) == 1
    assert gateway.metrics.resumed == 2
    assert not backend.runs[0].closed.is_set()


async def test_a_run_that_has_ended_is_closed_and_not_parked(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    await events_of(await gateway.open(with_result(await first_call(gateway)), LegClient("test")))
    assert backend.runs[0].closed.is_set()
    assert gateway.metrics.parked == 0


async def test_a_run_is_parked_before_the_client_can_know_that_the_leg_has_ended(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    leg = await gateway.open(ask(), LegClient("test"))
    async for batch in leg:
        if isinstance(batch[-1], Finished):
            assert gateway.metrics.parked == 1
    await leg.aclose()
    assert gateway.metrics.parked == 1


async def test_the_words_that_come_with_a_result_go_along(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    await events_of(await gateway.open(with_result(await first_call(gateway), "and hurry"), LegClient("test")))
    assert backend.runs[0].answered[0][1] == "and hurry"


async def test_a_request_for_a_summary_does_not_go_to_a_run_that_would_call_tools(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    request = with_result(await first_call(gateway), "Summarise this conversation.")
    await events_of(await gateway.open(replace(request, tools=()), LegClient("test")))
    assert (len(backend.runs), backend.runs[0].answered) == (2, [])
    await closed(backend.runs[0])


async def test_a_claimed_run_cannot_be_claimed_twice(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    request = with_result(await first_call(gateway))
    legs = await asyncio.gather(*(gateway.open(request, LegClient("test")) for _ in range(2)))
    both = await asyncio.gather(*map(events_of, legs))
    assert [type(events[-1]) for events in both] == [Finished, Finished]
    assert len(backend.runs) == 2
    assert gateway.metrics.resumed == 1


async def test_two_windows_never_mix(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    calls = [await first_call(gateway) for _ in range(5)]
    for number in (3, 0, 4, 1, 2):
        events = await events_of(await gateway.open(with_result(calls[number]), LegClient("test")))
        texts = [e.part.text for e in events if isinstance(e, PartEnd) and isinstance(e.part, Text)]
        assert texts == [f"done by run {number}"]


async def test_a_run_nobody_comes_back_for_is_closed_after_the_deadline_and_its_result_still_answered(
    make: Make,
) -> None:
    backend = LiveBackend()
    gateway = make(backend, park_for=0.0)
    call = await first_call(gateway)
    await closed(backend.runs[0])
    assert gateway.metrics.expired == 1
    events = await events_of(await gateway.open(with_result(call), LegClient("test")))
    assert isinstance(events[-1], Finished)
    assert len(backend.runs) == 2


async def test_the_oldest_run_makes_room_when_the_lot_is_full(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend, park_at_most=2)
    for _ in range(3):
        await first_call(gateway)
    await closed(backend.runs[0])
    assert [run.closed.is_set() for run in backend.runs] == [True, False, False]
    assert (gateway.metrics.parked, gateway.metrics.crowded_out) == (2, 1)


async def test_a_user_who_says_something_else_ends_the_run_that_waited(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    call = await first_call(gateway)
    await events_of(await gateway.open(ask(says("assistant", call), says("user", "never mind")), LegClient("test")))
    await closed(backend.runs[0])
    assert len(backend.runs) == 2


async def test_shutting_down_closes_the_runs_that_wait(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    await first_call(gateway)
    await gateway.aclose()
    assert backend.runs[0].closed.is_set()
    assert gateway.metrics.parked == 0


async def test_a_client_that_leaves_in_the_middle_ends_the_run(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    leg = await gateway.open(ask(), LegClient("test"))
    await leg.__anext__()
    await leg.aclose()
    assert backend.runs[0].closed.is_set()
    assert gateway.metrics.parked == 0


async def test_a_client_with_another_key_cannot_resume_a_run_even_if_it_knows_the_id_of_the_call(make: Make) -> None:
    backend = LiveBackend()
    gateway = make(backend)
    alice, bob = LegClient("test", owner="alice"), LegClient("test", owner="bob")
    events = await events_of(await gateway.open(ask(), alice))
    call = next(e.part for e in events if isinstance(e, PartEnd) and isinstance(e.part, ToolCall))
    for client in (bob, LegClient("test")):
        await events_of(await gateway.open(with_result(call), client))
    assert (len(backend.runs), gateway.metrics.resumed) == (3, 0)
    assert not backend.runs[0].closed.is_set()
    await events_of(await gateway.open(with_result(call), alice))
    assert (len(backend.runs), gateway.metrics.resumed) == (3, 1)


async def test_runs_of_two_keys_that_wait_for_the_same_call_id_do_not_mix(make: Make) -> None:
    first, second = LiveBackend(), LiveBackend()
    gateway = make(first)
    alice, bob = LegClient("test", owner="alice"), LegClient("test", owner="bob")
    events = await events_of(await gateway.open(ask(), alice))
    call = next(e.part for e in events if isinstance(e, PartEnd) and isinstance(e.part, ToolCall))
    first.runs = second.runs  # the next run has the same number, and so the same call id
    await events_of(await gateway.open(ask(), bob))
    for client in (alice, bob):
        await events_of(await gateway.open(with_result(call), client))
    assert gateway.metrics.resumed == 2
