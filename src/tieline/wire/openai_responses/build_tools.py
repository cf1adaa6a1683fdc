"""Build the tools and the tool choice of a request."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Raw

from tieline.model.events import Note, left_out
from tieline.model.request import Request, RequestSource, ToolChoice, ToolSpec
from tieline.wire.openai_responses.build_items import NO_MARKS, Json
from tieline.wire.openai_responses.client_tools import CLIENT_TOOLS
from tieline.wire.openai_responses.dialect import Dialect
from tieline.wire.openai_responses.schema import PROTOCOL
from tieline.wire.shared.conversations import ConversationCache
from tieline.wire.shared.json import encode
from tieline.wire.shared.schemas import FREEFORM_SCHEMA, description, fit_schema
from tieline.wire.shared.sources import covers
from tieline.wire.shared.spelling import ToolNames
from tieline.wire.shared.unsupported import without_hosted

_FUNCTION_FIELDS = ("defer_loading", "output_schema", "allowed_callers")


class ToolArray(NamedTuple):
    """The tools of a request as JSON text, and notes about changes to them."""

    tools: tuple[ToolSpec, ...]
    text: Raw
    notes: tuple[Note, ...]
    is_as_sent: bool
    """Whether the client's own JSON for the tools can be sent unchanged."""
    is_any: bool
    """Whether there are any tools to send. Tools that are defined in input items do not count."""


def tool_names(tools: Sequence[ToolSpec]) -> ToolNames:
    """Return the mapping between the client's names for these tools and the upstream's names.

    Every freeform tool is marked as one that may be called as a function, because some upstreams accept freeform tools
    but return calls to them as function calls.
    """
    wrapped = [tool.name for tool in tools if tool.freeform]
    return ToolNames(tuple([tool.name for tool in tools if tool.hosted is None]), frozenset(wrapped))


def build_tools(
    request: Request, dialect: Dialect, names: ToolNames, source: RequestSource | None, cache: ConversationCache | None
) -> ToolArray:
    """Return the tools of a request as JSON. They are cached, because they rarely change during a conversation."""
    key = (PROTOCOL, "tool list", id(request.tools), dialect, source is None)
    known: ToolArray | None = None if cache is None else cache.get(key)
    if known is not None and known.tools is request.tools:
        return known
    notes: list[Note] = []
    built = _tools(request, names, dialect, notes)
    is_as_sent = False
    if built and source is not None and request.tools is source.parsed.tools:
        is_as_sent = covers(source.fields.tools, built)
    text = Raw(encode(built))
    tools = ToolArray(request.tools, text, () if is_as_sent else tuple(notes), is_as_sent, bool(built))
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
    namespaces: dict[str, Json] = {}
    for position, spec in enumerate(request.tools):
        own = spec.meta.get(PROTOCOL, {})
        if own.get("inline") and dialect.openai_tools:
            continue  # an item in the input defines it
        if spec.name in tools:
            notes.append(left_out(f"tools[{position}]", f"a second tool with the name {spec.name!r}"))
        elif spec.hosted is not None and not own:
            notes.append(without_hosted(spec, position, request))
        elif spec.hosted is not None or (own.get("type") in CLIENT_TOOLS and dialect.openai_tools):
            tools[spec.name] = own
        elif own.get("namespace") is not None and dialect.openai_tools:
            namespace = _namespace(own)
            group = namespaces.setdefault(own["namespace"], namespace)
            group["tools"].append(_tool(spec, own["name"], request, dialect, notes))
            if group is namespace:
                tools[f"namespace {own['namespace']}"] = group
        else:
            tools[spec.name] = _tool(spec, names.to_upstream(spec.name), request, dialect, notes)
    return [*tools.values()]


def _namespace(own: Json) -> Json:
    out: Json = {"type": "namespace", "name": own["namespace"]}
    if own.get("namespace_description"):
        out["description"] = own["namespace_description"]
    return {**out, "tools": []}


def _tool(tool: ToolSpec, name: str, request: Request, dialect: Dialect, notes: list[Note]) -> Json:
    if tool.freeform and dialect.freeform_tools:
        return _custom(tool, name)
    out: Json = {"type": "function", "name": name}
    text = description(tool) if tool.freeform else tool.description
    if text:
        out["description"] = text
    if tool.freeform:
        out["parameters"] = Raw(FREEFORM_SCHEMA)
    else:
        schema, changes = fit_schema(tool.schema, "openai")
        out["parameters"] = Raw(schema)
        notes += [Note(kind="schema", message=f"{tool.name}: {change}") for change in changes]
    if dialect.strict_tools and tool.strict is not None:
        out["strict"] = tool.strict
    elif request.protocol != PROTOCOL:
        out["strict"] = False  # the API's default is true, but few schemas from other clients meet its conditions
    _add_extensions(out, tool, notes)
    return out


def _add_extensions(out: Json, tool: ToolSpec, notes: list[Note]) -> None:
    """Add the tool's extensions that this protocol defines to `out`, and a note for each other extension to `notes`."""
    for name, value in tool.meta.items():
        if name == "cache_control":
            notes.append(NO_MARKS)
        elif name == PROTOCOL:
            out |= {field: value[field] for field in _FUNCTION_FIELDS if field in value}
        elif isinstance(value, dict) and name != "format":
            extensions = [extension for extension in value if extension != "tool"]  # `tool` is the whole definition
            notes += [left_out(f"tools.{extension}", "an extension of another protocol") for extension in extensions]


def _custom(tool: ToolSpec, name: str) -> Json:
    custom: Json = {"type": "custom", "name": name}
    if tool.description:
        custom["description"] = tool.description
    form: Json | None = tool.meta.get("format")
    if form is not None:
        grammar = form.get("grammar")  # Chat Completions nests the grammar
        custom["format"] = {"type": "grammar", **grammar} if isinstance(grammar, dict) else form
    if "defer_loading" in tool.meta.get(PROTOCOL, {}):
        custom["defer_loading"] = tool.meta[PROTOCOL]["defer_loading"]
    return custom


def _choice(choice: ToolChoice, request: Request, names: ToolNames, dialect: Dialect) -> str | Json:
    if not choice.names or choice.mode == "none":
        return choice.mode
    offered = {tool.name: tool for tool in request.tools}
    tools = [_reference(name, offered.get(name), names, dialect) for name in choice.names]
    if len(tools) == 1 and choice.mode == "required":
        return tools[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}


def _reference(name: str, tool: ToolSpec | None, names: ToolNames, dialect: Dialect) -> Json:
    own: Json = {} if tool is None else tool.meta.get(PROTOCOL, {})
    if tool is not None and tool.hosted is not None:
        label = {"server_label": own["server_label"]} if "server_label" in own else {}
        return {"type": tool.hosted, **label}
    if own.get("type") in CLIENT_TOOLS and dialect.openai_tools:
        return {"type": own["type"]}
    kind = "custom" if tool is not None and tool.freeform and dialect.freeform_tools else "function"
    if own.get("namespace") is not None and dialect.openai_tools:
        return {"type": kind, "name": own["name"], "namespace": own["namespace"]}
    return {"type": kind, "name": names.to_upstream(name)}
