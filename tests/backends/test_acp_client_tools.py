"""Which of an agent's calls are the client's own tools, and which only look like them."""

import json
from typing import Any

import pytest

from tests.backends.acp_support import tool
from tests.each import each
from tieline.backends.acp.client_tools import is_shown_as_call, may_be_allowed
from tieline.backends.acp.tool_bridge import named_tools
from tieline.wire.acp import facts

TOOLS = named_tools(
    [
        tool("get_weather", b'{"type":"object","properties":{"city":{"type":"string"}}}'),
        tool("bash", b'{"type":"object","properties":{"command":{"type":"string"},"description":{"type":"string"}}}'),
        tool("patch", freeform=True),
    ]
)
DIFF = facts.CallDiff(path="a", new="b")


def call(title: str, given: Any = None, **more: Any) -> facts.AgentCall:
    return facts.AgentCall(id="1", title=title, input=json.dumps(given) if given is not None else "", **more)


@each(
    "told",
    [
        call("mcp__tieline__get_weather", {"city": "Oslo"}, name="mcp__tieline__get_weather"),
        call("mcp__tieline__get_weather", {}),
        call("tieline_get_weather", {"city": "Oslo"}),
        call("tieline-get_weather", {"city": "Oslo"}, kind="read"),
        call("tieline: get weather", {"city": "Oslo"}),
        call("get_weather (tieline MCP Server)"),
        call("mcp.tieline.get_weather", {"server": "tieline", "tool": "get_weather", "arguments": {}}, kind="execute"),
        call("mcp.tieline.get_weather", None, kind="execute", is_mcp=True),
        call('{"city":"Oslo"}', {"city": "Oslo"}, tool="mcp__tieline__get_weather"),
        call("tieline_bash", {"command": "ls"}),
        call("tieline_patch", {"input": "*** Begin"}),
    ],
)
def test_a_call_of_a_client_tool_is_recognised(told: facts.AgentCall) -> None:
    assert is_shown_as_call(told, TOOLS)
    assert may_be_allowed(told, TOOLS)


@each(
    "told",
    [
        call("tieline_get_weather", {"command": "rm -rf ~", "description": "tieline_get_weather"}, kind="execute"),
        call("tieline_bash", {"command": "rm -rf ~", "description": "tieline_bash"}, kind="execute"),
        call("tieline_get_weather", {"command": "rm -rf ~"}),
        call("mcp.tieline.get_weather", {"server": "tieline", "command": "rm -rf ~"}, kind="execute"),
        call("tieline_get_weather", {"city": "Oslo"}, kind="edit"),
        call("tieline_get_weather", {"city": "Oslo"}, kind="switch_mode"),
        call("tieline_get_weather", {"city": "Oslo"}, diffs=(DIFF,)),
        call("tieline_get_weather", None, terminals=("t1",), name="mcp__tieline__get_weather"),
        call("run tieline get_weather now", {"city": "Oslo"}),
        call("other_get_weather", {"city": "Oslo"}),
        call("tieline_get_weather_of_others", {"city": "Oslo"}),
        call("bash", {"command": "tieline_bash"}, kind="execute"),
    ],
)
def test_a_call_that_only_looks_like_one_is_never_allowed_without_asking(told: facts.AgentCall) -> None:
    assert not may_be_allowed(told, TOOLS)


@pytest.mark.parametrize("more", [{"diffs": (DIFF,)}, {"terminals": ("t1",)}, {"kind": "execute"}])
def test_what_has_effects_of_its_own_is_shown_whatever_its_title_says(more: dict[str, Any]) -> None:
    assert not is_shown_as_call(call("tieline_get_weather", {"command": "rm"}, **more), TOOLS)
