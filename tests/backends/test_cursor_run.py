"""Live runs as the core sees them: legs made of several attempts, and what is known of them in between."""

import asyncio
from itertools import count

import pytest
from msgspec.structs import replace

from tests.backends.cursor_wire import (
    BROKEN,
    CALL,
    CHECKPOINT,
    GOOD_END,
    HEARTBEAT,
    REQUEST,
    THINKS,
    TURN_ENDED,
    WAIT,
    Wire,
    says,
    tasks,
    turns,
    words,
)
from tests.cases import asks
from tests.cases import says as said
from tests.grammar import check
from tests.wire.dialogues import received
from tieline.backends.cursor.account import Account
from tieline.backends.cursor.conversations import CursorConversations
from tieline.backends.cursor.login import AuthApi
from tieline.backends.cursor.pipes import AttemptIds, Pipe, StreamRefused, Transport
from tieline.backends.cursor.run import LOST, LiveRun, LiveRunState
from tieline.backends.cursor.run_services import RunServices
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.events import Event, Failed, Finished, Note, PartDelta, PartEnd, Started, StopReason
from tieline.model.ports import Host
from tieline.model.request import Request
from tieline.net.client.http import HttpClient
from tieline.tasks import Tasks
from tieline.wire.cursor.opening.run_request import MachineInfo, RunSettings
from tieline.wire.cursor.run.query_replies import QuerySettings
from tieline.wire.cursor.run.states import IllegalTransition

__all__ = ["tasks"]

KEPT = received('< checkpoint {"mode": "AGENT_MODE_AGENT"}')


class Bench:
    """A service whose streams are given by the test, one for each attempt."""

    def __init__(self, tasks: Tasks, *wires: Wire) -> None:
        self.opened: list[tuple[Transport, AttemptIds]] = []
        self._wires = list(wires)
        self._tasks = tasks
        self.changes: list[Transport] = []
        numbers = count(1)
        self._conversations = CursorConversations(lambda: f"conversation_{next(numbers)}")

    def run(self, request: Request = REQUEST, transport: Transport = "http2", host: Host | None = None) -> LiveRun:
        ids, calls, legs = count(1), count(1), count(1)
        service = RunServices(
            name="cursor",
            account=Account.fixed(AuthApi(HttpClient(), "http://127.0.0.1:9"), "token", clock=lambda: 0.0),
            open_pipe=self._open,
            transport=lambda: transport,
            changed_to=self.changes.append,
            mint_call=lambda: f"call_{next(calls)}",
            mint_id=lambda: f"id_{next(ids)}",
            mint_leg=lambda: f"leg_{next(legs)}",
            conversations=self._conversations,
            tasks=self._tasks,
            settings=RunSettings(send_blobs=True),
            machine_info=MachineInfo(),
            queries=QuerySettings(),
            model=lambda _: None,
            clock=lambda: 0.0,
            stall_after=WAIT,
        )
        return LiveRun(service, request, host)

    def _open(self, transport: Transport, token: str, ids: AttemptIds) -> Pipe:
        self.opened.append((transport, ids))
        return self._wires.pop(0)


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.backends.cursor.recovery.FIRST_BACK_OFF", 0.0)


async def leg_of(run: LiveRun) -> list[Event]:
    """A whole leg, which has to keep the grammar."""
    async with asyncio.timeout(WAIT):
        events = [event async for batch in run.leg() for event in batch]
    check(events)
    return events


async def test_a_leg_of_several_attempts_is_one_leg(tasks: Tasks) -> None:
    bench = Bench(tasks, Wire(says("Hello "), says("the"), BROKEN), Wire(says("Hello there."), TURN_ENDED, GOOD_END))
    events = await leg_of(bench.run())
    assert words(events) == "Hello there."
    assert [type(event) for event in events].count(Started) == 1
    assert [event.kind for event in events if isinstance(event, Note)] == ["retry"]


async def test_the_first_batch_has_something_to_say(tasks: Tasks) -> None:
    """Until there is a part, a failure can still be a status code."""
    wire = Wire(HEARTBEAT)
    run = Bench(tasks, wire).run()
    leg = run.leg()
    first = asyncio.ensure_future(anext(aiter(leg)))
    await turns(50)
    assert not first.done()
    wire.comes(says("Hello"))
    async with asyncio.timeout(WAIT):
        kinds = [type(event) for event in await first]
    assert kinds[0] is Started
    assert PartDelta in kinds
    await run.aclose()


async def test_a_failure_before_the_first_part_is_one_batch(tasks: Tasks) -> None:
    wire = Wire(HEARTBEAT, received('< end {"error": {"code": "permission_denied", "message": "no"}}'))
    run = Bench(tasks, wire).run()
    async with asyncio.timeout(WAIT):
        batches = [list(batch) async for batch in run.leg()]
    assert len(batches) == 1
    assert isinstance(batches[0][-1], Failed)


async def test_every_attempt_has_an_id_of_its_own_and_all_name_the_first(tasks: Tasks) -> None:
    bench = Bench(tasks, Wire(BROKEN), Wire(b""), Wire(says("Hello"), TURN_ENDED, GOOD_END))
    await leg_of(bench.run())
    ids = [ids for _, ids in bench.opened]
    assert len({one.request for one in ids}) == 3
    assert {one.original for one in ids} == {ids[0].request}


async def test_a_run_that_died_between_two_legs_is_opened_anew_under_another_id(tasks: Tasks) -> None:
    parked = Wire(CALL, CHECKPOINT)
    bench = Bench(tasks, parked, Wire(says("Sunny."), TURN_ENDED, GOOD_END))
    run = bench.run()
    events = await leg_of(run)
    assert run.pending == {"call_1"}
    parked.comes(BROKEN)
    await turns()
    assert run.pending == frozenset()
    await run.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    again = await leg_of(run)
    assert words(again) == "Sunny."
    assert [event.message for event in again if isinstance(event, Note)] == [LOST]
    assert len({ids.request for _, ids in bench.opened}) == 2
    assert isinstance(events[-1], Finished)


async def test_a_stream_that_breaks_between_the_answer_and_the_next_leg_is_retried_in_that_leg(tasks: Tasks) -> None:
    parked = Wire(CALL, CHECKPOINT)
    run = Bench(tasks, parked, Wire(says("Sunny."), TURN_ENDED, GOOD_END)).run()
    await leg_of(run)
    await run.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    parked.comes(BROKEN)
    await turns()
    events = await leg_of(run)
    assert words(events) == "Sunny."
    assert [event.kind for event in events if isinstance(event, Note)] == ["retry"]


@pytest.mark.parametrize("end", [BROKEN, b""], ids=["broken", "eof"])
async def test_a_stream_that_ends_after_the_answer_to_a_call_that_reopened_the_turn_is_retried(
    tasks: Tasks, end: bytes | Exception
) -> None:
    parked = Wire(TURN_ENDED, CALL, CHECKPOINT)
    run = Bench(tasks, parked, Wire(says("Sunny."), TURN_ENDED, GOOD_END)).run()
    await leg_of(run)
    await run.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    parked.comes(end)
    assert words(await leg_of(run)) == "Sunny."


async def test_the_states_of_a_run(tasks: Tasks) -> None:
    run = Bench(tasks, Wire(CALL, CHECKPOINT)).run()
    states = [run.state]
    await leg_of(run)
    states.append(run.state)
    for _ in range(2):
        await run.aclose()
        states.append(run.state)
    assert states == [LiveRunState.NEW, LiveRunState.PARKED, LiveRunState.CLOSED, LiveRunState.CLOSED]
    with pytest.raises(IllegalTransition):
        await leg_of(run)


@pytest.mark.parametrize(("model", "is_taken"), [(REQUEST.model, True), ("another", False)])
async def test_a_run_that_waits_for_a_reply_takes_it_or_is_closed(tasks: Tasks, model: str, is_taken: bool) -> None:
    wire = Wire(received('< interaction_query {"id": 4, "createPlanRequestQuery": {"args": {"plan": "# Plan"}}}'))
    run = Bench(tasks, wire).run()
    await leg_of(run)
    await run.aclose()
    assert (run.state, wire.is_closed) == (LiveRunState.AWAITING_REPLY, False)
    assert run.reply(replace(asks("Plan it."), model=model), None) is is_taken
    assert run.state is (LiveRunState.PARKED if is_taken else LiveRunState.CLOSED)
    assert wire.is_closed is not is_taken
    await run.aclose()


async def test_a_stream_that_breaks_off_again_is_resumed_from_the_same_checkpoint(tasks: Tasks) -> None:
    wires = [
        Wire(says("One. "), KEPT, says("Two"), BROKEN),
        Wire(says("Two. Th"), BROKEN),
        Wire(says("Two. Three."), TURN_ENDED, GOOD_END),
    ]
    events = await leg_of(Bench(tasks, *wires).run())
    assert words(events) == "One. Two. Three."
    actions = [wire.sent[0].run_request.action.WhichOneof("action") for wire in wires]
    assert actions == ["user_message_action", "resume_action", "resume_action"]


async def test_a_service_that_will_not_go_on_from_its_checkpoint_is_told_the_history(tasks: Tasks) -> None:
    unavailable = received('< end {"error": {"code": "unavailable", "message": "not now"}}')
    wires = [
        Wire(KEPT, unavailable),
        Wire(unavailable),
        Wire(says("Hello"), TURN_ENDED, GOOD_END),
    ]
    assert words(await leg_of(Bench(tasks, *wires).run())) == "Hello"
    actions = [wire.sent[0].run_request.action.WhichOneof("action") for wire in wires]
    assert actions == ["user_message_action", "resume_action", "user_message_action"]


async def test_a_replay_without_a_client_tells_what_was_said_once(tasks: Tasks) -> None:
    """The gateway's own tools answer without a request: the history is the one the run was opened with, and its leg."""
    parked = Wire(says("Let me look."), CALL, CHECKPOINT)
    replayed = Wire(says("Sunny."), TURN_ENDED, GOOD_END)
    run = Bench(tasks, Wire(says("Let me look."), THINKS, BROKEN), parked, replayed).run()
    await leg_of(run)
    parked.comes(BROKEN)
    await turns()
    await run.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    await leg_of(run)
    request = replayed.sent[0].run_request
    assert request.action.HasField("resume_action")
    told = b"\n".join(blob.value for blob in request.pre_fetched_blobs)
    assert told.count(b"Let me look.") == 1
    assert told.count(b'"tool-call"') == 1
    assert told.count(b"sunny") >= 1


async def second_run(bench: Bench) -> LiveRun:
    """A run that goes on from the state that the first run of the conversation has left."""
    first = bench.run()
    assert words(await leg_of(first)) == "Hello."
    await first.aclose()
    return bench.run(
        asks("How is the weather?", said("assistant", Text(text="Hello.")), "And now?", tools=REQUEST.tools)
    )


def told_to(wire: Wire) -> str:
    """The history that was sent with a run request."""
    return "\n".join(blob.value.decode() for blob in wire.sent[0].run_request.pre_fetched_blobs)


FIRST_TURN = (says("Hello."), KEPT, TURN_ENDED, GOOD_END)


@pytest.mark.parametrize("is_answered_first", [False, True])
async def test_a_replay_tells_what_the_turn_did_before_though_it_began_with_a_stored_state(
    tasks: Tasks, is_answered_first: bool
) -> None:
    parked, replayed = Wire(CALL, CHECKPOINT), Wire(says("Sunny."), TURN_ENDED, GOOD_END)
    run = await second_run(Bench(tasks, Wire(*FIRST_TURN), parked, replayed))
    await leg_of(run)
    assert told_to(parked) == "", "the service knows the history"
    results = [ToolResult(call_id="call_1", content=(Text(text="sunny"),))]
    if is_answered_first:
        await run.answer(results)
    parked.comes(BROKEN)
    await turns()
    if not is_answered_first:
        await run.answer(results)
    assert words(await leg_of(run)) == "Sunny."
    assert [text for text in ("Hello.", "And now?", '"tool-call"', "sunny") if text not in told_to(replayed)] == []


async def test_a_replay_tells_the_plan_to_which_the_user_replied(tasks: Tasks) -> None:
    plan = received('< interaction_query {"id": 4, "createPlanRequestQuery": {"args": {"plan": "# Plan"}}}')
    planned, replayed = Wire(plan), Wire(says("Done."), TURN_ENDED, GOOD_END)
    run = await second_run(Bench(tasks, Wire(*FIRST_TURN), planned, replayed))
    text = words(await leg_of(run))
    await run.aclose()
    hello, shown = (said("assistant", Text(text=text)) for text in ("Hello.", text))
    assert run.reply(asks("How is the weather?", hello, "And now?", shown, "yes", tools=REQUEST.tools), None)
    planned.comes(BROKEN)
    await turns()
    assert words(await leg_of(run)) == "Done."
    assert [text for text in ("Hello.", "And now?", "# Plan") if text not in told_to(replayed)] == []


async def test_calls_that_were_made_are_handed_over_though_the_stream_broke(tasks: Tasks) -> None:
    run = Bench(tasks, Wire(says("Let me look."), CALL, BROKEN)).run()
    events = await leg_of(run)
    assert events[-1] == Finished(reason=StopReason.TOOL_USE)
    assert [event.part.name for event in events if isinstance(event, PartEnd) and isinstance(event.part, ToolCall)] == [
        "weather"
    ]
    assert run.pending == frozenset()


async def test_the_transport_that_works_is_told_and_kept_for_the_run(tasks: Tasks) -> None:
    refused = Wire(refusal=StreamRefused(464, b""))
    parked = Wire(CALL, CHECKPOINT)
    bench = Bench(tasks, refused, parked, Wire(says("Sunny."), TURN_ENDED, GOOD_END))
    run = bench.run(transport="http1")
    await leg_of(run)
    parked.comes(b"")
    await turns()
    await run.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    await leg_of(run)
    assert [transport for transport, _ in bench.opened] == ["http1", "http2", "http2"]
    assert bench.changes == ["http2"]


async def test_a_token_that_cannot_be_renewed_is_what_the_client_hears(tasks: Tasks) -> None:
    run = Bench(tasks, Wire(refusal=StreamRefused(401, b""))).run()
    (failed,) = await leg_of(run)
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.status) == ("unauthorized", 401)


async def test_closing_a_run_closes_its_stream(tasks: Tasks) -> None:
    wire = Wire(CALL, CHECKPOINT)
    run = Bench(tasks, wire).run()
    await leg_of(run)
    await run.aclose()
    assert (wire.is_closed, run.pending) == (True, frozenset())


async def test_a_run_can_be_closed_while_it_waits_for_its_next_try(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.recovery.FIRST_BACK_OFF", WAIT)
    wire = Wire(BROKEN)
    bench = Bench(tasks, wire)
    run = bench.run()
    asking = asyncio.ensure_future(leg_of(run))
    await turns(50)
    asking.cancel()
    await asyncio.wait([asking])
    await run.aclose()
    assert (wire.is_closed, len(bench.opened)) == (True, 1)
