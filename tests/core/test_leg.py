"""A leg as one reply: the same as its events folded, however it went."""

import asyncio

import pytest

from tests.core.test_bus import END, HELLO, STARTED, Saying, Watched, text
from tieline.core.legs.leg import CROWD, Asker
from tieline.model.assemble import fold
from tieline.model.content import Thinking, ToolCall
from tieline.model.errors import LegFailed
from tieline.model.events import Activity, Batch, Event, Failed, Finished, PartEnd, PartStart, Started, StopReason
from tieline.model.request import Request
from tieline.tasks import step_aside

CALL = ToolCall(id="c", name="read", arguments="{}")
CALLED: list[Event] = [PartStart(index=1, part=CALL), PartEnd(index=1, part=CALL)]
THOUGHT: list[Event] = [PartStart(index=0, part=Thinking()), PartEnd(index=0, part=Thinking(text="hm"))]
DOING = Activity(id="a", kind="read", title="read_file a", status="completed")


@pytest.mark.parametrize(
    ("batches", "is_agent"),
    [
        ([HELLO], False),
        ([HELLO[:1], HELLO[1:3], HELLO[3:]], False),
        ([[STARTED, END]], False),
        ([[Started(id="leg", model="m", headers=(("request-id", "r"),)), *HELLO[1:]]], False),
        ([[STARTED, *text("Look"), *CALLED, Finished(reason=StopReason.TOOL_USE)]], False),
        ([[STARTED, *THOUGHT], [END]], False),
        ([[STARTED], [DOING], [*text("Done."), END]], True),
    ],
)
async def test_a_leg_that_ended_well_is_its_events_as_one_reply(batches: list[Batch], is_agent: bool) -> None:
    stand = Watched(Saying(*batches, is_agent=is_agent))
    leg = stand.gateway.leg(Request(model="say/m", messages=()), Asker("test"))
    events = [event async for batch in leg for event in batch]
    assert leg.reply() == fold(events)
    await leg.aclose()


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([[Failed(kind="overloaded", message="busy")]], "busy"),
        ([HELLO[:3], [Failed(kind="upstream", message="broken")]], "broken"),
        ([HELLO[:3]], "without an ending"),
        ([], "without an ending"),
    ],
)
async def test_a_leg_that_did_not_end_well_has_no_reply(batches: list[Batch], message: str) -> None:
    stand = Watched(Saying(*batches))
    leg = stand.gateway.leg(Request(model="say/m", messages=()), Asker("test"))
    events = [event async for batch in leg for event in batch]
    with pytest.raises(LegFailed, match=message) as of_leg:
        leg.reply()
    with pytest.raises(LegFailed) as of_events:
        fold(events)
    assert of_leg.value.failed() == of_events.value.failed()
    await leg.aclose()


@pytest.mark.parametrize("batches", [[HELLO], [HELLO[:1], HELLO[1:]], [HELLO[:3]], [HELLO[:1], [], HELLO[1:]], []])
async def test_a_leg_taken_batch_by_batch_is_the_leg_that_is_iterated_over(batches: list[Batch]) -> None:
    stand = Watched(Saying(*batches))
    request = Request(model="say/m", messages=())
    iterated, taken = stand.gateway.leg(request, Asker("test")), stand.gateway.leg(request, Asker("test"))
    expected = [event async for batch in iterated for event in batch]
    events: list[Event] = []
    while not taken.is_over:
        events += await taken.batch()
    assert events == expected
    await iterated.aclose()
    await taken.aclose()


@pytest.mark.parametrize("steps", range(6))
async def test_a_leg_that_is_left_in_a_crowd_is_counted_out_at_whatever_step(steps: int) -> None:
    stand = Watched(Saying(HELLO))
    request = Request(model="say/m", messages=())

    async def carry(said: list[Event]) -> None:
        leg = stand.gateway.leg(request, Asker("test"))
        try:
            while not leg.is_over:
                said += await leg.batch()
        finally:
            await leg.aclose()

    heard: list[list[Event]] = [[] for _ in range(3 * CROWD)]
    tasks = [asyncio.create_task(carry(said)) for said in heard]
    for _ in range(steps):
        await step_aside()
    for task in tasks[::3]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert stand.gateway.metrics.open_legs == 0
    alone = [event async for batch in stand.gateway.leg(request, Asker("test")) for event in batch]
    for said in (*heard[1::3], *heard[2::3]):
        assert said == alone
