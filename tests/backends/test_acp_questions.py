"""Questions of agents: to a person who is there, to the client's own tool for asking, or into the conversation."""

import asyncio
import json
from typing import Any

import pytest

from tests.backends.acp_support import Person, Talk, leg, plain, scripted, serving, tool, until, user
from tieline.model.content import Message, Text, ToolResult
from tieline.model.inbox import Field, Option, Question, QuestionAnswer

COLOUR = {"properties": {"colour": {"type": "string", "title": "Which colour?", "enum": ["red", "blue"]}}}
COLOUR["required"] = ["colour"]  # type: ignore[assignment] # JSON

ASK_USER_QUESTION = json.dumps(
    {
        "type": "object",
        "properties": {
            "questions": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "question": {"type": "string"},
                        "header": {"type": "string"},
                        "multiSelect": {"type": "boolean"},
                        "options": {
                            "type": "array",
                            "minItems": 2,
                            "maxItems": 4,
                            "items": {
                                "type": "object",
                                "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
                                "required": ["label", "description"],
                            },
                        },
                    },
                    "required": ["question", "header", "options", "multiSelect"],
                },
            }
        },
        "required": ["questions"],
    }
).encode()


def ask(schema: dict[str, Any]) -> str:
    return f"ask {json.dumps(schema)}\nsay thanks"


def answered(text: str) -> tuple[str, Any]:
    """What the scripted agent says it was answered."""
    action, _, rest = text.partition(" ")
    return action, json.loads(rest.removesuffix("thanks ") or "null")


# ── a person who is there ────────────────────────────────────────────────────────────────────────


async def test_a_person_who_is_there_is_asked_with_a_form() -> None:
    person = Person(QuestionAnswer(values={"colour": "blue"}), is_present=True)
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask(ask(COLOUR), person)
    assert answered(reply.text) == ("accept", {"colour": "blue"})
    options = (Option(id="red", label="red"), Option(id="blue", label="blue"))
    field = Field(name="colour", kind="choice", title="Which colour?", required=True, options=options)
    assert person.asked == [Question(message="What shall it be?", fields=(field,))]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declining_and_giving_up_are_answers_too(action: Any) -> None:
    person = Person(QuestionAnswer(action=action), is_present=True)
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask(ask(COLOUR), person)
    assert answered(reply.text) == (action, None)


async def test_an_address_to_visit_is_shown_and_consent_is_the_answer() -> None:
    person = Person(QuestionAnswer(), is_present=True)
    async with serving(scripted()) as backend:
        reply = await Talk(backend).ask("visit https://example.com/login", person)
        assert reply.text.startswith("accept")
        assert person.asked == [Question(message="Please log in.", url="https://example.com/login")]
        talk = Talk(backend)
        shown = await talk.ask("visit https://example.com/login")
        assert "https://example.com/login" in shown.text
        assert (await talk.ask("done")).text.startswith("accept")


async def test_questions_by_other_ways_are_forms_too() -> None:
    async with serving(plain("cursor"), plain("qwen", id="qwen")) as backend:
        person = Person(QuestionAnswer(values={"q": ["a", "b"]}), is_present=True)
        told = json.loads((await Talk(backend, "plain").ask("question", person)).text)
        assert told == {"outcome": "answered", "answers": [{"questionId": "q", "selectedOptionIds": ["a", "b"]}]}
        person = Person(QuestionAnswer(values={"0": "Blue"}), is_present=True)
        told = json.loads((await Talk(backend, "qwen").ask("question", person)).text)
        assert told == {"outcome": {"outcome": "selected", "optionId": "yes"}, "answers": {"0": "Blue"}}


# ── in the conversation ──────────────────────────────────────────────────────────────────────────


async def test_without_a_person_the_question_ends_the_turn_as_text_and_the_next_message_answers_it() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        question = await talk.ask(ask(COLOUR))
        assert question.text == "What shall it be?\n\nWhich colour?\n  1) red\n  2) blue"
        assert question.reason == "end_turn"
        reply = await talk.ask("the second: 2")
        assert "Please choose one of: red, blue." in reply.text, "what is no answer is asked again"
        reply = await talk.ask("2")
        assert answered(reply.text) == ("accept", {"colour": "blue"})
        assert (await talk.ask("recall")).text.count("recall") == 1
        assert len(list(backend._opener.sessions)) == 1


async def test_who_wants_something_else_declines_and_the_words_reach_the_agent() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask(ask(COLOUR))
        await talk.ask("say something else")
        reply = await talk.ask("say green then")
        assert "decline null" in reply.text
        assert reply.text.endswith("green then ")


@pytest.mark.parametrize(
    ("rule", "words", "value"),
    [
        ({"type": "boolean"}, "yes, please", True),
        ({"type": "string"}, "in my own words", "in my own words"),
        ({"type": "integer", "minimum": 1}, "make it 3", 3),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}, "1, c", ["a", "c"]),
    ],
)
async def test_each_kind_of_question_can_be_answered_in_words(rule: dict[str, Any], words: str, value: Any) -> None:
    schema = {"properties": {"it": {**rule, "title": "What?"}}, "required": ["it"]}
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask(ask(schema))
        assert answered((await talk.ask(words)).text) == ("accept", {"it": value})


async def test_several_questions_are_answered_line_by_line_or_one_after_the_other() -> None:
    schema = {
        "properties": {"name": {"type": "string", "title": "A name?"}, "size": {"type": "number", "title": "A size?"}},
        "required": ["name", "size"],
    }
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        text = (await talk.ask(ask(schema))).text
        assert "1. A name?" in text
        assert "2. A size?" in text
        assert answered((await talk.ask("1. Ada\n2. 4.5")).text) == ("accept", {"name": "Ada", "size": 4.5})
        talk = Talk(backend)
        await talk.ask(ask(schema) + "\nsay bye")
        second = await talk.ask("Ada")
        assert second.reason == "end_turn"
        assert "A size?" in second.text
        assert "A name?" not in second.text
        assert "accept" in (await talk.ask("4.5")).text


async def test_a_question_that_nobody_answers_in_time_is_cancelled_and_the_session_free() -> None:
    async with serving(scripted(), park_for=0.1) as backend:
        talk = Talk(backend)
        await talk.ask(ask(COLOUR))
        (session,) = backend._opener.sessions
        await until(lambda: not session.is_busy)
        assert (await talk.ask("say anew")).text == "anew "


async def test_a_conversation_that_goes_elsewhere_leaves_the_question_alone() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        await talk.ask(ask(COLOUR))
        assert (await Talk(backend).ask("say 2")).text == "2 "
        assert answered((await talk.ask("2")).text) == ("accept", {"colour": "blue"})


# ── the client's own tool for asking ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "result",
    [
        'User has answered your questions: "Which colour?"="blue". You can now continue.',
        '{"answers": {"Which colour?": "blue"}}',
        "blue",
        "2",
    ],
)
async def test_a_client_with_a_tool_for_asking_is_called_and_its_result_is_the_answer(result: str) -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend, tools=(tool("AskUserQuestion", ASK_USER_QUESTION), tool("other")))
        talk.messages.append(user(ask(COLOUR)))
        run = await talk.start()
        reply = await leg(run)
        assert reply.reason == "tool_use"
        (call,) = reply.calls
        assert call.name == "AskUserQuestion"
        assert run.pending == {call.id}
        (question,) = json.loads(call.arguments)["questions"]
        assert question["question"].endswith("Which colour?")
        assert [option["label"] for option in question["options"]] == ["red", "blue"]
        assert question["multiSelect"] is False
        await run.answer([ToolResult(call_id=call.id, content=(Text(text=result),))])
        assert answered((await leg(run)).text) == ("accept", {"colour": "blue"})
        assert run.pending == frozenset()
        await run.aclose()


async def test_a_tool_that_fails_declines_the_question() -> None:
    schema = b'{"type":"object","properties":{"question":{"type":"string"},"options":{"type":"array"}}}'
    async with serving(scripted()) as backend:
        talk = Talk(backend, tools=(tool("ask_user", schema),))
        talk.messages.append(user(ask(COLOUR)))
        run = await talk.start()
        (call,) = (await leg(run)).calls
        arguments = json.loads(call.arguments)
        assert arguments == {"question": "What shall it be?\nWhich colour?", "options": ["red", "blue"]}
        await run.answer([ToolResult(call_id=call.id, content=(Text(text="dismissed"),), is_error=True)])
        assert answered((await leg(run)).text) == ("decline", None)
        await run.aclose()


async def test_a_turn_that_is_closed_while_its_question_waits_is_cancelled() -> None:
    async with serving(scripted()) as backend:
        talk = Talk(backend, tools=(tool("ask_question", ASK_USER_QUESTION),))
        talk.messages.append(user(ask(COLOUR)))
        run = await talk.start()
        reply = await leg(run)
        await run.aclose()
        talk.messages.append(Message(role="assistant", parts=tuple(reply.parts)))
        async with asyncio.timeout(60):
            assert (await talk.ask("say on we go")).text == "on we go "


async def test_a_note_that_may_be_left_out_is_not_asked_for_in_a_turn_of_its_own() -> None:
    form = {
        "properties": {
            "colour": {"type": "string", "title": "Which colour?", "enum": ["red", "blue"]},
            "note": {"type": "string", "title": "Anything else?"},
        },
        "required": ["colour"],
    }
    async with serving(scripted()) as backend:
        talk = Talk(backend)
        question = await talk.ask(f"ask {json.dumps(form)}")
        assert "the first one is enough" in question.text
        assert (await talk.ask("blue")).text == 'accept {"colour": "blue"}'
