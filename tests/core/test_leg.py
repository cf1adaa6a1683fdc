"""A leg as its client sees it: its batches, its end, and what is counted when the client leaves early."""

import asyncio
import gc
import weakref
from typing import Any

import pytest
from msgspec.structs import replace

from tests.core.test_bus import END, HELLO, STARTED, Saying, Watched, text
from tieline.core.legs import gateway
from tieline.core.legs.gateway import LARGE_REQUEST
from tieline.core.legs.leg import LegClient
from tieline.core.repair.repairs import RepairName, Repairs
from tieline.model.assemble import fold
from tieline.model.content import Thinking, ToolCall
from tieline.model.errors import LegFailed
from tieline.model.events import Activity, Batch, Event, Failed, Finished, PartEnd, PartStart, Started, StopReason
from tieline.model.ports import Host
from tieline.model.request import Request, RequestSource, ToolSpec
from tieline.tasks import step_aside

READ = ToolSpec(name="read")
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
async def test_a_leg_gives_what_its_run_says_and_then_ends(batches: list[Batch], is_agent: bool) -> None:
    stand = Watched(Saying(*batches, is_agent=is_agent))
    leg = await stand.gateway.open(Request(model="say/m", messages=()), LegClient("test", activity="events"))
    events = [event async for batch in leg for event in batch]
    said = [event for batch in batches for event in batch]
    assert [type(event) for event in events] == [type(event) for event in said]
    assert fold(events).model == "say/m", "the client sees the name it asked for"
    with pytest.raises(StopAsyncIteration):
        await anext(leg)
    await leg.aclose()
    assert stand.gateway.metrics.open_legs == 0


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
    leg = await stand.gateway.open(Request(model="say/m", messages=()), LegClient("test"))
    events = [event async for batch in leg for event in batch]
    with pytest.raises(LegFailed, match=message):
        fold(events)
    await leg.aclose()


async def test_a_request_that_cannot_start_is_a_leg_of_one_failure() -> None:
    stand = Watched(Saying(HELLO))
    leg = await stand.gateway.open(Request(model="nowhere/m", messages=()), LegClient("test"))
    (batch,) = [batch async for batch in leg]
    (failed,) = batch
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.code) == ("not_found", "model_not_found")
    await leg.aclose()
    assert stand.gateway.metrics.errors["test", "not_found"] == 1
    assert stand.gateway.metrics.open_legs == 0


@pytest.mark.parametrize("size", [0, LARGE_REQUEST + 1])
async def test_a_client_that_leaves_is_counted_out_at_whatever_step(size: int) -> None:
    stand = Watched(Saying(HELLO))
    request = Request(model="say/m", messages=())

    async def carry(said: list[Event]) -> None:
        leg = await stand.gateway.open(request, LegClient("test", request_size=size))
        try:
            async for batch in leg:
                said += batch
        finally:
            await leg.aclose()

    alone: list[Event] = []
    await carry(alone)
    for steps in range(6):
        heard: list[list[Event]] = [[] for _ in range(9)]
        tasks = [asyncio.create_task(carry(said)) for said in heard]
        for _ in range(steps):
            await step_aside()
        for task in tasks[::3]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert stand.gateway.metrics.open_legs == 0
        for said in (*heard[1::3], *heard[2::3]):
            assert said == alone


@pytest.mark.parametrize(
    ("tools", "enabled", "expected"),
    [((READ,), ("parallel",), 1), ((READ,), (), 0), ((), ("parallel", "text_calls"), 0)],
)
async def test_a_leg_without_tools_or_enabled_repairs_is_not_repaired(
    tools: tuple[ToolSpec, ...], enabled: tuple[RepairName, ...], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Repairs] = []

    def make(*arguments: Any) -> Repairs:
        made.append(Repairs(*arguments))
        return made[-1]

    monkeypatch.setattr(gateway, "DEFAULT", frozenset(enabled))
    monkeypatch.setattr(gateway, "Repairs", make)
    stand = Watched(Saying(HELLO))
    leg = await stand.gateway.open(Request(model="say/m", messages=(), tools=tools), LegClient("test"))
    assert [batch async for batch in leg]
    await leg.aclose()
    assert len(made) == expected


class Recording(Saying):
    """Records the requests and hosts it is started with."""

    def __init__(self, protocol: str) -> None:
        super().__init__(HELLO)
        self.protocols = (protocol,)
        self.started: list[Request] = []
        self.hosts: list[Host] = []

    async def start(self, request: Request, host: Host) -> Saying:
        self.started.append(request)
        self.hosts.append(host)
        return await super().start(request, host)


@pytest.mark.parametrize(("protocol", "is_kept"), [("same", True), ("other", False), ("", False)])
async def test_only_a_backend_of_the_same_protocol_gets_the_source_of_a_request(protocol: str, is_kept: bool) -> None:
    """A parked run would keep the whole body in memory for nothing."""
    parsed = Request(model="say/m", messages=(), protocol="same")
    backend = Recording(protocol)
    source = RequestSource("same", b"{}", (), parsed)
    leg = await Watched(backend).gateway.open(replace(parsed, source=source), LegClient("test"))
    await leg.aclose()
    (started,) = backend.started
    assert (started.source is source) == is_kept


class _TracedSource(RequestSource):
    """A source to which there can be weak references."""


async def test_neither_a_run_nor_the_record_keeps_the_body_of_a_request() -> None:
    parsed = Request(model="say/m", messages=(), protocol="same")
    source = _TracedSource("same", b"{}", (), parsed)
    traced = weakref.ref(source)
    stand = Watched(backend := Recording("other"))
    leg = await stand.gateway.open(replace(parsed, source=source), LegClient("test"))
    assert [batch async for batch in leg]
    await leg.aclose()
    del leg, source
    gc.collect()
    assert backend.hosts
    assert stand.gateway.bus.records.kept
    assert traced() is None
