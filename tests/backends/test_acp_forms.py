"""Questions in words: how they are put, how answers are read, and how a client's own tool is asked instead."""

import json
from typing import Any

import pytest

from tests.backends.acp_support import tool
from tests.each import each
from tieline.backends.acp.forms import AgentQuestion, question_of
from tieline.backends.acp.interview import Interview, InterviewOutcome
from tieline.model.content import Text, ToolResult
from tieline.model.inbox import Field, Option, Question, QuestionAnswer
from tieline.wire.acp import facts
from tieline.wire.shared.questions.client_tool import call_for, read_result
from tieline.wire.shared.questions.text import (
    AnswerSkipped,
    UnclearAnswer,
    merge_custom_fields,
    parse_answer,
    parse_answers,
    question_text,
    split_custom_fields,
)

FRUIT = (
    Option(id="a", label="Apples", description="red or green"),
    Option(id="b", label="Blood oranges"),
    Option(id="c", label="Cherries"),
)
ONE = Field(name="fruit", kind="choice", title="Which fruit?", required=True, options=FRUIT)
MANY = Field(name="fruit", kind="choice", title="Which fruit?", required=True, options=FRUIT, many=True)
OPEN = Field(name="fruit", kind="choice", title="Which fruit?", required=True, options=FRUIT, is_open=True)
YES_NO = Field(name="sure", kind="yes_no", title="Are you sure?", required=True)
NUMBER = Field(name="size", kind="number", title="How large?", required=True, minimum=1, maximum=10)
WHOLE = Field(name="size", kind="number", title="How many?", required=True, is_whole=True)
WORDS = Field(name="name", title="A name?", required=True)
MAYBE = Field(name="note", title="A note?")


@each(
    ("field", "words", "value"),
    [
        (ONE, "1", "a"),
        (ONE, " 2) ", "b"),
        (ONE, "cherries.", "c"),
        (ONE, "b", "b"),
        (ONE, "blood", "b"),
        (ONE, "I would like cherries, please", "c"),
        (MANY, "1, cherries", ["a", "c"]),
        (MANY, "apples and blood oranges", ["a", "b"]),
        (MANY, "2", ["b"]),
        (OPEN, "3", "c"),
        (OPEN, "not apples but pears", "not apples but pears"),
        (YES_NO, "Yes, go ahead", True),
        (YES_NO, "nope", False),
        (NUMBER, "about 4.5 metres", 4.5),
        (NUMBER, "7", 7),
        (NUMBER, "2,5", 2.5),
        (NUMBER, "3, perhaps 4", 3),
        (WHOLE, "1,000", 1000),
        (WHOLE, "about 12 000 000", 12_000_000),
        (WHOLE, "-2", -2),
        (WORDS, "Ada Lovelace", "Ada Lovelace"),
        (Field(name="n", kind="number", default=3), "", 3),
    ],
)
def test_words_are_taken_as_what_they_mean(field: Field, words: str, value: Any) -> None:
    assert parse_answer(words, field) == value


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (ONE, "9"),
        (ONE, "pears"),
        (YES_NO, "perhaps"),
        (NUMBER, "11"),
        (NUMBER, "large"),
        (WHOLE, "1.5"),
        (Field(name="size", kind="number", required=True), "9" * 400),
    ],
)
def test_words_that_are_no_answer_are_told_what_one_would_be(field: Field, words: str) -> None:
    with pytest.raises(UnclearAnswer, match="Please"):
        parse_answer(words, field)


@pytest.mark.parametrize(("field", "words"), [(ONE, "skip"), (YES_NO, "cancel"), (WORDS, ""), (MAYBE, "none")])
def test_nobody_has_to_answer(field: Field, words: str) -> None:
    with pytest.raises(AnswerSkipped):
        parse_answer(words, field)


def test_several_fields_are_answered_by_as_many_lines_or_the_first_by_all_the_words() -> None:
    fields = [WORDS, NUMBER, MAYBE]
    assert parse_answers("1. Ada\n2. 5\n3. skip", fields) == ({"name": "Ada", "size": 5}, 3)
    assert parse_answers("Ada", fields) == ({"name": "Ada"}, 1)
    assert parse_answers("Ada\nfive\nx", fields) == ({"name": "Ada\nfive\nx"}, 1)


def test_a_question_is_written_with_its_options_and_what_an_answer_must_be_like() -> None:
    text = question_text(Question(message="Shopping"), [MANY, NUMBER, YES_NO, MAYBE])
    assert text == (
        "Shopping\n\n"
        "1. Which fruit?\n  1) Apples: red or green\n  2) Blood oranges\n  3) Cherries\n(one or more, with commas)\n\n"
        "2. How large?\n(a number from 1 up to 10)\n\n"
        "3. Are you sure?\n(yes or no)\n\n"
        "4. A note?\n(or skip it)\n\n"
        "Please answer each question on its own line; I will ask again for missing answers."
    )


def test_a_choice_and_its_field_for_other_words_are_one_question() -> None:
    custom = Field(name="fruit_custom", title="Other")
    form = Question(message="", fields=(ONE, custom))
    (field,) = merge_custom_fields(form).fields
    assert field.is_open
    assert split_custom_fields({"fruit": "a"}, form) == {"fruit": "a"}
    assert split_custom_fields({"fruit": "pears"}, form) == {"fruit_custom": "pears"}
    many = Question(message="", fields=(MANY, custom))
    assert split_custom_fields({"fruit": ["a", "pears"]}, many) == {"fruit": ["a"], "fruit_custom": "pears"}
    assert merge_custom_fields(Question(message="", fields=(ONE, WORDS))).fields == (ONE, WORDS)


def test_an_agents_question_becomes_a_form() -> None:
    asked = facts.QuestionAsked(
        number=7,
        session="s",
        message="Well?",
        fields=(
            facts.QuestionField(name="a", kind="choices", choices=(facts.NamedChoice(id="x"),), default=("x",)),
            facts.QuestionField(name="b", kind="integer", minimum=1),
            facts.QuestionField(name="c", kind="boolean", required=True),
            facts.QuestionField(name="d", kind="text", format="file-path"),
        ),
    )
    question = question_of(asked)
    first, second, third, fourth = question.form.fields
    assert (first.kind, first.many, first.default, first.options) == (
        "choice",
        True,
        ["x"],
        (Option(id="x", label="x"),),
    )
    assert (second.kind, second.is_whole, second.minimum) == ("number", True, 1)
    assert (third.kind, third.required, fourth.kind) == ("yes_no", True, "file")


# ── interviews ───────────────────────────────────────────────────────────────────────────────────


def test_questions_are_put_one_after_the_other_and_a_withdrawn_one_makes_room() -> None:
    interview = Interview()
    first, second = (
        AgentQuestion(1, Question(message="A", fields=(WORDS,))),
        AgentQuestion(2, Question(message="B", fields=(YES_NO,))),
    )
    interview.add(first)
    interview.add(second)
    assert interview.text().startswith("A")
    assert interview.withdraw(1)
    assert interview.text().startswith("B")
    assert interview.answer("yes") == InterviewOutcome(second, QuestionAnswer(values={"sure": True}))
    assert not interview
    assert not interview.withdraw(2)


def test_what_is_no_answer_twice_is_declined_and_kept_as_words() -> None:
    interview = Interview()
    question = AgentQuestion(1, Question(message="", fields=(ONE,)))
    interview.add(question)
    interview.text()
    assert interview.answer("pears") is None
    assert interview.text().startswith("Please choose one of: Apples")
    outcome = interview.answer("I said pears")
    assert outcome == InterviewOutcome(
        question, QuestionAnswer(action="decline", reason="I said pears"), "I said pears"
    )


@pytest.mark.parametrize(
    ("words", "action", "rest"), [("done", "accept", ""), ("no", "decline", ""), ("why?", "decline", "why?")]
)
def test_an_address_is_consented_to_or_not(words: str, action: str, rest: str) -> None:
    interview = Interview()
    interview.add(AgentQuestion(1, Question(message="Log in", url="https://a.b"), "e1"))
    assert "https://a.b" in interview.text()
    outcome = interview.answer(words)
    assert outcome is not None
    assert (outcome.filled.action, outcome.text) == (action, rest)


def test_a_question_with_an_address_is_found_by_the_id_that_the_agent_gave_it() -> None:
    interview = Interview()
    first = AgentQuestion(1, Question(message="A", fields=(WORDS,)))
    second = AgentQuestion(2, Question(message="Log in", url="https://a.b"), "e1")
    interview.add(first)
    interview.add(second)
    assert [interview.find(name) for name in ("e1", "other", "")] == [second, None, None]


# ── a client's own tool ──────────────────────────────────────────────────────────────────────────

FORM = Question(message="Shopping", fields=(MANY, YES_NO))


def schema(**properties: Any) -> bytes:
    return json.dumps({"type": "object", "properties": properties, "required": list(properties)}).encode()


TEXT = {"type": "string"}
STRINGS = {"type": "array", "items": TEXT}


@pytest.mark.parametrize(
    ("name", "rule", "form", "expected"),
    [
        (
            "ask_question",
            schema(questions={"type": "array", "items": json.loads(schema(id=TEXT, prompt=TEXT, options=STRINGS))}),
            FORM,
            {
                "questions": [
                    {"prompt": "Which fruit?", "id": "fruit", "options": ["Apples", "Blood oranges", "Cherries"]},
                    {"prompt": "Are you sure?", "id": "sure", "options": ["Yes", "No"]},
                ]
            },
        ),
        (
            "ask-user",
            schema(question=TEXT, suggestions=STRINGS, urgent={"type": "boolean"}),
            Question(message="Shopping", fields=(YES_NO,)),
            {"question": "Shopping\nAre you sure?", "suggestions": ["Yes", "No"], "urgent": False},
        ),
        ("AskUser", schema(text=TEXT), Question(message="", fields=(WORDS,)), {"text": "A name?"}),
        (
            "ask_followup_question",
            schema(question=TEXT, follow_up=STRINGS),
            Question(message="", fields=(WORDS,)),
            {"question": "A name?", "follow_up": []},
        ),
        ("ask_user", schema(questions=STRINGS), Question(message="", fields=(WORDS,)), {"questions": ["A name?"]}),
    ],
)
def test_the_question_is_put_as_the_tool_wants_it(name: str, rule: bytes, form: Question, expected: Any) -> None:
    call = call_for(form, [tool("other"), tool(name, rule)])
    assert call is not None
    assert (call.name, json.loads(call.arguments)) == (name, expected)


def test_a_client_without_such_a_tool_is_not_asked() -> None:
    assert call_for(FORM, [tool("read_file"), tool("ask_user", schema(n={"type": "integer"}))]) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            '{"answers": {"Which fruit?": ["Apples", "Cherries"], "Are you sure?": "Yes"}}',
            {"fruit": ["a", "c"], "sure": True},
        ),
        (
            '[{"id": "fruit", "selectedOptionIds": ["b"]}, {"id": "sure", "answer": false}]',
            {"fruit": ["b"], "sure": False},
        ),
        ('You said: "Which fruit?"="Apples, Cherries", "Are you sure?"="No".', {"fruit": ["a", "c"], "sure": False}),
        ("1, 2\nyes", {"fruit": ["a", "b"], "sure": True}),
        ('{"fruit": "Cherries"}', {"fruit": ["c"]}),
    ],
)
def test_answers_are_found_in_whatever_a_tool_returns(text: str, values: dict[str, Any]) -> None:
    result = ToolResult(call_id="c", content=(Text(text=text),))
    assert read_result(result, FORM) == QuestionAnswer(values=values)


@pytest.mark.parametrize(("text", "is_error"), [("dismissed", True), ("{}", False), ("what?", False)])
def test_what_answers_nothing_declines(text: str, is_error: bool) -> None:
    result = ToolResult(call_id="c", content=(Text(text=text),), is_error=is_error)
    assert read_result(result, Question(message="", fields=(ONE,))).action == "decline"


@pytest.mark.parametrize(("text", "action"), [("Yes", "accept"), ('{"answer":"no"}', "decline")])
def test_an_address_is_asked_about_as_a_yes_or_no(text: str, action: str) -> None:
    form = Question(message="Log in", url="https://a.b")
    call = call_for(form, [tool("ask_user", schema(question=TEXT, options=STRINGS))])
    assert call is not None
    assert "https://a.b" in json.loads(call.arguments)["question"]
    assert read_result(ToolResult(call_id="c", content=(Text(text=text),)), form).action == action
