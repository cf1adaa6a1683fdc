"""What Cursor asks of a person: how it is put, how the answers are spelled, and how a run waits for them."""

import gc
import tracemalloc
from itertools import count
from typing import Any

import pytest

from tests.grammar import check
from tests.wire.dialogues import received
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.events import Failed, Finished, Note, PartDelta, PartEnd, PlanEntry, StopReason
from tieline.model.inbox import (
    ALLOW,
    DENY,
    Answer,
    Approval,
    ApprovalAnswer,
    Field,
    Option,
    PlanReview,
    Question,
    QuestionAnswer,
    ReviewAnswer,
)
from tieline.model.request import Request, ToolSpec
from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import queries_pb2 as queries
from tieline.wire.cursor.opening.offered_tools import OfferedTools
from tieline.wire.cursor.opening.run_request import MachineInfo, RunSettings, open_run
from tieline.wire.cursor.run.inbox_items import STAY, inbox_item_of, reply_with
from tieline.wire.cursor.run.machine import IDLE_HEARTBEATS, CursorRun
from tieline.wire.cursor.run.pending_queries import MAX_WAITING
from tieline.wire.cursor.run.query_replies import NO_APPROVAL, NO_SWITCH, QuerySettings
from tieline.wire.cursor.stored_state import Blobs

CALL = '< exec_server {"id": 1, "mcpArgs": {"name": "weather", "providerIdentifier": "tieline", "toolName": "weather"}}'
TURN_ENDED = '< interaction_update {"turnEnded": {}}'
HEARTBEAT = '< interaction_update {"heartbeat": {}}'

QUESTION = "3a3108021a2d0a210a0154121c0a027131120657686963683f1a060a01611201411a060a01621201421208746f6f6c755f3231"
PLAN = "3a3408043a300a240a0c2320506c616e0a312e20780a1a016f22076d7920706c616e12080a013112017818011208746f6f6c755f3233"
MODE = "3a1b080322170a150a04706c616e12037768791a08746f6f6c755f3232"


def asked(query_hex: str) -> queries.InteractionQuery:
    return agent.AgentServerMessage.FromString(bytes.fromhex(query_hex)).interaction_query


def told(query: queries.InteractionQuery, answer: Answer) -> queries.InteractionResponse:
    reply = reply_with(query, answer)
    assert reply is not None
    return agent.AgentClientMessage.FromString(reply.message).interaction_response


def made(**options: Any) -> CursorRun:
    minted = count(1)
    opening = open_run(
        Request(model="demo", messages=()),
        settings=RunSettings(),
        machine_info=MachineInfo(),
        conversation_id="c",
        run_id="r",
        message_id="m",
    )
    run = CursorRun(opening, mint=lambda: f"call_{next(minted)}", blobs=Blobs(), **options)
    run.begin("leg", "demo")
    run.pull()
    run.outbox()
    return run


# ── What a person is asked ───────────────────────────────────────────────────────────────────────


def test_questions_are_a_form_that_takes_other_words_too() -> None:
    options = (Option(id="a", label="A"), Option(id="b", label="B"))
    field = Field(name="q1", kind="choice", title="Which?", required=True, options=options, is_open=True)
    assert inbox_item_of(asked(QUESTION), QuerySettings()) == Question(message="T", fields=(field,))


def test_a_plan_is_to_be_reviewed_with_all_its_steps() -> None:
    steps = (PlanEntry(content="x"),)
    assert inbox_item_of(asked(PLAN), QuerySettings()) == PlanReview(
        title="my plan", plan="# Plan\n1. x\n", steps=steps
    )
    query = queries.InteractionQuery()
    phase = query.create_plan_request_query.args.phases.add(name="first")
    phase.todos.add(content="y", status=3)
    assert inbox_item_of(query, QuerySettings()) == PlanReview(
        title="A plan", steps=(PlanEntry(content="y", status="completed"),)
    )


def test_another_mode_is_a_permission_unless_the_settings_decide() -> None:
    ask = inbox_item_of(asked(MODE), QuerySettings())
    assert isinstance(ask, Approval)
    assert (ask.title, ask.kind, ask.detail) == ("Switch to plan mode", "switch_mode", "why")
    assert ask.options == (ALLOW, DENY)
    assert inbox_item_of(asked(MODE), QuerySettings(allow_mode_switch=False)) is None


def test_a_question_without_options_is_answered_in_words() -> None:
    query = queries.InteractionQuery(id=2)
    query.ask_question_interaction_query.args.questions.add(id="q", prompt="Why?", allow_multiple=True)
    ask = inbox_item_of(query, QuerySettings())
    assert isinstance(ask, Question)
    assert ask.fields == (Field(name="q", kind="text", title="Why?", required=True),)
    (answer,) = told(
        query, QuestionAnswer(values={"q": "because"})
    ).ask_question_interaction_response.result.success.answers
    assert (answer.question_id, list(answer.selected_option_ids), answer.freeform_text) == ("q", [], "because")


def test_questions_that_share_an_id_are_kept_apart() -> None:
    query = queries.InteractionQuery(id=2)
    for question_id in ("", "q", "q"):
        query.ask_question_interaction_query.args.questions.add(id=question_id, prompt="?")
    ask = inbox_item_of(query, QuerySettings())
    assert isinstance(ask, Question)
    names = [field.name for field in ask.fields]
    assert len(set(names)) == 3
    values = dict(zip(names, "xyz", strict=True))
    answers = told(query, QuestionAnswer(values=values)).ask_question_interaction_response.result.success.answers
    assert [(one.question_id, one.freeform_text) for one in answers] == [("", "x"), ("q", "y"), ("q", "z")]


# ── What the service is told ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("query", "answer", "expected"),
    [
        (PLAN, ReviewAnswer(approved=True), "320808043a040a020a00"),
        (MODE, ApprovalAnswer(option="allow"), "3206080322020a00"),
    ],
    ids=["plan", "mode"],
)
def test_a_yes_is_told_byte_for_byte_as_by_cursors_own_client(query: str, answer: Answer, expected: str) -> None:
    reply = reply_with(asked(query), answer)
    assert reply is not None
    assert reply.message.hex() == expected
    assert reply.note == ""


def test_an_answer_stands_where_the_schema_has_it() -> None:
    """Ours, from the field numbers: without a person, Cursor's own client only turns questions down."""
    reply = reply_with(asked(QUESTION), QuestionAnswer(values={"q1": "a"}))
    assert reply is not None
    assert reply.message.hex() == "321108021a0d0a0b0a090a070a027131120161"


@pytest.mark.parametrize(
    ("value", "selected", "words"),
    [("b", ["b"], ""), (["a", "b"], ["a", "b"], ""), ("neither", [], "neither"), (["a", "and c"], ["a"], "and c")],
)
def test_options_are_told_by_id_and_other_words_beside_them(value: Any, selected: list[str], words: str) -> None:
    response = told(asked(QUESTION), QuestionAnswer(values={"q1": value}))
    (answer,) = response.ask_question_interaction_response.result.success.answers
    assert (answer.question_id, list(answer.selected_option_ids), answer.freeform_text) == ("q1", selected, words)


def test_a_no_is_told_with_the_words_of_the_person() -> None:
    question = told(asked(QUESTION), QuestionAnswer(action="decline", reason="Later."))
    assert question.ask_question_interaction_response.result.rejected.reason == "Later."
    plan = told(asked(PLAN), ReviewAnswer(approved=False, feedback="Shorter."))
    assert plan.create_plan_request_response.result.error.error == f"{NO_APPROVAL} Shorter."
    mode = told(asked(MODE), ApprovalAnswer(option="deny", reason="Not yet."))
    assert mode.switch_mode_request_response.rejected.reason == f"{STAY} Not yet."
    assert [response.id for response in (question, plan, mode)] == [2, 4, 3]


@pytest.mark.parametrize(
    ("query", "answer", "kind"),
    [
        (QUESTION, QuestionAnswer(action="decline"), "question_declined"),
        (PLAN, ReviewAnswer(approved=False), "plan_rejected"),
        (MODE, ApprovalAnswer(option="deny"), "denied"),
    ],
    ids=["question", "plan", "mode"],
)
def test_a_no_without_words_is_told_and_noted_all_the_same(query: str, answer: Answer, kind: str) -> None:
    reply = reply_with(asked(query), answer)
    assert reply is not None
    assert reply.kind == kind
    assert reply.note
    assert not reply.shown


@pytest.mark.parametrize(
    "answer",
    [
        None,
        QuestionAnswer(action="cancel"),
        ReviewAnswer(approved=False, is_unanswered=True),
        ApprovalAnswer(reason="Nobody answered."),
    ],
)
def test_an_answer_that_is_unanswered_is_none(answer: Answer | None) -> None:
    assert reply_with(asked(PLAN), answer) is None


# ── Queries that are held for a person ───────────────────────────────────────────────────────────


def question(query_id: int) -> bytes:
    args = '{"questions": [{"id": "q", "prompt": "Which?", "options": [{"id": "a", "label": "A"}]}]}'
    return received(f'< interaction_query {{"id": {query_id}, "askQuestionInteractionQuery": {{"args": {args}}}}}')


def plan(query_id: int) -> bytes:
    args = '{"plan": "# Plan\\n1. x"}'
    return received(f'< interaction_query {{"id": {query_id}, "createPlanRequestQuery": {{"args": {args}}}}}')


def test_a_query_may_be_held_until_a_person_has_answered_it() -> None:
    run = made(can_ask=lambda ask: isinstance(ask, Question))
    run.receive(question(3) + received('< interaction_query {"id": 4, "webSearchRequestQuery": {}}'))
    assert list(run.inbox_items) == [3]
    assert [message.hex() for message in run.outbox()] == ["3206080412020a00"]
    run.answer_query(3, QuestionAnswer(values={"q": "a"}))
    run.answer_query(3, QuestionAnswer(values={"q": "a"}))
    assert run.inbox_items == {}
    (message,) = run.outbox()
    response = agent.AgentClientMessage.FromString(message).interaction_response
    (answer,) = response.ask_question_interaction_response.result.success.answers
    assert (response.id, answer.question_id, list(answer.selected_option_ids)) == (3, "q", ["a"])


def test_what_is_nothing_for_a_person_is_not_held() -> None:
    run = made(can_ask=lambda _: True)
    run.receive(received('< interaction_query {"id": 4, "webSearchRequestQuery": {}}'))
    run.receive(received('< interaction_query {"id": 5, "askQuestionInteractionQuery": {"args": {}}}'))
    assert run.inbox_items == {}
    assert len(run.outbox()) == 2


def test_a_plan_that_is_held_is_shown_once_it_is_approved() -> None:
    run = made(can_ask=lambda _: True)
    assert run.receive(plan(4)) == []
    events = run.answer_query(4, ReviewAnswer(approved=True))
    assert [event.text for event in events if isinstance(event, PartDelta)] == ["# Plan\n1. x"]
    assert [message.hex() for message in run.outbox()] == ["320808043a040a020a00"]


def test_a_plan_that_is_rejected_is_not_shown_but_noted() -> None:
    run = made(can_ask=lambda _: True)
    run.receive(plan(4))
    assert run.answer_query(4, ReviewAnswer(approved=False, feedback="Shorter.")) == [
        Note(kind="plan_rejected", message="Shorter.")
    ]


@pytest.mark.parametrize("why", ["", "Nobody answered within 2 seconds."])
def test_a_plan_that_nobody_decides_is_rejected_with_the_reason(why: str) -> None:
    run = made(can_ask=lambda _: True)
    run.receive(plan(4))
    events = run.answer_query(4, ReviewAnswer(approved=False, feedback=why, is_unanswered=True) if why else None)
    assert not any(isinstance(event, PartDelta) for event in events)
    assert any(isinstance(event, Note) and why in event.message for event in events)
    (message,) = run.outbox()
    result = agent.AgentClientMessage.FromString(message).interaction_response.create_plan_request_response.result
    assert result.error.error == f"{NO_APPROVAL} {why}".strip()


def test_another_mode_that_nobody_decides_is_refused_with_the_reason() -> None:
    run = made(can_ask=lambda _: True)
    run.receive(received('< interaction_query {"id": 4, "switchModeRequestQuery": {"args": {"targetModeId": "plan"}}}'))
    run.answer_query(4, ApprovalAnswer(reason="Nobody answered within 2 seconds."))
    (message,) = run.outbox()
    verdict = agent.AgentClientMessage.FromString(message).interaction_response.switch_mode_request_response
    assert verdict.rejected.reason == f"Nobody answered within 2 seconds. {NO_SWITCH}"


# ── Plans that the next message decides ──────────────────────────────────────────────────────────


def decided_by(words: str) -> tuple[bool, str]:
    """Whether a plan is approved by a message, and what the service is told otherwise."""
    run = made()
    assert run.receive(plan(4))[-1] == Finished(reason=StopReason.END_TURN)
    assert run.awaits_reply
    assert run.outbox() == []
    run.reply_to_plan(words)
    assert not run.awaits_reply
    (message,) = run.outbox()
    result = agent.AgentClientMessage.FromString(message).interaction_response.create_plan_request_response.result
    return result.HasField("success"), result.error.error


@pytest.mark.parametrize(
    "words", ["yes", "Yes!", "ok, go ahead", "Looks good, thanks", "Approved.", "do it", "yes please", "LGTM", "Ja"]
)
def test_plain_consent_approves_a_plan(words: str) -> None:
    assert decided_by(words) == (True, "")


@pytest.mark.parametrize(
    "words",
    ["no", "yes, but without trees", "is it good?", "do not do it", "Make it shorter.", "", "hm", "ok?", "go away"],
)
def test_anything_else_rejects_it_with_the_words(words: str) -> None:
    assert decided_by(words) == (False, f"{NO_APPROVAL} {words}".strip())


def test_a_plan_made_while_the_client_runs_a_tool_is_shown_in_the_next_leg() -> None:
    run = made()
    run.set_tools(OfferedTools.of([ToolSpec(name="weather")]))
    run.receive(received(CALL))
    assert run.wake()[-1] == Finished(reason=StopReason.TOOL_USE)
    assert run.receive(plan(4)) == []
    run.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    run.begin("leg_2", "demo")
    events = run.pull()
    check(events)
    assert "# Plan" in "".join(event.text for event in events if isinstance(event, PartDelta))
    assert run.awaits_reply


def test_a_checkpoint_from_before_the_reply_to_a_plan_is_none_to_go_on_from() -> None:
    """The reply is part of the history. From such a checkpoint, the service would ask about the plan again."""
    run = made()
    run.receive(received("< checkpoint {}"))
    assert run.checkpoint_usable
    run.receive(plan(4))
    assert not run.checkpoint_usable
    run.receive(received("< checkpoint {}"))
    assert not run.checkpoint_usable
    run.reply_to_plan("yes")
    run.begin("leg_2", "demo")
    assert not run.checkpoint_usable
    run.receive(received('< checkpoint {"pendingToolCalls": ["tool_23"]}'))
    assert not run.checkpoint_usable
    run.receive(received("< checkpoint {}"))
    assert run.checkpoint_usable


def test_a_second_plan_beside_one_that_waits_is_rejected() -> None:
    run = made()
    run.receive(plan(4))
    run.receive(plan(5))
    (message,) = run.outbox()
    response = agent.AgentClientMessage.FromString(message).interaction_response
    assert (response.id, response.create_plan_request_response.result.HasField("error")) == (5, True)


def test_whoever_asks_after_the_turn_has_not_ended_it() -> None:
    run = made(can_ask=lambda _: True)
    run.receive(received(TURN_ENDED))
    assert run.wake_after is not None
    run.receive(question(3))
    assert run.wake_after is None
    for _ in range(IDLE_HEARTBEATS):
        run.receive(received(HEARTBEAT))
    assert not run.ended


def test_a_plan_that_is_approved_between_two_legs_is_shown_in_the_next() -> None:
    run = made(can_ask=lambda _: True)
    run.set_tools(OfferedTools.of([ToolSpec(name="weather")]))
    run.receive(received(CALL))
    assert run.wake()[-1] == Finished(reason=StopReason.TOOL_USE)
    run.receive(plan(4))
    assert run.answer_query(4, ReviewAnswer(approved=True)) == []
    assert "320808043a040a020a00" in [message.hex() for message in run.outbox()]
    run.answer([ToolResult(call_id="call_1", content=(Text(text="sunny"),))])
    run.begin("leg_2", "demo")
    assert [event.text for event in run.pull() if isinstance(event, PartDelta)] == ["# Plan\n1. x"]


def test_a_run_that_is_over_is_told_nothing_more() -> None:
    run = made(can_ask=lambda _: True)
    run.receive(plan(4))
    run.receive_eof()
    run.outbox()
    run.answer_query(4, ReviewAnswer(approved=True))
    assert run.outbox() == []


def test_more_queries_than_a_person_could_answer_are_not_held() -> None:
    run = made(can_ask=lambda _: True)
    for query_id in range(MAX_WAITING + 1):
        run.receive(question(query_id))
    assert len(run.inbox_items) == MAX_WAITING
    assert len(run.outbox()) == 1


# ── Questions that only the client can put ───────────────────────────────────────────────────────

ASKING = ToolSpec(
    name="ask_user",
    schema=b'{"type": "object", "properties": {"question": {"type": "string"}, "options": {"type": "array", '
    b'"items": {"type": "string"}}}, "required": ["question"]}',
)


def asking(**options: Any) -> CursorRun:
    run = made(**options)
    run.set_tools(OfferedTools.of([ASKING]))
    return run


def result(text: str, call_id: str = "call_1", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=call_id, content=(Text(text=text),), is_error=is_error)


def test_where_nobody_looks_a_question_is_a_call_of_the_clients_tool_for_asking() -> None:
    run = asking()
    events = run.receive(question(3)) + run.wake()
    (call,) = [event.part for event in events if isinstance(event, PartEnd)]
    assert isinstance(call, ToolCall)
    assert (call.name, "Which?" in call.arguments, '"A"' in call.arguments) == ("ask_user", True, True)
    assert events[-1] == Finished(reason=StopReason.TOOL_USE)
    assert run.pending == {"call_1"}
    assert run.outbox() == []
    run.answer([result("A")])
    (message,) = run.outbox()
    response = agent.AgentClientMessage.FromString(message).interaction_response
    (answer,) = response.ask_question_interaction_response.result.success.answers
    assert (response.id, list(answer.selected_option_ids)) == (3, ["a"])
    assert run.pending == frozenset()


def test_a_client_that_could_not_ask_tells_why_in_its_own_words() -> None:
    run = asking()
    run.receive(question(3))
    run.wake()
    run.answer([result("The user closed the window.", is_error=True)])
    (message,) = run.outbox()
    response = agent.AgentClientMessage.FromString(message).interaction_response
    assert response.ask_question_interaction_response.result.rejected.reason == "The user closed the window."


def test_words_that_come_with_the_answer_reach_the_model() -> None:
    run = asking()
    run.receive(question(3))
    run.wake()
    run.answer([result("A")], "and hurry")
    kinds = [agent.AgentClientMessage.FromString(message).WhichOneof("message") for message in run.outbox()]
    assert kinds == ["interaction_response", "conversation_action"]


def test_a_person_who_looks_comes_before_the_clients_tool() -> None:
    run = asking(can_ask=lambda _: True)
    run.receive(question(3))
    assert list(run.inbox_items) == [3]
    assert run.wake_after is None


def test_a_checkpoint_from_before_the_answer_is_none_to_go_on_from() -> None:
    run = asking()
    run.receive(question(3) + received("< checkpoint {}"))
    assert not run.checkpoint_usable
    run.answer([result("A")])
    run.begin("leg_2", "demo")
    run.receive(received('< checkpoint {"pendingToolCalls": ["tool_21"]}'))
    assert not run.checkpoint_usable, "it may have been taken before the answer arrived: the user would be asked again"
    run.receive(received("< checkpoint {}"))
    assert run.checkpoint_usable


def test_questions_that_were_answered_take_no_memory() -> None:
    run = asking()

    def ask_and_answer(times: int) -> int:
        for _ in range(times):
            run.receive(question(3))
            run.wake()
            run.answer([result("A", call_id) for call_id in run.pending])
            run.outbox()
            run.begin("leg", "demo")
            run.pull()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = ask_and_answer(100)
        assert ask_and_answer(1000) - before < 20_000
    finally:
        tracemalloc.stop()


def test_a_turn_is_not_over_while_the_clients_tool_asks() -> None:
    run = asking()
    run.receive(question(3) + received(TURN_ENDED))
    run.wake()
    for _ in range(IDLE_HEARTBEATS):
        run.receive(received(HEARTBEAT))
    assert run.pending == {"call_1"}
    run.answer([result("A")])
    assert len(run.outbox()) == 1
    run.begin("leg_2", "demo")
    run.receive(received(TURN_ENDED) + received("< end {}"))
    assert run.ended


def test_a_stream_that_ends_while_the_clients_tool_asks_has_failed() -> None:
    run = asking()
    (*_, last) = run.receive(question(3) + received(TURN_ENDED) + received("< end {}"))
    assert isinstance(last, Failed)
    assert "a call was still open" in last.message


def test_plans_and_modes_are_no_questions_for_a_tool() -> None:
    run = asking()
    run.receive(plan(4) + received('< interaction_query {"id": 5, "switchModeRequestQuery": {"args": {}}}'))
    assert len(run.outbox()) == 1
    assert run.calls == 0
    assert run.awaits_reply
    assert run.pending == frozenset()
