"""The tools that are offered to an upstream, and which of them it may or must call."""

from typing import Any

from msgspec import Raw

from tieline.model.errors import BadRequest
from tieline.model.events import Note, left_out
from tieline.model.request import EMPTY_SCHEMA, Request, RequestSource, ToolChoice, ToolSpec
from tieline.wire.anthropic.build_content import mark_offset
from tieline.wire.anthropic.dialect import Dialect
from tieline.wire.anthropic.fragments import Fragment, cached_fragment
from tieline.wire.anthropic.schema import PROTOCOL, Tool
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.json import encode
from tieline.wire.shared.schemas import FREEFORM_SCHEMA, description, fit_schema
from tieline.wire.shared.sources import covers, member_of
from tieline.wire.shared.spelling import NO_TOOL_NAMES, ToolNames

FIELD = b'"tools":'
_FREEFORM = Raw(FREEFORM_SCHEMA)


class ToolList(Fragment):
    """The tools of a request as its field, and how their names are spelled."""

    names: ToolNames = NO_TOOL_NAMES
    is_as_sent: bool = False
    """Whether a client of this dialect sent them in a form that needs no change."""


def offered(
    request: Request, dialect: Dialect, source: RequestSource | None, cache: ConversationCache | None
) -> ToolList:
    """Return the tools of a request, which are the same throughout a conversation."""

    def build() -> ToolList:
        tools = write(request, dialect)
        if source is not None and request.tools is source.parsed.tools and tools.text:
            tools.is_as_sent = covers(member_of(source, "tools"), Raw(tools.text.removeprefix(FIELD)))
            tools.notes = () if tools.is_as_sent else tools.notes
        return tools

    if cache is None or request.tool_choice.names:  # names decide which tools are offered
        return build()
    context = (dialect.extensions, dialect.strict_tools, source is None)
    return cached_fragment(cache, "tools", (request.tools,), context, build)


def write(request: Request, dialect: Dialect, unmarked: int = 0) -> ToolList:
    """The tools that the choice leaves, without the first of their cache marks."""
    tool_names = _tool_names(request.tools)
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
                tools[spec.name] = _own(spec) or _tool(spec, dialect, tool_names, notes)
        elif (hosted := _hosted(spec, at, request, notes)) is not None:
            tools[spec.name] = hosted
    if not tools and left is not None:
        raise BadRequest("`tool_choice`: none of the tools it names is offered", "tool_choice")
    marked = [tool for tool in tools.values() if type(tool) is Tool and tool.cache_control]
    for tool in marked[:unmarked]:
        tool.cache_control = None
    written = _written([*tools.values()]) if tools else (b"", 0)
    return ToolList((request.tools,), *written, marks=len(marked), notes=tuple(notes), names=tool_names)


def _written(tools: list[Tool | Raw]) -> tuple[bytes, int]:
    return FIELD + encode(tools), mark_offset(tools, 1)


def _tool_names(tools: tuple[ToolSpec, ...]) -> ToolNames:
    names = tuple([tool.name for tool in tools])
    return ToolNames(names, frozenset([tool.name for tool in tools if tool.freeform]))


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


def _tool(spec: ToolSpec, dialect: Dialect, names: ToolNames, notes: list[Note]) -> Tool:
    tool = Tool(names.to_upstream(spec.name))
    if spec.freeform:
        tool.description = description(spec) or None
        tool.input_schema = _FREEFORM
    else:
        schema, changes = fit_schema(spec.schema, "anthropic")
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


def chosen(choice: ToolChoice, names: ToolNames) -> dict[str, Any] | None:
    """Whether a tool may or must be called, if that has to be said."""
    if choice.mode == "none":
        return {"type": "none"}
    if choice.mode == "required":
        said: dict[str, Any] = {"type": "any"}
        if len(choice.names) == 1:
            said = {"type": "tool", "name": names.to_upstream(choice.names[0])}
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
