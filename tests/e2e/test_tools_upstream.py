"""Tools of the gateway with models behind real protocols: what the upstream is offered, and what it gets back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cases import leg
from tests.e2e.tools_support import DIALECTS, STREAMED_OR_WHOLE, Dialect, serving, whole
from tieline.app.config import UpstreamSettings
from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import Event, StopReason, Usage
from tieline.sim.answers import PATHS, streamed
from tieline.sim.answers import whole as in_one_piece
from tieline.sim.model import Answer, ModelServer, Received

MODEL = "test-model"
KINDS = pytest.mark.parametrize("kind", ["openai", "anthropic"])
PLAN = {"title": "Say hello", "plan": "Write it."}


def calls(name: str, call_id: str, **arguments: Any) -> list[Event]:
    called: tuple[Part, list[str]] = (ToolCall(id=call_id, name=name), [json.dumps(arguments)])
    return leg((Text(), ["One moment."]), called, reason=StopReason.TOOL_USE, usage=Usage(input=10, output=1))


def as_asked(kind: Dialect, events: list[Event]) -> Callable[[Received], Answer]:
    return lambda request: (streamed if request.json.get("stream") else in_one_piece)(kind, events)


def upstream(kind: Dialect, url: str) -> UpstreamSettings:
    base = f"{url}/v1" if kind == "openai" else url
    return UpstreamSettings(kind=kind, base_url=base, models=(MODEL,), retries=0)


def offered(body: Any) -> set[str]:
    """The names of the tools in a request."""
    return {tool["function"]["name"] if "function" in tool else tool["name"] for tool in body.get("tools", ())}


def given_back(body: Any) -> str:
    """What the last message of a request brings."""
    return json.dumps(body["messages"][-1])


@KINDS
@DIALECTS
@STREAMED_OR_WHOLE
async def test_an_upstream_plans_is_approved_gets_every_tool_and_all_results(
    tmp_path: Path, kind: Dialect, dialect: Dialect, stream: bool
) -> None:
    legs = [
        calls("create_plan", "call_1", **PLAN),
        calls("write_file", "call_2", path="a.txt", content="hello"),
        leg((Text(), ["It is ", "done."]), usage=Usage(input=30, output=5)),
    ]
    async with ModelServer() as server:
        server.script(PATHS[kind], *(as_asked(kind, events) for events in legs))
        async with serving(tmp_path, upstreams={"up": upstream(kind, server.url)}) as stand:
            telling = stand.begin(dialect, "Say hello", stream=stream, model=f"up/{MODEL}?mode=plan")
            await stand.decide(approved=True)
            await stand.decide(option="allow")
            told = await whole(telling)
            assert (stand.root / "a.txt").read_text() == "hello"
        first, second, third = (request.json for request in server.requests)
    assert told.is_over
    assert told.text == "One moment.\n\nOne moment.\n\nIt is done."
    assert {"read_file", "create_plan"} <= offered(first)
    assert "write_file" not in offered(first)
    assert {"read_file", "write_file", "run_terminal"} <= offered(second) == offered(third)
    assert {request["model"] for request in (first, second, third)} == {MODEL}
    assert "The plan is approved" in given_back(second)
    assert "Created `a.txt`" in given_back(third)
    assert len(third["messages"]) > len(second["messages"]) > len(first["messages"])


@KINDS
async def test_in_chat_an_upstream_is_offered_nothing(tmp_path: Path, kind: Dialect) -> None:
    async with ModelServer() as server:
        server.script(PATHS[kind], as_asked(kind, leg((Text(), ["Hi."]))))
        async with serving(tmp_path, upstreams={"up": upstream(kind, server.url)}) as stand:
            told = await stand.tell("openai", "Hi", model=f"up/{MODEL}?mode=chat")
        assert offered(server.requests[0].json) == set()
    assert told.text == "Hi."


async def test_signed_thinking_goes_back_with_the_results_and_what_was_shown_does_not(tmp_path: Path) -> None:
    """The upstream refuses a turn whose thinking is missing or altered."""
    thought: tuple[Part, list[str]] = (Thinking(signature="c2ln"), ["I should look."])
    looks: tuple[Part, list[str]] = (ToolCall(id="call_1", name="list_directory"), ["{}"])
    legs = [leg(thought, looks, reason=StopReason.TOOL_USE), leg((Text(), ["Nothing there."]))]
    async with ModelServer() as server:
        server.script(PATHS["anthropic"], *(as_asked("anthropic", events) for events in legs))
        async with serving(tmp_path, upstreams={"up": upstream("anthropic", server.url)}) as stand:
            told = await stand.tell("anthropic", "Look", model=f"up/{MODEL}")
        second = server.requests[1].json
    (said,) = (message for message in second["messages"] if message["role"] == "assistant")
    assert said["content"][0] == {"type": "thinking", "thinking": "I should look.", "signature": "c2ln"}
    assert "▸" not in json.dumps(second, ensure_ascii=False)
    assert told.thinking.startswith("I should look.\n\n▸ list_directory\n")
