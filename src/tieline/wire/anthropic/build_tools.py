"""The tools that are offered to an upstream, and which of them it may or must call."""

from typing import Any

from msgspec import Raw

from tieline.model.errors import BadRequest
from tieline.model.events import Note, left_out
from tieline.model.request import EMPTY_SCHEMA, Request, ToolChoice, ToolSpec
from tieline.wire.anthropic import cache_control
from tieline.wire.anthropic.dialect import Dialect
from tieline.wire.anthropic.fragments import Memory, Piece
from tieline.wire.anthropic.schema import PROTOCOL, Tool
from tieline.wire.shared.json import encode
from tieline.wire.shared.schemas import FREEFORM_SCHEMA, SchemaFitter, description
from tieline.wire.shared.spelling import UNCHANGED, Names, Spelled

_FREEFORM = Raw(FREEFORM_SCHEMA)


class ToolList(Piece):
    """The tools of a request as its field, and how their names are spelled."""

    spelled: Spelled = UNCHANGED


def offered(request: Request, dialect: Dialect, memory: Memory) -> ToolList:
    """The tools of a request, which are the same throughout a conversation."""
    if request.tool_choice.names:  # what is left of the tools, or refused, depends on them
        return write(request, dialect, memory)
    known = memory.get(id(request.tools))
    context = (dialect.extensions, dialect.strict_tools)
    if isinstance(known, ToolList) and known.context == context:
        return known
    tools = write(request, dialect, memory)
    tools.context = context
    memory.keep(id(request.tools), tools)
    return tools


def write(request: Request, dialect: Dialect, memory: Memory, unmarked: int = 0) -> ToolList:
    """The tools that the choice leaves, without the first of their cache marks."""
    spelled = _spelled(request.tools)
    left = _left_by(request.tool_choice)
    notes: list[Note] = []
    tools: dict[str, Tool | Raw] = {}
    for at, spec in enumerate(request.tools):
        if left is not None and spec.name not in left:
            continue
        if spec.name in tools:
            notes.append(left_out(f"tools[{at}]", f"a second tool of the name {spec.name!r}"))
        elif not spec.hosted:
            if not spec.meta.get("inline"):  # else the conversation itself defines it
                tools[spec.name] = _own(spec) or _tool(spec, dialect, spelled.names, memory.schemas, notes)
        elif (hosted := _hosted(spec, at, request, notes)) is not None:
            tools[spec.name] = hosted
    if not tools and left is not None:
        raise BadRequest("`tool_choice`: none of the tools it names is offered", "tool_choice")
    marked = [tool for tool in tools.values() if type(tool) is Tool and tool.cache_control]
    for tool in marked[:unmarked]:
        tool.cache_control = None
    written = _written([*tools.values()]) if tools else (b"", 0)
    return ToolList(request.tools, *written, marks=len(marked), notes=tuple(notes), spelled=spelled)


def _written(tools: list[Tool | Raw]) -> tuple[bytes, int]:
    return b'"tools":' + encode(tools), cache_control.place(tools, 1)


def _spelled(tools: tuple[ToolSpec, ...]) -> Spelled:
    names = [tool.name for tool in tools]
    return Spelled(Names(names), frozenset([tool.name for tool in tools if tool.freeform]))


def _left_by(choice: ToolChoice) -> tuple[str, ...] | None:
    """The tools that the choice leaves, if not all: the API can name one tool that must be called, but no several."""
    if not choice.names or choice.mode == "none" or (choice.mode == "required" and len(choice.names) == 1):
        return None
    return choice.names


def _hosted(spec: ToolSpec, at: int, request: Request, notes: list[Note]) -> Raw | None:
    """The tool as it came; one of another upstream is left out, unless the client relies on it."""
    own = _own(spec)
    if own is not None:
        return own
    place = f"tools[{at}]"
    problem = f"{spec.hosted!r} is run by another upstream, this one does not have it"
    if spec.name in request.tool_choice.names or all(tool.hosted for tool in request.tools):
        raise BadRequest(f"`{place}`: {problem}", place)
    notes.append(left_out(place, problem))
    return None


def _own(spec: ToolSpec) -> Raw | None:
    """A tool that the API knows by its type, as it came."""
    raw = spec.meta.get(PROTOCOL, {}).get("tool") if spec.meta else None
    return None if raw is None else Raw(raw.encode())


def _tool(spec: ToolSpec, dialect: Dialect, names: Names, schemas: SchemaFitter, notes: list[Note]) -> Tool:
    tool = Tool(names.spell(spec.name))
    if spec.freeform:
        tool.description = description(spec) or None
        tool.input_schema = _FREEFORM
    else:
        schema, changes = schemas.fit(spec.schema)
        tool.description = spec.description or None
        tool.input_schema = Raw(schema)
        tool.strict = spec.strict if dialect.strict_tools else None
        if changes:
            notes.extend(Note(kind="schema", message=f"{spec.name}: {change}") for change in changes)
    if spec.meta:
        _add_meta(tool, spec, dialect)
    return tool


def _add_meta(tool: Tool, spec: ToolSpec, dialect: Dialect) -> None:
    if dialect.extensions:
        for name, value in spec.meta.get(PROTOCOL, {}).items():
            setattr(tool, name, value)
    if not tool.defer_loading:
        tool.cache_control = spec.meta.get("cache_control")


def chosen(choice: ToolChoice, names: Names) -> dict[str, Any] | None:
    """Whether a tool may or must be called, if that has to be said."""
    if choice.mode == "none":
        return {"type": "none"}
    if choice.mode == "required":
        said: dict[str, Any] = {"type": "any"}
        if len(choice.names) == 1:
            said = {"type": "tool", "name": names.spell(choice.names[0])}
    elif choice.given or choice.parallel is False:
        said = {"type": "auto"}
    else:
        return None
    if choice.parallel is False or (choice.parallel and choice.given):
        said["disable_parallel_tool_use"] = not choice.parallel
    return said


NONE = ToolList((), b"")
UNAVAILABLE = ToolList(
    (),
    *_written(
        [
            Tool(
                "unavailable",
                description="Stands for tools that were used earlier and are not available now. Never call it.",
                input_schema=Raw(EMPTY_SCHEMA),
            )
        ]
    ),
)
"""The API refuses a history with calls when no tool is offered."""
