"""Build the tools and the tool choice of a request."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from tieline.model.events import Note, left_out
from tieline.model.request import Request, RequestSource, ToolChoice, ToolSpec
from tieline.wire.openai_chat.build_messages import NO_MARKS, Json
from tieline.wire.openai_chat.dialect import Dialect
from tieline.wire.openai_chat.schema import PROTOCOL
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.freeform import nested_format
from tieline.wire.shared.json import encode
from tieline.wire.shared.schemas import FREEFORM_SCHEMA, description, fit_schema
from tieline.wire.shared.sources import covers
from tieline.wire.shared.spelling import ToolNames
from tieline.wire.shared.unsupported import lost_extensions, without_hosted


class ToolArray(NamedTuple):
    """The tools of a request as JSON text, the mapping between the client's and the upstream's names, and notes."""

    tools: tuple[ToolSpec, ...]
    names: ToolNames
    text: Raw
    notes: tuple[Note, ...]
    is_as_sent: bool
    """Whether the client's own JSON for the tools can be sent unchanged."""


def _tool_names(tools: Sequence[ToolSpec], dialect: Dialect) -> ToolNames:
    wrapped = [tool.name for tool in tools if tool.freeform and not dialect.freeform_tools]
    return ToolNames(tuple([tool.name for tool in tools if tool.hosted is None]), frozenset(wrapped))


def build_tools(
    request: Request, dialect: Dialect, source: RequestSource | None, cache: ConversationCache | None
) -> ToolArray:
    """Return the tools of a request as JSON. They are cached, because they rarely change during a conversation."""
    key = (PROTOCOL, "tool list", id(request.tools), dialect, source is None)
    known: ToolArray | None = None if cache is None else cache.get(key)
    if known is not None and known.tools is request.tools:
        return known
    notes: list[Note] = []
    names = _tool_names(request.tools, dialect)
    built = _tools(request, names, dialect, notes)
    is_as_sent = False
    if source is not None and request.tools is source.parsed.tools:
        is_as_sent = covers(source.fields.tools, built)
    tools = ToolArray(request.tools, names, Raw(encode(built)), () if is_as_sent else tuple(notes), is_as_sent)
    if cache is not None and not any(tool.hosted for tool in request.tools):
        cache.put(key, tools, len(tools.text))
    return tools


def add_choice(out: Json, request: Request, names: ToolNames, dialect: Dialect) -> None:
    """Add `tool_choice` and `parallel_tool_calls` to `out`, if the request has them."""
    choice = request.tool_choice
    if choice.given or choice.names or choice.mode != "auto":
        out["tool_choice"] = _choice(choice, request, names, dialect)
    if choice.parallel is not None:
        out["parallel_tool_calls"] = choice.parallel


def _tools(request: Request, names: ToolNames, dialect: Dialect, notes: list[Note]) -> list[Any]:
    tools: dict[str, Any] = {}
    for position, spec in enumerate(request.tools):
        if spec.name in tools:
            notes.append(left_out(f"tools[{position}]", f"a second tool with the name {spec.name!r}"))
        elif spec.hosted is None:
            tools[spec.name] = _tool(spec, names, dialect, notes)
        elif PROTOCOL in spec.meta:
            tools[spec.name] = spec.meta[PROTOCOL]
        else:
            notes.append(without_hosted(spec, position, request))
    return [*tools.values()]


def _tool(tool: ToolSpec, names: ToolNames, dialect: Dialect, notes: list[Note]) -> Json:
    name = names.to_upstream(tool.name)
    if tool.freeform and dialect.freeform_tools:
        return {"type": "custom", "custom": _custom(tool, name)}
    function: Json = {"name": name}
    text = description(tool) if tool.freeform else tool.description
    if text:
        function["description"] = text
    if tool.freeform:
        function["parameters"] = Raw(FREEFORM_SCHEMA)
    else:
        schema, changes = fit_schema(tool.schema, "openai")
        function["parameters"] = Raw(schema)
        if changes:
            notes += [Note(kind="schema", message=f"{tool.name}: {change}") for change in changes]
    if tool.strict is not None and dialect.strict_tools:
        function["strict"] = tool.strict
    out: Json = {"type": "function", "function": function}
    if tool.meta:
        _add_extensions(out, tool, dialect, notes)
    return out


def _add_extensions(out: Json, tool: ToolSpec, dialect: Dialect, notes: list[Note]) -> None:
    """Add the tool's cache mark to `out` if the upstream accepts it. For each omitted extension, add a note."""
    mark = tool.meta.get("cache_control")
    if mark is not None and dialect.cache_marks:
        out["cache_control"] = mark
    elif mark is not None:
        notes.append(NO_MARKS)
    notes += lost_extensions(tool, PROTOCOL)


def _custom(tool: ToolSpec, name: str) -> Json:
    custom: Json = {"name": name}
    if tool.description:
        custom["description"] = tool.description
    if "format" in tool.meta:
        custom["format"] = nested_format(tool.meta["format"])
    return custom


def _choice(choice: ToolChoice, request: Request, names: ToolNames, dialect: Dialect) -> str | Json:
    if not choice.names or choice.mode == "none":
        return choice.mode
    custom = {tool.name for tool in request.tools if tool.freeform and dialect.freeform_tools}
    tools = [_reference(name, "custom" if name in custom else "function", names) for name in choice.names]
    if len(tools) == 1 and choice.mode == "required":
        return tools[0]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}


def _reference(name: str, kind: str, names: ToolNames) -> Json:
    return {"type": kind, kind: {"name": names.to_upstream(name)}}
