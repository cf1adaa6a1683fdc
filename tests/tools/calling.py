"""Calls of tools, and what comes of them, in short words."""

from typing import Any

import msgspec

from tieline.model.content import Text, ToolCall, ToolResult
from tieline.tools.toolbox import WorkspaceToolbox


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall(id="call_1", name=name, arguments=msgspec.json.encode(arguments).decode())


def text_of(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


async def done(box: WorkspaceToolbox, name: str, /, **arguments: Any) -> str:
    """What a tool says when it works."""
    result = await box.execute(call(name, **arguments))
    assert not result.is_error, text_of(result)
    assert result.call_id == "call_1"
    return text_of(result)


async def refused(box: WorkspaceToolbox, name: str, /, **arguments: Any) -> str:
    """What a tool says when it does not."""
    result = await box.execute(call(name, **arguments))
    assert result.is_error, text_of(result)
    assert result.call_id == "call_1"
    return text_of(result)
