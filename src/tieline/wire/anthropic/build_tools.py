"""Build the tools and the tool choice of a request."""

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
from tieline.wire.shared.sources import covers
from tieline.wire.shared.spelling import NO_TOOL_NAMES, ToolNames
from tieline.wire.shared.unsupported import without_hosted

FIELD = b'"tools":'
_FREEFORM = Raw(FREEFORM_SCHEMA)


class ToolList(Fragment):
    """The tools of a request as JSON text, and the mapping between the client's and the upstream's names for them."""

    names: ToolNames = NO_TOOL_NAMES


def build_tools(
    request: Request, dialect: Dialect, source: RequestSource | None, cache: ConversationCache | None
) -> ToolList:
    """Return the tools of a request as JSON: the client's own JSON from `source`, if that has the same meaning.

    The result is cached, because tools rarely change during a conversation.
    """

    def build() -> ToolList:
        tools = write(request, dialect)
        if source is not None and request.tools is source.parsed.tools and tools.text:
            sent = source.fields.tools
            if covers(sent, Raw(tools.text.removeprefix(FIELD))):
                tools.text, tools.notes = FIELD + bytes(sent), ()
        return tools

    if cache is None or request.tool_choice.names:  # the names in the tool choice decide which tools are offered
        return build()
    context = (dialect.extensions, dialect.strict_tools, source is None)
    return cached_fragment(cache, "tools", (request.tools,), context, build)


def write(request: Request, dialect: Dialect, unmarked: int = 0) -> ToolList:
    """Build the tools that the tool choice allows, without the first `unmarked` of their cache marks."""
    tool_names = _tool_names(request.tools)
    allowed = _allowed(request.tool_choice)
    notes: list[Note] = []
    tools: dict[str, Tool | Raw] = {}
    for at, spec in enumerate(request.tools):
        if allowed is not None and spec.name not in allowed:
            continue
        if spec.name in tools:
            notes.append(left_out(f"tools[{at}]", f"a second tool with the name {spec.name!r}"))
        elif not spec.hosted:
            if not spec.meta.get("inline"):  # an inline tool is defined in a message
                tools[spec.name] = _own(spec) or _tool(spec, dialect, tool_names, notes)
        elif (hosted := _hosted(spec, at, request, notes)) is not None:
            tools[spec.name] = hosted
    if not tools and allowed is not None:
        raise BadRequest("`tool_choice`: expected the names of offered tools, got none of them", "tool_choice")
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


def _allowed(choice: ToolChoice) -> tuple[str, ...] | None:
    """Return the names of the tools to offer; None to offer all tools.

    The API can require a call to one named tool, but cannot restrict the model's choice to several tools. So, for
    such a restriction, only the allowed tools are offered.
    """
    if not choice.names or choice.mode == "none" or (choice.mode == "required" and len(choice.names) == 1):
        return None
    return choice.names


def _hosted(spec: ToolSpec, at: int, request: Request, notes: list[Note]) -> Raw | None:
    """Return the client's JSON for a tool that the upstream runs.

    If the tool is from another protocol, return None and add a note.
    """
    own = _own(spec)
    if own is None:
        notes.append(without_hosted(spec, at, request))
    return own


def _own(spec: ToolSpec) -> Raw | None:
    """Return the client's JSON for a tool that Anthropic defines; None for any other tool."""
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


def build_choice(choice: ToolChoice, names: ToolNames) -> dict[str, Any] | None:
    """Return the member `tool_choice`, or None if the default applies."""
    if choice.mode == "none":
        return {"type": "none"}
    if choice.mode == "required":
        out: dict[str, Any] = {"type": "any"}
        if len(choice.names) == 1:
            out = {"type": "tool", "name": names.to_upstream(choice.names[0])}
    elif choice.given or choice.parallel is False:
        out = {"type": "auto"}
    else:
        return None
    if choice.parallel is False or (choice.parallel and choice.given):
        out["disable_parallel_tool_use"] = not choice.parallel
    return out


NO_TOOLS = ToolList((), b"")
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
"""A placeholder tool for requests without tools. If the history contains calls, the API requires at least one tool."""
