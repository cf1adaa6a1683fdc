"""Calls to `apply_patch`, the tool with which Codex and similar clients change files."""

from collections.abc import Iterator, Sequence

import msgspec

from tieline.demo.actions import Action
from tieline.demo.reply_steps import CallTool
from tieline.wire.shared.capabilities import ClientTool, plain_name
from tieline.wire.shared.capabilities.schema import properties_of, types_of

_NAME = "applypatch"
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ARGUMENTS = ("input", "patch", "patchtext", "text")
"""The possible names of the argument that contains the patch, if the tool is a function."""


def patch_call(action: Action, tools: Sequence[ClientTool]) -> CallTool | None:
    """Return a call that changes a file with a patch, or None if the client has no tool for that.

    Also return None if a patch cannot express the action. A freeform tool takes the patch as raw text; a function takes
    it in an argument.
    """
    patch = _patch(action)
    tool = next((tool for tool in tools if plain_name(tool.name) == _NAME), None)
    if tool is None or not patch:
        return None
    if tool.freeform:
        return CallTool(name=tool.name, arguments=patch, freeform=True)
    for name, schema in properties_of(tool.schema).items():
        if plain_name(name) in _ARGUMENTS and "string" in types_of(schema):
            return CallTool(name=tool.name, arguments=msgspec.json.encode({name: patch}).decode())
    return None


def is_patch(call: CallTool) -> bool:
    """Return whether a call applies a patch."""
    return plain_name(call.name) == _NAME and _BEGIN in call.arguments


def _patch(action: Action) -> str:
    """Return the patch for an action. It is empty if a patch cannot express the action, such as an empty new file."""
    if action.kind == "write" and action.content:
        lines = [f"*** Add File: {action.path}", *(f"+{line}" for line in action.content.splitlines())]
    elif action.kind == "edit" and action.pattern:
        lines = [f"*** Update File: {action.path}", *_changes(action)]
    else:
        return ""
    return "\n".join([_BEGIN, *lines, _END, ""])


def _changes(action: Action) -> Iterator[str]:
    """Yield the changed lines. If the file's content is unknown, assume that the pattern is a whole line."""
    lines = [line for line in action.content.splitlines() if action.pattern in line]
    for old in lines or [action.pattern]:
        yield "@@"
        yield from (f"-{line}" for line in old.splitlines())
        yield from (f"+{line}" for line in old.replace(action.pattern, action.new).splitlines())
