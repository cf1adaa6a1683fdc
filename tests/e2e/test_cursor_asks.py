"""What Cursor asks of a person, from the simulated service to the inbox and back, for the official clients."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from tests.e2e.acp_support import ASK
from tests.e2e.cursor_support import DEMO, DIALECTS, KEY, PATIENCE, TRANSPORTS, Dialect, Stand, Transport, serving
from tieline.app.config import ClientSettings, InboxSettings, ParkingSettings, ServerSettings, ToolSettings
from tieline.core.inbox.inbox import PendingItem
from tieline.model.inbox import Answer, Approval, ApprovalAnswer, PlanReview, Question, QuestionAnswer, ReviewAnswer

PLAN = "make a plan for a garden"
QUESTION = "ask me about the garden"
MODE = "switch to plan mode"

ANSWERS: Mapping[str, tuple[str, type, Answer, str]] = {
    "approved": (PLAN, PlanReview, ReviewAnswer(approved=True), "The plan is approved."),
    "answered": (
        QUESTION,
        Question,
        QuestionAnswer(values={"colour": "blue", "parts": ["trees", "a swing"]}),
        'You answered colour: blue; parts: trees, "a swing".',
    ),
    "declined": (
        QUESTION,
        Question,
        QuestionAnswer(action="decline"),
        "You did not answer: The user does not want to answer.",
    ),
    "switched": (MODE, Approval, ApprovalAnswer(option="allow"), "The mode is now plan."),
    "stays": (
        MODE,
        Approval,
        ApprovalAnswer(option="deny", reason="Not now."),
        "The mode stays: The user wants to stay in this mode. Not now.",
    ),
}


async def next_item(stand: Stand) -> PendingItem:
    """What waits, as soon as something does."""
    inbox = stand.app.gateway.inbox
    async with asyncio.timeout(PATIENCE):
        while not inbox.items:
            await inbox.change(inbox.version)
    return inbox.items[0]


@DIALECTS
@TRANSPORTS
@pytest.mark.parametrize("case", ANSWERS)
async def test_a_person_at_the_inbox_decides(transport: Transport, dialect: Dialect, case: str) -> None:
    words, kind, answer, told = ANSWERS[case]
    async with serving(transport) as stand, stand.app.gateway.inbox.watched():
        saying = asyncio.create_task(stand.talk(dialect).say(words))
        item = await next_item(stand)
        assert type(item.content) is kind
        assert (item.origin.model, item.origin.title) == (DEMO, words)
        stand.app.gateway.inbox.decide(item.id, answer)
        said = await saying
        assert told in said.text
        assert said.is_over
        await stand.ended()
        assert stand.counted == (1, 1)


@DIALECTS
async def test_a_plan_is_changed_as_the_person_says_and_what_is_approved_is_in_the_answer(dialect: Dialect) -> None:
    async with serving("http2") as stand, stand.app.gateway.inbox.watched():
        inbox = stand.app.gateway.inbox
        saying = asyncio.create_task(stand.talk(dialect).say(PLAN))
        first = await next_item(stand)
        assert isinstance(first.content, PlanReview)
        assert first.content.title == "A plan for a garden"
        assert [step.content for step in first.content.steps][1] == "Start with a garden"
        inbox.decide(first.id, ReviewAnswer(approved=False, feedback="No trees."))
        second = await next_item(stand)
        assert isinstance(second.content, PlanReview)
        assert "No trees." in second.content.plan
        inbox.decide(second.id, ReviewAnswer(approved=True))
        said = await saying
    assert second.content.plan in said.text
    assert said.text.count("How to make a garden") == 1, "what was rejected is not shown"
    assert said.text.endswith("The plan is approved.")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (QUESTION, "You did not answer: Questions in this form cannot be answered here"),
        (MODE, "The mode stays: Switching the mode needs the consent of the user"),
    ],
)
async def test_where_nobody_looks_the_answer_is_no_at_once(words: str, told: str) -> None:
    async with serving("http2") as stand:
        before = stand.app.gateway.inbox.version
        said = await stand.talk("openai").say(words)
        assert told in said.text
        assert said.is_over
        assert stand.app.gateway.inbox.version == before


@DIALECTS
@TRANSPORTS
async def test_where_nobody_looks_a_plan_is_shown_and_the_next_message_approves_it(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect)
        shown = await talk.say(PLAN)
        assert "How to make a garden, in **three** steps" in shown.text
        assert "Carry out this plan?" in shown.text
        assert "approved" not in shown.text
        assert shown.is_over
        done = await talk.say("Yes, go ahead.")
        assert done.text.strip() == "The plan is approved."
        await stand.ended()
        assert stand.counted == (1, 1), "it was one run"


@DIALECTS
async def test_a_message_with_changes_rejects_the_plan_and_the_better_one_is_shown(dialect: Dialect) -> None:
    async with serving("http2") as stand:
        talk = stand.talk(dialect, stream=False)
        await talk.say(PLAN)
        second = await talk.say("Without trees, please.")
        assert "Without trees, please." in second.text
        assert second.text.rstrip().endswith("(yes or no)")
        assert (await talk.say("yes")).text.strip() == "The plan is approved."
        assert stand.sim.runs == 1


async def test_a_plan_whose_run_is_gone_is_answered_from_the_history() -> None:
    async with serving("http2", parking=ParkingSettings(deadline=0.01)) as stand:
        talk = stand.talk("openai")
        await talk.say(PLAN)
        await stand.until(lambda: bool(stand.record.ending))
        assert (await talk.say("say fine")).text == "fine"
        assert stand.sim.runs == 2


@pytest.mark.parametrize(("words", "told"), [(PLAN, "did not approve the plan"), (MODE, "The mode stays")])
async def test_who_looks_and_leaves_without_an_answer_has_not_said_yes(words: str, told: str) -> None:
    async with serving("http2", inbox=InboxSettings(timeout=0.05)) as stand:
        async with stand.app.gateway.inbox.watched():
            saying = asyncio.create_task(stand.talk("openai").say(words))
            await next_item(stand)
        async with asyncio.timeout(PATIENCE):
            said = await saying
        assert told in said.text
        assert "Nobody answered within 0.05 seconds." in said.text
        assert "is approved" not in said.text
        assert said.is_over


@TRANSPORTS
async def test_a_stream_is_not_silent_while_a_person_thinks_and_who_leaves_takes_the_question_back(
    transport: Transport,
) -> None:
    asked: dict[str, Any] = {"model": DEMO, "stream": True, "messages": [{"role": "user", "content": MODE}]}
    async with (
        serving(transport, server=ServerSettings(keep_alive=0.02)) as stand,
        stand.app.gateway.inbox.watched(),
        httpx2.AsyncClient(base_url=stand.url, headers={"x-api-key": KEY}, timeout=PATIENCE) as http,
    ):
        inbox = stand.app.gateway.inbox
        async with http.stream("POST", "/v1/chat/completions", json=asked) as response:
            pieces = response.aiter_raw()
            signs = [await anext(pieces) for _ in range(3)]
            assert all(sign.startswith(b":") for sign in signs), "nothing is said before there is something to say"
            await next_item(stand)
        async with asyncio.timeout(PATIENCE):
            while inbox.items:
                await inbox.change(inbox.version)
        await stand.until(lambda: bool(stand.record.ending))
        assert stand.record.ending != "ended"


@DIALECTS
@TRANSPORTS
async def test_a_client_with_a_tool_for_questions_is_called_where_nobody_looks(
    transport: Transport, dialect: Dialect
) -> None:
    async with serving(transport) as stand:
        talk = stand.talk(dialect, (ASK,))
        asked = await talk.say(QUESTION)
        ((name, arguments),) = asked.called
        assert (name, asked.wants_tools) == ("ask_question", True)
        assert "Which colour?" in arguments["question"]
        said = await talk.give("1. Blue\n2. trees and water")
        assert "You answered colour: blue; parts: trees, water." in said.text
        assert stand.counted == (1, 1), "the same run went on"


async def test_the_gateways_own_tool_for_questions_says_at_once_that_nobody_looks() -> None:
    async with serving("http2", tools=ToolSettings(enabled=True), clients={"all": ClientSettings(tools=True)}) as stand:
        said = await stand.talk("openai").say(QUESTION)
        assert "in plain text" in said.text
        assert said.is_over
        assert not stand.app.gateway.inbox.items
