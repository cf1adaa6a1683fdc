"""The demo model consults the user: with a plan to review, or with a question."""

import json

import pytest

from tests.cases import says
from tieline.demo.decision import decide
from tieline.demo.reply_steps import CallTool, Say
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.request import Request, ToolChoice, ToolSpec
from tieline.tools.planning import SPECS
from tieline.tools.todos import TODO_WRITE

PLANNING = (*SPECS, TODO_WRITE.spec)


def steps(words: str, *history: Message, tools: tuple[ToolSpec, ...] = PLANNING) -> list[CallTool | Say]:
    request = Request(model="m", messages=(says("user", words), *history), tools=tools)
    return [step for step in decide(request).steps if isinstance(step, CallTool | Say)]


def calls(words: str, *history: Message, tools: tuple[ToolSpec, ...] = PLANNING) -> list[CallTool]:
    return [step for step in steps(words, *history, tools=tools) if isinstance(step, CallTool)]


def said(words: str, *history: Message) -> str:
    return "".join(step.text for step in steps(words, *history) if isinstance(step, Say))


def after(call: CallTool, result: str, *, is_error: bool = False) -> tuple[Message, Message]:
    asked = ToolCall(id="1", name=call.name, arguments=call.arguments)
    given = ToolResult(call_id="1", content=(Text(text=result),), is_error=is_error)
    return Message(role="assistant", parts=(asked,)), Message(role="user", parts=(given,))


@pytest.mark.parametrize(
    ("words", "question", "options"),
    [
        ("Ask me: which tea? Assam, Sencha or Oolong", "Which tea?", ["Assam", "Sencha", "Oolong"]),
        ("ask me: Tea or coffee? tea or coffee.", "Tea or coffee?", ["tea", "coffee"]),
        ("Ask me about the garden", "What should I know about the garden?", None),
        ("ask me a question", "What should I know about your project?", None),
        ("please ask me: how are you?", "How are you?", None),
        ("ask me: same? a, a", "What should I know about same? a, a?", None),
    ],
)
def test_a_question_has_the_options_that_were_named(words: str, question: str, options: list[str] | None) -> None:
    (call,) = calls(words)
    arguments = json.loads(call.arguments)
    assert (call.name, arguments["question"]) == ("ask_question", question)
    assert [option["label"] for option in arguments.get("options", [])] == (options or [])
    assert arguments["kind"] == ("choice" if options else "text")


def test_the_answer_to_a_question_is_used() -> None:
    words = "Ask me: which tea? Assam or Sencha"
    (call,) = calls(words)
    assert "**Sencha**" in said(words, *after(call, "The user answered: Sencha"))
    assert "did not answer" in said(words, *after(call, "The user declined to answer.", is_error=True))


def test_a_plan_names_its_steps_and_does_nothing_else() -> None:
    (call,) = calls("Make a plan: read a.txt, then write hello to b.txt")
    plan = json.loads(call.arguments)
    assert call.name == "create_plan"
    assert [todo["content"] for todo in plan["todos"]] == ["Read a.txt", "Write b.txt"]
    assert plan["title"] == "Read a.txt, then write b.txt"


def test_a_plan_that_cannot_be_carried_out_says_which_step() -> None:
    words = "Make a plan: read a.txt"
    (call,) = calls(words)
    assert "no tool here can do this step (Read a.txt)" in said(words, *after(call, "The plan is approved."))


def test_a_plan_without_known_steps_lists_the_files() -> None:
    (call,) = calls("Make a plan for a garden")
    assert [todo["content"] for todo in json.loads(call.arguments)["todos"]] == ["List the files"]


@pytest.mark.parametrize("words", ["Make a plan: read a.txt", "Ask me about the garden"])
def test_without_the_tools_for_it_nobody_is_consulted(words: str) -> None:
    assert calls(words, tools=()) == []
    request = Request(model="m", messages=(says("user", words),), tools=PLANNING, tool_choice=ToolChoice(mode="none"))
    assert not [step for step in decide(request).steps if isinstance(step, CallTool)]
