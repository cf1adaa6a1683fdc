"""Choose a client's tool that can perform an action, and build the arguments that the tool's schema requires."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tieline.demo.actions import Action, find_tool
from tieline.demo.patches import patch_call
from tieline.demo.phrases import shortened
from tieline.demo.plan_tool import plan_call
from tieline.demo.reply_steps import CallTool
from tieline.demo.schema_filler import FillHints, SchemaFiller
from tieline.demo.tool_arguments import parse_calls
from tieline.model.content import Value
from tieline.wire.shared.capabilities import Capability, ClientTool, Role, Wanted
from tieline.wire.shared.capabilities import fit_call as fit_tool


class MatchedCall(Value):
    """A call that performs an action, and a short description of the action."""

    call: CallTool
    phrase: str


def match_tools(action: Action, tools: Sequence[ClientTool], directory: str = "") -> list[MatchedCall]:
    """Return the calls that perform an action, or an empty list if no tool can perform it."""
    phrase = describe(action)
    if action.kind == "tool":
        name = find_tool(action.tool, [tool.name for tool in tools])
        named = next((tool for tool in tools if tool.name == name), None)
        calls = parse_calls(named, action.words, directory) if named else []
        return [MatchedCall(call=call, phrase=phrase) for call in calls]
    call = plan_call(action, tools) if action.kind == "plan" else _file_call(action, tools, phrase, directory)
    return [] if call is None else [MatchedCall(call=call, phrase=phrase)]


def _file_call(action: Action, tools: Sequence[ClientTool], phrase: str, directory: str) -> CallTool | None:
    """Return a call for an action on files: to a tool made for it, to a tool that applies patches, or to the shell."""
    for capability, roles in _routes(action):
        call = patch_call(action, tools) if capability == "shell" else None
        call = call or _call(capability, roles, tools, FillHints("", phrase=phrase, directory=directory))
        if call is not None:
            return call
    return None


def describe(action: Action) -> str:
    """Describe an action in a few words."""
    match action.kind:
        case "shell":
            return f"Run {shortened(action.command)}"
        case "list":
            return f"List {action.path or 'the files'}"
        case "grep" | "glob":
            verb = "Search for" if action.kind == "grep" else "Find"
            return f"{verb} {shortened(action.pattern)}" + (f" in {action.path}" if action.path else "")
        case "plan":
            return "Update the plan"
        case "tool":
            return f"Call {action.tool}"
        case _:
            return f"{action.kind.capitalize()} {action.path}"


def _routes(action: Action) -> Iterator[tuple[Capability, dict[Role, str]]]:
    """Yield the ways to perform an action, best first: usually a dedicated tool, then the shell.

    A way consists of the capability that a tool must have, and the values for its parameters, by role (see `Role`).
    """
    path, where = shlex.quote(action.path), shlex.quote(action.path or ".")
    match action.kind:
        case "shell":
            yield "shell", {"command": action.command}
        case "read":
            yield "read", {"path": action.path}
            yield "shell", {"command": f"cat {path}"}
        case "write":
            yield "write", {"path": action.path, "content": action.content}
            yield "shell", {"command": _write_command(path, action.content)}
        case "edit":
            yield "edit", {"path": action.path, "old": action.pattern, "new": action.new}
            yield "shell", {"command": f"sed -i {shlex.quote(_substitution(action))} {path}"}
        case "list":
            yield "list", {"path": action.path or "."}
            yield "shell", {"command": f"ls {path}" if action.path else "ls"}
            yield "glob", {"pattern": "*", "path": action.path}
        case "grep":
            yield "grep", {"pattern": action.pattern, "path": action.path}
            yield "shell", {"command": f"grep -rn -e {shlex.quote(action.pattern)} {where}"}
        case "glob":
            yield "glob", {"pattern": action.pattern, "path": action.path}
            yield "shell", {"command": f"find {where} -name {shlex.quote(action.pattern)}"}
        case _:
            return


def _write_command(path: str, content: str) -> str:
    """Return a shell command that writes exactly this content to the file `path`, which is already quoted.

    A heredoc always ends with a newline, so it is used only if the content ends with a newline.
    """
    if not content.endswith("\n"):
        return f"printf %s {shlex.quote(content)} > {path}"
    mark = "EOF"
    while mark in content.splitlines():
        mark += "_"
    return f"cat > {path} <<'{mark}'\n{content}{mark}"


def _substitution(action: Action) -> str:
    old = re.sub(r"([][\\/.*^$])", r"\\\1", action.pattern)
    new = re.sub(r"([\\/&])", r"\\\1", action.new)
    return f"s/{old}/{new}/g"


def _call(
    capability: Capability, roles: Mapping[Role, str], tools: Sequence[ClientTool], hints: FillHints
) -> CallTool | None:
    """Return a call to the first tool that has this capability and accepts the values in `roles`, or None.

    `hints` supplies values for other required parameters. A tool that lists or searches a folder is used even if it
    has no parameter for the folder's path.
    """
    must, may, spare = dict(roles), dict[Role, Any](), dict[Role, Any]()
    if capability in ("list", "grep", "glob"):
        where = must.pop("path")
        (spare if where in ("", ".") else may)["path"] = where
    wanted = Wanted(must=must, may=may, spare=spare, phrase=hints.phrase, directory=hints.directory)

    def fill(name: str, schema: Any, root: Any) -> Any:
        return SchemaFiller(root, hints, sparing=True).value(schema, name, 1)

    matched = fit_tool(capability, tools, wanted, fill=fill)
    return matched and CallTool(name=matched.tool.name, arguments=msgspec.json.encode(matched.arguments).decode())
