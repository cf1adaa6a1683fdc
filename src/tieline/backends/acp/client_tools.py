"""Recognises calls of the client's own tools among the calls that an agent reports.

Agents spell the name of such a tool in many ways: `mcp__tieline__get_weather` (Claude, Kimi), `tieline_get_weather`
(OpenCode), `tieline-get_weather` (Copilot), `mcp.tieline.get_weather` (Codex), `tieline: get weather` (Goose),
`get_weather (tieline MCP Server)` (Gemini); Qwen tells it only beside a title that is the arguments. Kinds differ too.

A recognised call is shown as the tool call that its client gets, and not as something the agent did. Its permission is
given without asking, because the client decides when it is called. That needs more than a title: some agents let the
model word the title of a shell command. So the name has to stand where only the agent writes, or the call must be one
that could not run a command or change a file by itself, with the arguments of that very tool.
"""

import re
from collections.abc import Collection, Mapping

from tieline.backends.acp.activity import given_input
from tieline.backends.acp.catalogue import NAME
from tieline.backends.acp.settings import INPUT
from tieline.model.request import ToolSpec
from tieline.wire.acp import facts
from tieline.wire.shared.capabilities.schema import load

_RISKY = frozenset(["execute", "edit", "delete", "move", "switch_mode"])
_NO_LETTERS = re.compile(r"[^a-z0-9]+")
_CALL_FIELDS = frozenset(["server", "tool", "arguments"])
"""How Codex tells the input of an MCP call."""


def is_shown_as_call(call: facts.Call, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether the client sees this call as its own: it gets a tool call, so nothing else is shown."""
    if _has_effects(call):
        return False
    if may_be_allowed(call, tools):
        return True
    return call.kind not in _RISKY and (_named(call.title, tools) is not None or _mentions(call, tools))


def may_be_allowed(call: facts.Call, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether this is certainly a call of one of these tools, so that its permission is for the client to decide."""
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


def _has_effects(call: facts.Call) -> bool:
    """Whether a call does something by itself, which one that only reaches an MCP server does not."""
    return bool(call.diffs or call.terminals)


def _named(said: str, tools: Collection[str]) -> str | None:
    """The tool that is meant by a name or title, if that names nothing else."""
    letters = _letters(said)
    for tool in tools:
        name = _letters(tool)
        if letters in (f"{NAME}{name}", f"mcp{NAME}{name}", f"{name}{NAME}mcpserver"):
            return tool
    return None


def _mentions(call: facts.Call, tools: Collection[str]) -> bool:
    """Whether the server and a tool stand somewhere in the name or title."""
    said = f"{call.name} {call.title}".lower()
    return NAME in said and any(tool.lower() in said for tool in tools)


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text.lower())


def _parameters(spec: ToolSpec) -> Collection[str]:
    if spec.freeform:
        return {INPUT}
    properties = load(spec.schema).get("properties")
    return properties.keys() if isinstance(properties, dict) else ()
