"""From a wish to calls of the tools that the client offers: the tool by what it can do, the arguments by its schema."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tieline.demo.answer import Call
from tieline.demo.offer import call_with
from tieline.demo.phrases import shortened
from tieline.demo.schema import Filler, Hints
from tieline.demo.wishes import Wish, tool_named
from tieline.model.content import Value
from tieline.wire.shared.capabilities import Capability, ClientTool, Role, Wanted
from tieline.wire.shared.capabilities import fit_call as fit_tool


class Fitted(Value):
    """A call that does what was wished, and a few words for it."""

    call: Call
    phrase: str


def fit(wish: Wish, tools: Sequence[ClientTool], directory: str = "") -> list[Fitted]:
    """The calls that do what is wished; none when no tool fits."""
    phrase = phrase_of(wish)
    if wish.kind == "tool":
        name = tool_named(wish.tool, [tool.name for tool in tools])
        named = next((tool for tool in tools if tool.name == name), None)
        calls = call_with(named, wish.words, directory) if named else []
        return [Fitted(call=call, phrase=phrase) for call in calls]
    for capability, roles in _routes(wish):
        call = _call(capability, roles, tools, Hints("", phrase=phrase, directory=directory))
        if call is not None:
            return [Fitted(call=call, phrase=phrase)]
    return []


def phrase_of(wish: Wish) -> str:
    """A few words for what is wished."""
    match wish.kind:
        case "shell":
            return f"Run {shortened(wish.command)}"
        case "list":
            return f"List {wish.path or 'the files'}"
        case "grep" | "glob":
            verb = "Search for" if wish.kind == "grep" else "Find"
            return f"{verb} {shortened(wish.pattern)}" + (f" in {wish.path}" if wish.path else "")
        case "tool":
            return f"Call {wish.tool}"
        case _:
            return f"{wish.kind.capitalize()} {wish.path}"


def _routes(wish: Wish) -> Iterator[tuple[Capability, dict[Role, str]]]:
    """The ways to do it, the best first: a tool made for it, else the shell."""
    path, where = shlex.quote(wish.path), shlex.quote(wish.path or ".")
    match wish.kind:
        case "shell":
            yield "shell", {"command": wish.command}
        case "read":
            yield "read", {"path": wish.path}
            yield "shell", {"command": f"cat {path}"}
        case "write":
            yield "write", {"path": wish.path, "content": wish.content}
            yield "shell", {"command": _write_command(path, wish.content)}
        case "edit":
            yield "edit", {"path": wish.path, "old": wish.pattern, "new": wish.new}
            yield "shell", {"command": f"sed -i {shlex.quote(_substitution(wish))} {path}"}
        case "list":
            yield "list", {"path": wish.path or "."}
            yield "shell", {"command": f"ls {path}" if wish.path else "ls"}
            yield "glob", {"pattern": "*", "path": wish.path}
        case "grep":
            yield "grep", {"pattern": wish.pattern, "path": wish.path}
            yield "shell", {"command": f"grep -rn -e {shlex.quote(wish.pattern)} {where}"}
        case "glob":
            yield "glob", {"pattern": wish.pattern, "path": wish.path}
            yield "shell", {"command": f"find {where} -name {shlex.quote(wish.pattern)}"}
        case _:
            return


def _write_command(path: str, content: str) -> str:
    """Writes exactly the content: a heredoc always ends its last line, so it serves only where that is wanted."""
    if not content.endswith("\n"):
        return f"printf %s {shlex.quote(content)} > {path}"
    mark = "EOF"
    while mark in content.splitlines():
        mark += "_"
    return f"cat > {path} <<'{mark}'\n{content}{mark}"


def _substitution(wish: Wish) -> str:
    old = re.sub(r"([][\\/.*^$])", r"\\\1", wish.pattern)
    new = re.sub(r"([\\/&])", r"\\\1", wish.new)
    return f"s/{old}/{new}/g"


def _call(capability: Capability, roles: Mapping[Role, str], tools: Sequence[ClientTool], hints: Hints) -> Call | None:
    """A call of the first tool that has a place for it all; where to look is said only if it is somewhere else."""
    must, may, spare = dict(roles), dict[Role, Any](), dict[Role, Any]()
    if capability in ("list", "grep", "glob"):
        where = must.pop("path")
        (spare if where in ("", ".") else may)["path"] = where
    wanted = Wanted(must=must, may=may, spare=spare, phrase=hints.phrase, directory=hints.directory)

    def fill(name: str, schema: Any, root: Any) -> Any:
        return Filler(root, hints, sparing=True).value(schema, name, 1)

    fitted = fit_tool(capability, tools, wanted, fill=fill)
    return fitted and Call(name=fitted.tool.name, arguments=msgspec.json.encode(fitted.arguments).decode())
