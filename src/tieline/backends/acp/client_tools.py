"""Recognises calls to the client's own tools among the calls that an agent reports.

Agents write the name of such a tool in many ways: `mcp__tieline__get_weather` (Claude, Kimi), `tieline_get_weather`
(OpenCode), `tieline-get_weather` (Copilot), `mcp.tieline.get_weather` (Codex), `tieline: get weather` (Goose),
`get_weather (tieline MCP Server)` (Gemini). Qwen uses the arguments as the title and reports the name separately.
Agents also disagree about the ACP kind of such a call.

The client receives a recognised call as a tool call, so the call is not shown as an activity. It is allowed without
asking the user, because the client itself decides whether to run its tool. A matching title is not enough to allow a
call: in some agents, the model writes the title of a shell command. So a call is allowed only in three cases: the
tool's name is in a field that only the agent writes; the title matches and the agent reports the call as an MCP call;
or the title matches, the call is of a kind that runs no command and changes no file, and it has no arguments other than
those of the tool.
"""

import re
from collections.abc import Collection, Mapping

from tieline.backends.acp.catalogue import NAME
from tieline.backends.acp.fact_events import given_input
from tieline.backends.acp.settings import INPUT
from tieline.model.request import ToolSpec
from tieline.wire.acp import facts
from tieline.wire.shared.capabilities.schema import load

_RISKY = frozenset(["execute", "edit", "delete", "move", "switch_mode"])
_NO_LETTERS = re.compile(r"[^a-z0-9]+")
_CALL_FIELDS = frozenset(["server", "tool", "arguments"])
"""The names of the fields in which Codex reports the input of an MCP call."""


def is_shown_as_call(call: facts.AgentCall, tools: Mapping[str, ToolSpec]) -> bool:
    """Return whether the client receives this call as a call to one of its tools. If so, no activity is shown."""
    if _has_effects(call):
        return False
    if may_be_allowed(call, tools):
        return True
    return call.kind not in _RISKY and (_named(call.title, tools) is not None or _mentions(call, tools))


def may_be_allowed(call: facts.AgentCall, tools: Mapping[str, ToolSpec]) -> bool:
    """Return whether this is certainly a call to one of the client's tools. If so, the user need not be asked."""
    if _has_effects(call):
        return False
    if any(_named(name, tools) is not None for name in (call.name, call.tool)):
        return True
    tool = _named(call.title, tools)
    if tool is None:
        return False
    given = given_input(call).fields
    if call.kind in _RISKY:
        return call.is_mcp or (given.get("server") == NAME and given.keys() <= _CALL_FIELDS)
    return given.keys() <= set(_parameters(tools[tool]))


def _has_effects(call: facts.AgentCall) -> bool:
    """Return whether a call reports file changes or terminals. A call to a client's tool never does."""
    return bool(call.diffs or call.terminals)


def _named(text: str, tools: Collection[str]) -> str | None:
    """Return the tool that `text` names, in any of the spellings that agents use, or None if it names no tool."""
    letters = _letters(text)
    for tool in tools:
        name = _letters(tool)
        if letters in (f"{NAME}{name}", f"mcp{NAME}{name}", f"{name}{NAME}mcpserver"):
            return tool
    return None


def _mentions(call: facts.AgentCall, tools: Collection[str]) -> bool:
    """Return whether the name and title of a call, taken together, contain the MCP server's name and a tool's name."""
    name = f"{call.name} {call.title}".lower()
    return NAME in name and any(tool.lower() in name for tool in tools)


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text.lower())


def _parameters(spec: ToolSpec) -> Collection[str]:
    if spec.freeform:
        return {INPUT}
    properties = load(spec.schema).get("properties")
    return properties.keys() if isinstance(properties, dict) else ()
