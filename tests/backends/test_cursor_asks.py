"""What Cursor asks of the person of a leg: it waits, is answered, or ends with the attempt that asked."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from tests.backends.acp_support import NEVER, Person, until
from tests.backends.cursor_wire import (
    BROKEN,
    CALL,
    CHECKPOINT,
    GOOD_END,
    TURN_ENDED,
    WAIT,
    Wire,
    attempt_on,
    says,
    tasks,
    words,
)
from tests.backends.test_cursor_run import Bench, leg_of
from tests.wire.dialogues import received
from tieline.model.events import Failed, Finished, Note, Started, StopReason
from tieline.model.inbox import Approval, ApprovalAnswer, PlanReview, Question, QuestionAnswer, ReviewAnswer
from tieline.model.ports import Host
from tieline.tasks import Tasks
from tieline.wire.cursor._pb.queries_pb2 import InteractionResponse

__all__ = ["tasks"]

QUESTION = received(
    '< interaction_query {"id": 1, "askQuestionInteractionQuery": {"args": {"title": "T", "questions": '
    '[{"id": "q", "prompt": "Which?", "options": [{"id": "a", "label": "A"}]}]}}}'
)
PLAN = received('< interaction_query {"id": 2, "createPlanRequestQuery": {"args": {"plan": "# Plan"}}}')
MODE = received('< interaction_query {"id": 3, "switchModeRequestQuery": {"args": {"targetModeId": "plan"}}}')
T = TypeVar("T")
THE_END = (TURN_ENDED, GOOD_END)


def replies(wire: Wire) -> list[InteractionResponse]:
    return [message.interaction_response for message in wire.sent if message.HasField("interaction_response")]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.backends.cursor.recovery.FIRST_BACK_OFF", 0.0)


async def test_a_person_who_is_there_decides_all_three_kinds(tasks: Tasks) -> None:
    person = Person(
        QuestionAnswer(values={"q": "a"}), ReviewAnswer(approved=True), ApprovalAnswer(option="deny"), is_present=True
    )
    wire = Wire(QUESTION, PLAN, MODE)
    run = Bench(tasks, wire).run(host=Host(person))
    leg = asyncio.ensure_future(leg_of(run))
    await wire.until(lambda: len(replies(wire)) == 3)
    wire.comes(*THE_END)
    events = await leg
    assert [type(ask) for ask in person.asked] == [Question, PlanReview, Approval]
    question, plan, mode = replies(wire)
    (answer,) = question.ask_question_interaction_response.result.success.answers
    assert list(answer.selected_option_ids) == ["a"]
    assert plan.create_plan_request_response.result.HasField("success")
    assert mode.switch_mode_request_response.HasField("rejected")
    assert words(events) == "# Plan"
    assert [event.kind for event in events if isinstance(event, Note)] == ["denied"]
    await run.aclose()


async def test_where_nobody_looks_nobody_is_asked(tasks: Tasks) -> None:
    person = Person(is_present=False)
    wire = Wire(QUESTION, MODE, PLAN)
    run = Bench(tasks, wire).run(host=Host(person))
    events = await leg_of(run)
    assert person.asked == []
    assert "# Plan" in words(events)
    await wire.until(lambda: len(replies(wire)) == 2)
    question, mode = replies(wire)
    assert question.ask_question_interaction_response.result.HasField("rejected")
    assert mode.switch_mode_request_response.HasField("rejected")
    await run.aclose()


async def test_what_nobody_decides_in_time_is_rejected(tasks: Tasks) -> None:
    nobody = ReviewAnswer(approved=False, feedback="Nobody answered within 2 seconds.", is_unanswered=True)
    wire = Wire(PLAN)
    run = Bench(tasks, wire).run(host=Host(Person(nobody, is_present=True)))
    leg = asyncio.ensure_future(leg_of(run))
    await wire.until(lambda: bool(replies(wire)))
    wire.comes(*THE_END)
    events = await leg
    assert "within 2 seconds" in replies(wire)[0].create_plan_request_response.result.error.error
    assert words(events) == ""
    assert ["within 2 seconds" in event.message for event in events if isinstance(event, Note)] == [True, True]
    await run.aclose()


async def test_signs_of_life_are_sent_while_a_person_thinks(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline.backends.cursor.attempt.HEARTBEAT", 0.001)
    person = Person(NEVER, is_present=True)
    wire = Wire(QUESTION)
    attempt = await attempt_on(wire, tasks, person)
    await bounded(person.is_asked.wait())
    before = wire.kinds.count("client_heartbeat")
    await wire.until(lambda: wire.kinds.count("client_heartbeat") >= before + 3)
    assert replies(wire) == []
    attempt.close()


async def test_the_time_a_person_takes_is_no_stall(tasks: Tasks) -> None:
    person = Slow()
    wire = Wire(QUESTION)
    attempt = await attempt_on(wire, tasks, person, stall_after=0.02)
    await bounded(person.is_asked.wait())
    assert [type(event) for event in await bounded(attempt.events())] == [Started]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await attempt.events()
    person.decision.set_result(QuestionAnswer(values={"q": "a"}))
    await wire.until(lambda: bool(replies(wire)))
    events = await bounded(attempt.events())
    assert isinstance(events[-1], Failed), "but a service that has its answer has to go on"
    assert events[-1].code == "cursor_stalled"


@pytest.mark.parametrize("ending", [(*THE_END,), (BROKEN,), (b"",)], ids=["a good end", "a break", "eof"])
async def test_a_question_ends_with_the_stream_it_came_by(tasks: Tasks, ending: tuple[bytes | Exception, ...]) -> None:
    person = Person(NEVER, is_present=True)
    wire = Wire(QUESTION)
    attempt = await attempt_on(wire, tasks, person)
    await bounded(person.is_asked.wait())
    wire.comes(*ending)
    await until(lambda: person.withdrawn == 1)
    assert attempt.is_closed


async def test_a_question_and_the_end_in_one_piece_ask_nobody(tasks: Tasks) -> None:
    person = Person(NEVER, is_present=True)
    attempt = await attempt_on(Wire(QUESTION + TURN_ENDED + GOOD_END), tasks, person)
    events = await bounded(attempt.events())
    assert events[-1] == Finished(reason=StopReason.END_TURN)
    attempt.close()
    await asyncio.sleep(0)
    assert len(person.asked) == person.withdrawn


async def test_who_leaves_takes_the_question_back(tasks: Tasks) -> None:
    person = Person(NEVER, is_present=True)
    run = Bench(tasks, Wire(QUESTION)).run(host=Host(person))
    leg = asyncio.ensure_future(leg_of(run))
    await bounded(person.is_asked.wait())
    leg.cancel()
    await run.aclose()
    await until(lambda: person.withdrawn == 1)


async def test_after_a_break_the_person_is_asked_again(tasks: Tasks) -> None:
    person = Person(NEVER, QuestionAnswer(values={"q": "a"}), is_present=True)
    first, second = Wire(QUESTION), Wire(QUESTION)
    run = Bench(tasks, first, second).run(host=Host(person))
    leg = asyncio.ensure_future(leg_of(run))
    await bounded(person.is_asked.wait())
    first.comes(BROKEN)
    await second.until(lambda: bool(replies(second)))
    second.comes(says("Fine."), *THE_END)
    assert words(await leg) == "Fine."
    assert (len(person.asked), person.withdrawn, replies(first)) == (2, 1, [])
    await run.aclose()


async def test_a_question_beside_a_call_waits_on_while_the_client_runs_its_tool(tasks: Tasks) -> None:
    person = Slow()
    wire = Wire(CALL, QUESTION, CHECKPOINT)
    run = Bench(tasks, wire).run(host=Host(person))
    events = await leg_of(run)
    assert events[-1] == Finished(reason=StopReason.TOOL_USE)
    await bounded(person.is_asked.wait())
    person.decision.set_result(QuestionAnswer(values={"q": "a"}))
    await wire.until(lambda: bool(replies(wire)))
    assert run.pending == {"call_1"}
    await run.aclose()


async def test_a_person_who_cannot_be_asked_is_nobody(tasks: Tasks, caplog: pytest.LogCaptureFixture) -> None:
    person = Slow()
    wire = Wire(QUESTION)
    attempt = await attempt_on(wire, tasks, person)
    await bounded(person.is_asked.wait())
    person.decision.set_exception(RuntimeError("the desk is broken"))
    await wire.until(lambda: bool(replies(wire)))
    assert replies(wire)[0].ask_question_interaction_response.result.HasField("rejected")
    assert "could not process" in caplog.text
    attempt.close()


async def test_an_attempt_that_has_asked_leaves_no_cycle_behind(tasks: Tasks) -> None:
    gc.disable()
    try:
        wire = Wire(QUESTION)
        attempt = await attempt_on(wire, tasks, Person(QuestionAnswer(values={"q": "a"}), is_present=True))
        await wire.until(lambda: bool(replies(wire)))
        wire.comes(*THE_END)
        while not attempt.is_closed:
            await bounded(attempt.events())
        await asyncio.sleep(0)
        gone = weakref.ref(attempt)
        del attempt
        assert gone() is None
    finally:
        gc.enable()


class Slow(Person):
    """Somebody who answers when the test says so."""

    def __init__(self) -> None:
        super().__init__(is_present=True)
        self.decision: asyncio.Future[QuestionAnswer] = asyncio.get_running_loop().create_future()

    async def fill(self, ask: Question) -> QuestionAnswer:
        self.asked.append(ask)
        self.is_asked.set()
        return await self.decision


async def bounded(work: Awaitable[T]) -> T:
    async with asyncio.timeout(WAIT):
        return await work
