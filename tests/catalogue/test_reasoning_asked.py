"""Reasoning, entries 53 and 54: how much thinking is asked for."""

from typing import Any

import pytest

from tests.catalogue.asking import Json, ask, asking, tool, user
from tests.catalogue.crossing import Protocol
from tests.each import each
from tieline.wire import anthropic

BUDGET = {"type": "enabled", "budget_tokens": 2048}
TOOLS: dict[Protocol, list[Json]] = {
    "anthropic": [tool("anthropic", "read")],
    "openai_chat": [tool("openai_chat", "read")],
}
FORCED: list[tuple[Protocol, Any]] = [
    ("anthropic", {"type": "any"}),
    ("anthropic", {"type": "tool", "name": "read"}),
    ("openai_chat", "required"),
    ("openai_chat", {"type": "function", "function": {"name": "read"}}),
]


@pytest.mark.parametrize(("client", "choice"), FORCED)
def test_053_a_forced_tool_switches_a_thinking_budget_off(client: Protocol, choice: Any) -> None:
    body = asking(client, user("go"), tools=TOOLS[client], tool_choice=choice, thinking=BUDGET, max_tokens=9000)
    sent = ask(body, client, "anthropic")
    assert sent.body["thinking"] == {"type": "disabled"}
    assert sent.body["tool_choice"]["type"] in ("any", "tool")
    assert [note.what for note in sent.notes] == ["thinking"]


@pytest.mark.parametrize(("client", "choice"), FORCED)
def test_053_a_forced_tool_goes_with_adaptive_thinking(client: Protocol, choice: Any) -> None:
    asked = {"thinking": {"type": "adaptive"}} if client == "anthropic" else {"reasoning_effort": "high"}
    sent = ask(asking(client, user("go"), tools=TOOLS[client], tool_choice=choice, **asked), client, "anthropic")
    assert sent.body["thinking"] == {"type": "adaptive"}
    assert sent.body["tool_choice"]["type"] in ("any", "tool")


def test_053_an_upstream_without_adaptive_thinking_gets_the_forced_tool_and_no_budget() -> None:
    body = asking(
        "openai_chat", user("go"), tools=TOOLS["openai_chat"], tool_choice="required", reasoning_effort="high"
    )
    sent = ask(body, "openai_chat", "anthropic", anthropic.Dialect(adaptive=False))
    assert sent.body["thinking"] == {"type": "disabled"}
    assert sent.body["tool_choice"] == {"type": "any"}


@pytest.mark.parametrize("choice", [{"type": "auto"}, {"type": "none"}, None], ids=str)
def test_053_a_tool_that_is_not_forced_leaves_the_budget(choice: Any) -> None:
    fields = {"tool_choice": choice} if choice else {}
    body = asking("anthropic", user("go"), tools=TOOLS["anthropic"], thinking=BUDGET, max_tokens=9000, **fields)
    assert ask(body, "anthropic", "anthropic").body["thinking"] == BUDGET


TO_MESSAGES: list[tuple[Protocol, Json, Any, str | None]] = [
    ("anthropic", {"thinking": None}, None, None),
    ("anthropic", {}, None, None),
    ("anthropic", {"thinking": {"type": "disabled"}}, {"type": "disabled"}, None),
    ("anthropic", {"thinking": {"type": "adaptive"}}, {"type": "adaptive"}, None),
    ("anthropic", {"thinking": BUDGET, "max_tokens": 9000}, BUDGET, None),
    ("anthropic", {"thinking": BUDGET, "max_tokens": 2048}, {"type": "enabled", "budget_tokens": 1024}, None),
    ("anthropic", {"thinking": {**BUDGET, "budget_tokens": 1}, "max_tokens": 9000}, 1024, None),
    ("anthropic", {"thinking": BUDGET, "max_tokens": 500}, {"type": "disabled"}, None),
    ("openai_chat", {}, None, None),
    ("openai_chat", {"thinking": None}, None, None),
    ("openai_chat", {"reasoning_effort": None}, None, None),
    ("openai_chat", {"reasoning_effort": "none"}, {"type": "disabled"}, None),
    ("openai_chat", {"reasoning_effort": "minimal"}, {"type": "adaptive"}, "low"),
    ("openai_chat", {"reasoning_effort": "high"}, {"type": "adaptive"}, "high"),
    ("openai_chat", {"thinking": {"type": "disabled"}}, {"type": "disabled"}, None),
    ("openai_chat", {"thinking": BUDGET}, BUDGET, None),
    ("openai_chat", {"thinking": BUDGET, "max_tokens": 1500}, 1024, None),
    ("openai_chat", {"thinking": {"type": "enabled"}}, {"type": "adaptive"}, None),
    ("openai_chat", {"reasoning": {"max_tokens": 3000}}, 3000, None),
    ("openai_chat", {"reasoning": {"enabled": False}}, {"type": "disabled"}, None),
]


@each(("client", "asked", "expected", "effort"), TO_MESSAGES, ids=str)
def test_054_every_way_to_ask_for_thinking_is_one_the_messages_api_takes(
    client: Protocol, asked: Json, expected: Any, effort: str | None
) -> None:
    sent = ask(asking(client, user("go"), **asked), client, "anthropic").body
    if isinstance(expected, int):
        expected = {"type": "enabled", "budget_tokens": expected}
    assert sent.get("thinking") == expected
    assert sent.get("output_config", {}).get("effort") == effort
    if expected and "budget_tokens" in expected:
        assert 1024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"]


TO_CHAT: list[tuple[Protocol, Json, str | None]] = [
    ("anthropic", {"thinking": None}, None),
    ("anthropic", {"thinking": {"type": "disabled"}}, None),
    ("anthropic", {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, None),
    ("anthropic", {"thinking": {"type": "adaptive"}}, None),
    ("anthropic", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "high"),
    ("anthropic", {"thinking": {**BUDGET, "budget_tokens": 1024}}, "low"),
    ("anthropic", {"thinking": {**BUDGET, "budget_tokens": 8000}}, "medium"),
    ("anthropic", {"thinking": {**BUDGET, "budget_tokens": 32000}}, "high"),
    ("openai_chat", {"reasoning_effort": None}, None),
    ("openai_chat", {"reasoning_effort": "xhigh"}, "xhigh"),
    ("openai_chat", {"reasoning_effort": "none"}, "none"),
]


@each(("client", "asked", "expected"), TO_CHAT, ids=str)
def test_054_every_way_to_ask_for_thinking_is_one_chat_completions_takes(
    client: Protocol, asked: Json, expected: str | None
) -> None:
    sent = ask(asking(client, user("go"), **asked), client, "openai_chat").body
    assert sent.get("reasoning_effort") == expected
    assert not sent.keys() & {"thinking", "output_config"}


@pytest.mark.parametrize("asked", [{"thinking": BUDGET}, {"reasoning": {"effort": "low"}}], ids=str)
def test_054_a_chat_client_that_speaks_its_upstreams_own_way_is_passed_on(asked: Json) -> None:
    sent = ask(asking("openai_chat", user("go"), **asked), "openai_chat", "openai_chat").body
    assert {name: sent.get(name) for name in asked} == asked
    assert "reasoning_effort" not in sent
