"""Ways of asking that only some agents have, through the whole gateway: their own requests, and a permission's options.

The agents here start at once and are ours; the protocol's own package knows none of this.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from tests.backends.acp_support import tool
from tests.e2e.acp_support import SHARED, Dialect, Stand, plain, serving
from tests.e2e.tools_support import DIALECTS, PATIENCE
from tieline.model.inbox import PlanReview, Question

T = TypeVar("T")

pytestmark = [SHARED, DIALECTS]

FRUIT = {"outcome": "answered", "answers": [{"questionId": "q", "selectedOptionIds": ["a", "b"]}]}
COLOUR = {"outcome": {"outcome": "selected", "optionId": "yes"}, "answers": {"0": "Blue"}}
QUESTIONS = pytest.mark.parametrize(
    ("agent", "values", "words", "answer"),
    [("acp/cursor", {"q": ["a", "b"]}, "1, bananas", FRUIT), ("acp/qwen", {"0": "Blue"}, "blue", COLOUR)],
    ids=["a request of its own", "in a permission"],
)
ASK_USER_QUESTION = tool(
    "AskUserQuestion",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "questions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "question": {"type": "string"},
                            "header": {"type": "string"},
                            "multiSelect": {"type": "boolean"},
                            "options": {
                                "type": "array",
                                "items": {"type": "object", "properties": {"label": {"type": "string"}}},
                            },
                        },
                        "required": ["question", "options"],
                    },
                }
            },
            "required": ["questions"],
        }
    ).encode(),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    home: Path = tmp_path_factory.mktemp("home")
    async with serving(home, {"cursor": plain("cursor"), "qwen": plain("qwen")}) as stand:
        yield stand


async def soon(work: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await work


@QUESTIONS
async def test_a_person_at_the_inbox_answers(
    stand: Stand, dialect: Dialect, agent: str, values: Any, words: str, answer: Any
) -> None:
    async with stand.watched():
        asking = asyncio.create_task(stand.talk(dialect, model=agent).say("question"))
        item = await stand.decide(values=values)
        assert isinstance(item.content, Question)
        assert json.loads((await soon(asking)).text) == answer


@QUESTIONS
async def test_without_a_person_the_next_message_answers(
    stand: Stand, dialect: Dialect, agent: str, values: Any, words: str, answer: Any
) -> None:
    talk = stand.talk(dialect, model=agent)
    assert "Which" in (await talk.say("question")).text
    assert json.loads((await talk.say(words)).text) == answer


@QUESTIONS
async def test_the_tool_of_a_client_answers(
    stand: Stand, dialect: Dialect, agent: str, values: Any, words: str, answer: Any
) -> None:
    talk = stand.talk(dialect, (ASK_USER_QUESTION,), model=agent)
    ((name, arguments),) = (await talk.say("question")).called
    assert name == "AskUserQuestion"
    (question,) = arguments["questions"]
    labels = [option["label"] for option in question["options"]]
    assert labels in (["Apples", "Bananas"], ["Red", "Blue"])
    chosen = "Apples, Bananas" if "Apples" in labels else "Blue"
    given = await talk.give(json.dumps({"answers": {question["question"]: chosen}}))
    assert json.loads(given.text) == answer


@pytest.mark.parametrize("feedback", ["", "Two coats."])
async def test_a_plan_is_reviewed_and_the_feedback_is_its_reason(stand: Stand, dialect: Dialect, feedback: str) -> None:
    asking = asyncio.create_task(stand.talk(dialect, model="acp/cursor").say("plan"))
    item = await stand.decide(approved=not feedback, feedback=feedback)
    assert isinstance(item.content, PlanReview)
    assert (item.content.title, item.content.plan) == ("Paint", "# Paint\n1. Buy paint")
    outcome = {"outcome": "rejected", "reason": feedback} if feedback else {"outcome": "accepted"}
    assert json.loads((await soon(asking)).text) == outcome
