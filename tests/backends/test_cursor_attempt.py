"""One attempt of a live run: who sends when, timers, back-pressure, and what its endings are taken for."""

import asyncio
import gc
import weakref
from collections.abc import Sequence

import pytest

from tests.backends.cursor_wire import (
    BROKEN,
    CALL,
    CHECKPOINT,
    GOOD_END,
    HEARTBEAT,
    TURN_ENDED,
    WAIT,
    Wire,
    attempt_on,
    says,
    tasks,
    turns,
    words,
)
from tests.grammar import check
from tests.wire.dialogues import received
from tieline.backends.cursor.attempt import Attempt
from tieline.backends.cursor.pipes import StreamRefused
from tieline.model.content import Text, ToolResult
from tieline.model.events import Event, Failed, Finished, PartEnd, StopReason
from tieline.net.client.http import PipeError
from tieline.tasks import Tasks

__all__ = ["tasks"]


async def all_events(attempt: Attempt) -> list[Event]:
    """Everything up to the end of the attempt."""
    events: list[Event] = []
    async with asyncio.timeout(WAIT):
        while more := await attempt.events():
            events += more
            if type(events[-1]) in (Finished, Failed):
                break
    return events


# ── Sending ──────────────────────────────────────────────────────────────────────────────────────


async def test_the_first_message_is_the_run_request(tasks: Tasks) -> None:
    wire = Wire(says("Hello"), TURN_ENDED, GOOD_END)
    events = await all_events(await attempt_on(wire, tasks))
    check(events)
    assert words(events) == "Hello"
    assert wire.kinds[0] == "run_request"


async def test_messages_keep_their_order_and_only_one_sender_sends(tasks: Tasks) -> None:
    wire = Wire()
    attempt = await attempt_on(wire, tasks)
    wire.gate.clear()
    asked = [f'< kv_server {{"id": {number}, "getBlobArgs": {{"blobId": "AQ=="}}}}' for number in range(1, 6)]
    for line in asked:
        wire.comes(received(line))
        await turns()
    wire.gate.set()
    await wire.until(lambda: len(wire.sent) == 6)
    assert [message.kv_client_message.id for message in wire.sent[1:]] == [1, 2, 3, 4, 5]
    attempt.close()


async def test_signs_of_life_are_sent_whether_a_leg_is_open_or_not(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.HEARTBEAT", 0.001)
    wire = Wire()
    attempt = await attempt_on(wire, tasks)
    await wire.until(lambda: wire.kinds.count("client_heartbeat") >= 3)
    wire.comes(CALL, CHECKPOINT)
    events = await all_events(attempt)
    assert events[-1] == Finished(reason=StopReason.TOOL_USE)
    before = wire.kinds.count("client_heartbeat")
    await wire.until(lambda: wire.kinds.count("client_heartbeat") >= before + 3)
    attempt.close()


async def test_execs_get_signs_of_life_only_while_a_call_is_pending(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.EXEC_HEARTBEAT", 0.001)
    monkeypatch.setattr("tieline.backends.cursor.attempt.HEARTBEAT", 0.001)
    wire = Wire()

    def beats() -> int:
        controls = [message.exec_client_control_message for message in wire.sent]
        return sum(control.HasField("heartbeat") for control in controls)

    attempt = await attempt_on(wire, tasks)
    await wire.until(lambda: wire.kinds.count("client_heartbeat") >= 3)
    assert beats() == 0
    wire.comes(CALL, CHECKPOINT)
    await all_events(attempt)
    await wire.until(lambda: beats() >= 3)
    attempt.machine.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    attempt.push()
    await wire.until(lambda: "exec_client_message" in wire.kinds)
    settled = beats()
    after = wire.kinds.count("client_heartbeat")
    await wire.until(lambda: wire.kinds.count("client_heartbeat") >= after + 3)
    assert beats() == settled
    attempt.close()


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


async def test_calls_made_together_end_the_leg_after_a_moment_of_quiet(tasks: Tasks) -> None:
    wire = Wire(CALL, CALL.replace(b"\x08\x01", b"\x08\x02", 1))
    attempt = await attempt_on(wire, tasks)
    events = await all_events(attempt)
    check(events)
    assert len([event for event in events if isinstance(event, PartEnd)]) == 2
    assert attempt.machine.pending == {"call_1", "call_2"}
    attempt.close()


async def test_heartbeats_do_not_break_the_quiet(tasks: Tasks) -> None:
    wire = Wire(CALL)
    attempt = await attempt_on(wire, tasks)

    loop = asyncio.get_running_loop()

    def beat() -> None:
        wire.comes(HEARTBEAT)
        if not attempt.is_closed:
            loop.call_later(0.005, beat)

    beat()
    assert (await all_events(attempt))[-1] == Finished(reason=StopReason.TOOL_USE)
    attempt.close()


async def test_a_reader_too_far_ahead_waits_until_somebody_takes_what_there_is(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.MAX_EVENTS", 20)
    wire = Wire(*(says(f"{number} ") for number in range(200)), TURN_ENDED, GOOD_END)
    attempt = await attempt_on(wire, tasks)
    await turns(300)
    assert wire.taken < 30
    events = await all_events(attempt)
    check(events)
    assert words(events) == "".join(f"{number} " for number in range(200))


async def test_a_client_that_is_slow_to_take_events_is_no_stall_of_the_service(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.HEARTBEAT", 0.001)
    wire = Wire(says("Hello"))
    attempt = await attempt_on(wire, tasks, stall_after=0.002)
    await wire.until(lambda: wire.kinds.count("client_heartbeat") >= 20)
    wire.comes(TURN_ENDED, GOOD_END)
    events = await all_events(attempt)
    check(events)
    assert isinstance(events[-1], Finished)


async def test_a_service_that_sends_nothing_but_heartbeats_has_stalled(tasks: Tasks) -> None:
    wire = Wire(HEARTBEAT, HEARTBEAT)
    attempt = await attempt_on(wire, tasks, stall_after=0.01)
    events = await all_events(attempt)
    assert isinstance(events[-1], Failed)
    assert (events[-1].code, events[-1].status) == ("cursor_stalled", 504)
    assert wire.is_closed
    assert attempt.is_closed


async def test_a_stall_is_noticed_in_the_time_that_is_set_and_not_in_twice_that(tasks: Tasks) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    attempt = await attempt_on(Wire(says("Hello"), HEARTBEAT), tasks, stall_after=0.5)
    async with asyncio.timeout(WAIT):
        while not any(isinstance(event, Failed) for event in await attempt.events()):
            pass
    assert 0.5 <= loop.time() - began < 0.95


async def test_a_service_that_waits_for_the_client_has_not_stalled(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.HEARTBEAT", 0.001)
    wire = Wire(CALL, CHECKPOINT)
    attempt = await attempt_on(wire, tasks, stall_after=0.002)
    await all_events(attempt)
    attempt.unwatch()
    await wire.until(lambda: wire.kinds.count("client_heartbeat") >= 20)
    assert not attempt.is_closed
    attempt.close()


# ── Endings ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (StreamRefused(401, b""), "cursor_unauthenticated"),
        (StreamRefused(464, b""), "cursor_http1_refused"),
        (StreamRefused(429, b"", [("retry-after", "7")]), "cursor_busy"),
        (PipeError("connect", "protocol", "it speaks something else", sent=False), "cursor_http2_refused"),
        (PipeError("connect", "refused", "nobody there", sent=False), "cursor_broken"),
        (PipeError("first_byte", "timeout", "it took too long", sent=True), "cursor_silent"),
        (PipeError("connect", "timeout", "it took too long", sent=False), "cursor_broken"),
    ],
    ids=str,
)
async def test_a_stream_that_cannot_be_opened_is_the_first_event(tasks: Tasks, refusal: Exception, code: str) -> None:
    wire = Wire(refusal=refusal)
    (failed,) = await all_events(await attempt_on(wire, tasks))
    assert isinstance(failed, Failed)
    assert failed.code == code
    assert failed.retry_after == (7.0 if code == "cursor_busy" else None)
    assert wire.is_closed


async def test_a_good_end_lets_the_connection_serve_others(tasks: Tasks) -> None:
    wire = Wire(says("Hello"), TURN_ENDED, GOOD_END)
    await all_events(await attempt_on(wire, tasks))
    await turns()
    assert wire.is_released


@pytest.mark.parametrize("end", [BROKEN, b""], ids=["broken", "eof"])
async def test_once_the_turn_is_over_a_stream_may_end_in_any_way(tasks: Tasks, end: bytes | Exception) -> None:
    wire = Wire(says("Hello"), TURN_ENDED, end)
    events = await all_events(await attempt_on(wire, tasks))
    check(events)
    assert events[-1] == Finished(reason=StopReason.END_TURN)


async def test_a_message_that_cannot_be_sent_breaks_the_attempt(tasks: Tasks) -> None:
    wire = Wire(says("Hello"))
    attempt = await attempt_on(wire, tasks)

    async def refuse(messages: Sequence[bytes]) -> None:
        raise StreamRefused(401, b"")

    wire.send = refuse  # type: ignore[method-assign]  # the pipe breaks
    attempt.machine.heartbeat()
    attempt.push()
    events = await all_events(attempt)
    assert isinstance(events[-1], Failed)
    assert events[-1].code == "cursor_unauthenticated"


async def test_nothing_is_sent_or_read_after_closing(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.HEARTBEAT", 0.0)
    wire = Wire()
    attempt = await attempt_on(wire, tasks)
    await wire.until(lambda: "client_heartbeat" in wire.kinds)
    attempt.close()
    await turns()
    sent = len(wire.sent)
    wire.comes(says("Hello"))
    await turns(100)
    assert (wire.is_closed, wire.taken, len(wire.sent)) == (True, 0, sent)
    assert await attempt.events() == []


async def test_an_attempt_that_has_ended_leaves_no_cycle_behind(tasks: Tasks) -> None:
    """Ours: what waits for the collector of cycles keeps its whole history in memory meanwhile."""
    gc.disable()
    try:
        attempt = await attempt_on(Wire(says("Hi."), TURN_ENDED, GOOD_END), tasks)
        await all_events(attempt)
        attempt.close()
        await turns()
        gone = weakref.ref(attempt)
        del attempt
        assert gone() is None
    finally:
        gc.enable()
