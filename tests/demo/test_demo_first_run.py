"""The demo model on the first run: what the page suggests does something, or says what to do."""

import pytest

from tests.cases import says
from tests.demo.test_demo import CLAUDE_CODE, OPENCODE, QWEN
from tieline.app.build import page
from tieline.demo.decision import decide
from tieline.demo.reply_steps import CallTool, DemoReply, Say
from tieline.model.content import Message, Text, ToolCall, ToolResult
from tieline.model.request import Request, ToolSpec

HELP = "I am Tieline's demo model"
README = "# Shop\n\n[![build](x)](y)\n\nA small shop for tea.\nIt sells three kinds.\n\n```sh\nmake run\n```\n"


def answer(words: str, *history: Message, tools: tuple[ToolSpec, ...] = ()) -> DemoReply:
    return decide(Request(model="m", messages=(says("user", words), *history), tools=tools))


def said(found: DemoReply) -> str:
    return "".join(step.text for step in found.steps if isinstance(step, Say))


def called(found: DemoReply) -> list[CallTool]:
    return [step for step in found.steps if isinstance(step, CallTool)]


def round_of(call: CallTool, result: str, call_id: str) -> tuple[Message, Message]:
    asked = ToolCall(id=call_id, name=call.name, arguments=call.arguments)
    return (
        Message(role="assistant", parts=(asked,)),
        Message(role="user", parts=(ToolResult(call_id=call_id, content=(Text(text=result),)),)),
    )


@pytest.mark.parametrize("tools", [OPENCODE, CLAUDE_CODE, QWEN], ids=["opencode", "claude code", "qwen"])
def test_a_project_is_explained_by_its_files(tools: tuple[ToolSpec, ...]) -> None:
    words = "Explain what this project does"
    (listing,) = called(answer(words, tools=tools))
    first = round_of(listing, "src\nREADME.md\nMakefile", "1")
    (reading,) = called(answer(words, *first, tools=tools))
    assert "README.md" in reading.arguments
    told = said(answer(words, *first, *round_of(reading, README, "2"), tools=tools))
    assert "**Shop**" in told
    assert "A small shop for tea. It sells three kinds." in told
    assert "`src`" in told
    assert HELP not in told


def test_a_project_without_a_readme_is_listed() -> None:
    words = "What does this repository do?"
    (listing,) = called(answer(words, tools=OPENCODE))
    found = answer(words, *round_of(listing, "main.c\nMakefile", "1"), tools=OPENCODE)
    assert called(found) == []
    assert "`main.c` and `Makefile`" in said(found)


def test_a_project_that_cannot_be_seen_is_a_reason_to_say_what_to_do() -> None:
    told = said(answer("Explain what this project does"))
    assert "tieline serve --tools" in told


@pytest.mark.parametrize("words", page.CODING + page.DEMO[1:] + page.DEMO_WITH_TOOLS[:1])
def test_no_suggestion_is_answered_with_the_general_help(words: str) -> None:
    assert HELP not in said(answer(words))


@pytest.mark.parametrize("words", page.DEMO_WITH_TOOLS)
def test_with_tools_every_suggestion_for_the_demo_model_uses_them(words: str) -> None:
    assert called(answer(words, tools=OPENCODE))


def test_what_takes_a_real_model_is_said_with_the_ways_to_get_one() -> None:
    told = said(answer("Find out why a test fails, and fix it", tools=OPENCODE))
    assert "`run: pytest`" in told
    assert "ANTHROPIC_API_KEY" in told
    assert "ANTHROPIC_API_KEY" in said(answer("How do I connect a real model?"))
    assert "--tools" in said(answer("How do I let models read and change files here?"))
