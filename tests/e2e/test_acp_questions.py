"""Questions of a coding agent: to a person at the inbox, to the client's own tool, or answered by the next message."""

import asyncio
from typing import Any, NamedTuple

import pytest

from tests.e2e.acp_support import ASK, SHARED, Dialect, Stand, answered, ask, stand
from tests.e2e.tools_support import DIALECTS, PATIENCE, STREAMED_OR_WHOLE
from tieline.model.inbox import Question

__all__ = ["stand"]

pytestmark = [SHARED, DIALECTS]


class Kind(NamedTuple):
    """A kind of question: its schema, an answer that does not fit, one that does, and that one in words."""

    name: str
    rule: dict[str, Any]
    wrong: Any
    right: Any
    words: str


COLOURS = {"type": "string", "enum": ["red", "blue"]}
LETTERS = {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}
KINDS = [
    Kind("yes_no", {"type": "boolean"}, "perhaps", True, "yes"),
    Kind("choice", COLOURS, "green", "blue", "2"),
    Kind("choice", LETTERS, ["d"], ["a", "c"], "a, c"),
    Kind("text", {"type": "string", "minLength": 2}, 5, "in my own words", "in my own words"),
    Kind("number", {"type": "integer", "minimum": 1}, 0, 3, "3"),
    Kind("file", {"type": "string", "format": "file"}, 7, "src/a.py", "src/a.py"),
]
EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=["yes_no", "one", "many", "text", "number", "file"])


@EACH_KIND
async def test_a_person_at_the_inbox_answers_each_kind(stand: Stand, dialect: Dialect, kind: Kind) -> None:
    async with stand.watched():
        asking = asyncio.create_task(stand.talk(dialect).say(ask(kind.rule)))
        item = await stand.next_item()
        assert isinstance(item.content, Question)
        (field,) = item.content.fields
        assert (field.kind, field.title, field.required) == (kind.name, "Which one?", True)
        refusal = await stand.answer(item, values={"it": kind.wrong})
        assert refusal.status_code == 400
        assert "it" in refusal.json()["error"]["message"]
        assert (await stand.answer(item, values={"it": kind.right})).status_code == 200
        async with asyncio.timeout(PATIENCE):
            answer = await asking
    assert answered(answer.text) == ("accept", {"it": kind.right})


@STREAMED_OR_WHOLE
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declining_and_giving_up_are_answers_too(
    stand: Stand, dialect: Dialect, stream: bool, action: str
) -> None:
    async with stand.watched():
        asking = asyncio.create_task(stand.talk(dialect, stream=stream).say(ask(COLOURS)))
        await stand.decide(action=action)
        async with asyncio.timeout(PATIENCE):
            answer = await asking
    assert answered(answer.text) == (action, None)
    assert answer.is_over


@EACH_KIND
async def test_without_a_person_the_question_is_text_and_the_next_message_answers_it(
    stand: Stand, dialect: Dialect, kind: Kind
) -> None:
    talk = stand.talk(dialect)
    question = await talk.say(ask(kind.rule))
    assert question.is_over
    assert "Which one?" in question.text
    assert answered((await talk.say(kind.words)).text) == ("accept", {"it": kind.right})


async def test_what_is_no_answer_is_asked_again(stand: Stand, dialect: Dialect) -> None:
    talk = stand.talk(dialect)
    await talk.say(ask(COLOURS))
    assert "Please choose one of: red, blue." in (await talk.say("something green")).text
    assert answered((await talk.say("blue")).text) == ("accept", {"it": "blue"})


@EACH_KIND
async def test_a_client_with_a_tool_for_questions_is_called(stand: Stand, dialect: Dialect, kind: Kind) -> None:
    talk = stand.talk(dialect, (ASK,))
    answer = await talk.say(ask(kind.rule))
    ((name, arguments),) = answer.called
    assert (name, answer.wants_tools) == ("ask_question", True)
    assert "Which one?" in arguments["question"]
    assert answered((await talk.give(kind.words)).text) == ("accept", {"it": kind.right})


async def test_an_address_to_visit_is_shown_and_consent_is_the_answer(stand: Stand, dialect: Dialect) -> None:
    talk = stand.talk(dialect)
    assert "https://example.com/login" in (await talk.say("visit https://example.com/login")).text
    assert (await talk.say("done")).text.startswith("accept")
