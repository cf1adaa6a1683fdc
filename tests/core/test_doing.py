"""Calls of the gateway's tools while they run: what is told of them, when, and that nothing of them is left."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.cases import asks, leg
from tests.core.test_turn import HOST, LOOK, Box, Legs, call, calls, says
from tests.grammar import check
from tieline.core.doing import MOST_OUTPUT
from tieline.core.turn import TooledRun
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.events import Activity, Diff, Event, Plan, PlanEntry
from tieline.model.ports import Host, Progress, Report, unheard

PATIENCE = 60.0
PLAN = Plan(entries=(PlanEntry(content="look"),))
DIFF = Diff(path="a.txt", old="1\n", new="2\n")


class Busy(Box):
    """A tool that does what a test says; when it is ended before that, it says so."""

    def __init__(self, work: Callable[[Report], Awaitable[None]], *, fails: bool = False) -> None:
        super().__init__(LOOK)
        self.ended = False
        self._work = work
        self._fails = fails

    async def execute(self, call: ToolCall, host: Host, report: Report = unheard) -> ToolResult:
        try:
            await self._work(report)
        except asyncio.CancelledError:
            self.ended = True
            raise
        return ToolResult(call_id=call.id, content=(Text(text="y" * (MOST_OUTPUT + 1)),), is_error=self._fails)


def telling(*updates: Progress | Plan) -> Callable[[Report], Awaitable[None]]:
    async def work(report: Report) -> None:
        for update in updates:
            report(update)

    return work


def begun(box: Box) -> TooledRun:
    return TooledRun(Legs(calls(call("look")), leg(says("Done."))), box, HOST, asks("go"))


async def told(box: Box) -> list[Event]:
    """What is told of the call, from its beginning on; the leg keeps the grammar."""
    turn = begun(box).leg()
    async with asyncio.timeout(PATIENCE):
        events = [event async for batch in turn for event in batch]
    await turn.aclose()
    check(events)
    return [event for event in events if isinstance(event, Activity | Plan)]


async def test_what_a_call_puts_out_is_told_while_it_runs() -> None:
    go = asyncio.Event()

    async def work(report: Report) -> None:
        report(Progress())
        await asyncio.sleep(0)
        report(Progress(output="one\n"))
        await go.wait()
        report(Progress(output="one\ntwo\n"))

    seen: list[tuple[str, str]] = []
    turn = begun(Busy(work)).leg()
    async with asyncio.timeout(PATIENCE):
        async for batch in turn:
            seen += [(event.status, event.output) for event in batch if isinstance(event, Activity)]
            if seen and seen[-1][1] == "one\n":
                go.set()
    await turn.aclose()
    assert seen[0] == ("pending", "")
    assert ("in_progress", "one\n") in seen
    assert seen[-1] == ("completed", "one\ntwo\n")


async def test_of_what_was_not_taken_in_time_only_the_newest_is_told() -> None:
    pending, last = await told(Busy(telling(*(Progress(output=f"{n}") for n in range(1000)))))
    assert isinstance(pending, Activity)
    assert isinstance(last, Activity)
    assert (pending.status, last.status, last.output) == ("pending", "completed", "999")


@pytest.mark.parametrize("fails", [False, True])
async def test_a_call_that_tells_nothing_shows_the_beginning_of_its_result(fails: bool) -> None:
    last = (await told(Busy(telling(Progress()), fails=fails)))[-1]
    assert isinstance(last, Activity)
    assert (last.status, last.output) == ("failed" if fails else "completed", "y" * MOST_OUTPUT)


async def test_a_call_whose_result_says_nothing_new_shows_nothing() -> None:
    last = (await told(Busy(telling(Progress(output="")))))[-1]
    assert isinstance(last, Activity)
    assert (last.status, last.output) == ("completed", "")


async def test_a_change_of_a_file_stays_with_its_activity() -> None:
    last = (await told(Busy(telling(Progress(diffs=(DIFF,))))))[-1]
    assert isinstance(last, Activity)
    assert (last.status, last.diffs) == ("completed", (DIFF,))


async def test_a_plan_is_told_after_the_call_that_made_it() -> None:
    *_, last, plan = await told(Busy(telling(PLAN)))
    assert isinstance(last, Activity)
    assert last.status == "completed"
    assert plan is PLAN


async def test_a_plan_is_told_once() -> None:
    go = asyncio.Event()

    async def work(report: Report) -> None:
        report(PLAN)
        await go.wait()

    turn = begun(Busy(work)).leg()
    plans = 0
    async with asyncio.timeout(PATIENCE):
        async for batch in turn:
            if PLAN in batch:
                plans += 1
                go.set()
    await turn.aclose()
    assert plans == 1


async def test_closing_the_leg_ends_the_call_that_runs() -> None:
    started = asyncio.Event()

    async def work(report: Report) -> None:
        report(Progress(output="begun"))
        started.set()
        await asyncio.Event().wait()

    box = Busy(work)
    turn = begun(box).leg()
    async with asyncio.timeout(PATIENCE):
        async for _ in turn:
            if started.is_set():
                break
        assert not box.ended
        await turn.aclose()
    assert box.ended


async def test_whoever_stops_waiting_ends_the_call_by_closing() -> None:
    started = asyncio.Event()

    async def work(report: Report) -> None:
        started.set()
        await asyncio.Event().wait()

    async def take() -> None:
        async for _ in turn:
            pass

    box = Busy(work)
    turn = begun(box).leg()
    taking = asyncio.create_task(take())
    async with asyncio.timeout(PATIENCE):
        await started.wait()
        taking.cancel()
        await asyncio.wait([taking])
        await turn.aclose()
    assert box.ended


async def test_a_mistake_of_a_tool_reaches_whoever_takes_the_leg(caplog: pytest.LogCaptureFixture) -> None:
    async def work(report: Report) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await told(Busy(work))
    assert "ZeroDivisionError" in caplog.text
