"""Words as people and clients really say them to the demo model."""

import pytest

from tests.cases import says
from tieline.demo.decision import decide
from tieline.demo.reply_steps import CallTool, Say, Step
from tieline.model.content import Text, ToolCall, ToolResult
from tieline.model.request import Request, ToolSpec


def tool(name: str, *properties: str) -> ToolSpec:
    kinds = ",".join(f'"{name}":{{"type":"string"}}' for name in properties)
    names = ",".join(f'"{name}"' for name in properties)
    return ToolSpec(name=name, schema=f'{{"type":"object","properties":{{{kinds}}},"required":[{names}]}}'.encode())


TOOLS = (tool("read", "path"), tool("write", "path", "content"), tool("bash", "command"))


def steps(words: str, *results: str, tools: tuple[ToolSpec, ...] = TOOLS) -> tuple[Step, ...]:
    """What is done about the words, after each of the results came back in a round of its own."""
    messages = [says("user", words)]
    for index, result in enumerate(results):
        call = ToolCall(id=f"call_{index}", name="tool")
        messages.append(says("assistant", call))
        messages.append(says("user", ToolResult(call_id=call.id, content=(Text(text=result),))))
    return decide(Request(model="scripted", messages=tuple(messages), tools=tools)).steps


def calls(words: str, *results: str, tools: tuple[ToolSpec, ...] = TOOLS) -> list[tuple[str, str]]:
    return [(step.name, step.arguments) for step in steps(words, *results, tools=tools) if isinstance(step, CallTool)]


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ('"run: ls -la"', '{"command":"ls -la"}'),
        (r'"run: grep \"a b\" x.txt"', r'{"command":"grep \"a b\" x.txt"}'),
    ],
)
def test_words_that_a_client_hands_on_as_one_quoted_argument_are_understood(words: str, arguments: str) -> None:
    """Seen: `opencode run` puts its argument in quotes when there is a space in it."""
    assert calls(words) == [("bash", arguments)]


@pytest.mark.parametrize("words", ["write hello to a.txt, then read it back", "write hello to a.txt and read it"])
def test_it_can_be_told_to_read_back_what_it_wrote(words: str) -> None:
    assert calls(words) == [("write", '{"path":"a.txt","content":"hello"}')]
    assert calls(words, "Wrote it.") == [("read", '{"path":"a.txt"}')]


def test_several_calls_are_announced_as_one_sentence() -> None:
    assert steps("read a.txt and b.txt")[0] == Say(text="I will read a.txt and read b.txt.")


def test_a_client_can_insist_on_a_tool() -> None:
    """Seen: Claude Code with a schema for the answer, when the model has answered in words."""
    words = "[structured-output-enforce] You MUST call the Answer tool to complete this request. Call this tool now."
    [(name, arguments)] = calls(words, tools=(tool("Answer", "city"),))
    assert name == "Answer"
    assert arguments.startswith('{"city":"')


def test_a_request_for_a_commit_message_gets_one() -> None:
    """Seen: aider commits every change, under whatever the model answers."""
    system = says("system", "You are an expert that generates concise, one-line Git commit messages from diffs.")
    diff = says(
        "user", "# Chat:\nUSER: write hi to a.txt\n\ndiff --git a/a.txt b/a.txt\n--- /dev/null\n+++ b/a.txt\n+hi\n"
    )
    answer = decide(Request(model="scripted", messages=(system, diff)))
    assert answer.steps == (Say(text="Update a.txt"),)
