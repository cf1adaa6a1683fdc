"""Parse a client's tools and its tool choice."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from tieline.model.content import Foreign, Message
from tieline.model.errors import BadRequest
from tieline.model.request import EMPTY_SCHEMA, ToolChoice, ToolSpec
from tieline.wire.anthropic.client_tools import described
from tieline.wire.anthropic.parse_content import meta_of, parse, required, unexpected
from tieline.wire.anthropic.schema import PROTOCOL, Addition, Tool, ToolChoiceIn, is_set, text_of
from tieline.wire.shared.conversations import ConversationCache, cached
from tieline.wire.shared.json import decode_any
from tieline.wire.shared.unsupported import AT

_TOOL = msgspec.json.Decoder(Tool)
_TOOLS = msgspec.json.Decoder(list[Tool])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_ADDITION = msgspec.json.Decoder(Addition)
_EXTENSIONS = ("eager_input_streaming", "defer_loading", "allowed_callers", "input_examples")


def parse_tools(raw: msgspec.Raw, messages: list[Message], cache: ConversationCache | None) -> tuple[ToolSpec, ...]:
    """Parse the tools of a request, including those that system messages within the conversation add."""
    declared = cached(cache, (PROTOCOL, "tools", bytes(raw)), lambda: _tools(raw)) if is_set(raw) else ()
    if not any(message.role == "system" for message in messages):
        return declared
    return declared + _added_tools(messages, declared)


def parse_choice(choice: ToolChoiceIn) -> ToolChoice:
    """Parse `tool_choice`."""
    parallel = None if choice.disable_parallel_tool_use is None else not choice.disable_parallel_tool_use
    match choice.type:
        case "auto":
            return ToolChoice(mode="auto", parallel=parallel, given=True)
        case "any":
            return ToolChoice(mode="required", parallel=parallel, given=True)
        case "none":
            return ToolChoice(mode="none", given=True)
        case "tool" if choice.name:
            return ToolChoice(mode="required", names=(choice.name,), parallel=parallel, given=True)
        case "tool":
            raise BadRequest("`tool_choice.name`: field required", "tool_choice.name")
        case _:
            raise unexpected("tool_choice.type", '"auto", "any", "tool" or "none"', choice.type)


def _tools(raw: msgspec.Raw) -> tuple[ToolSpec, ...]:
    tools = parse(_TOOLS, raw, "tools")
    raws = _RAWS.decode(raw) if any(map(_has_type, tools)) else []
    return tuple(
        _typed_tool(tool, raws[at]) if _has_type(tool) else _custom_tool(tool, f"tools[{at}]")
        for at, tool in enumerate(tools)
    )


def _tool(raw: msgspec.Raw, at: str) -> ToolSpec:
    tool = parse(_TOOL, raw, at)
    return _typed_tool(tool, raw) if _has_type(tool) else _custom_tool(tool, at)


def _has_type(tool: Tool) -> bool:
    return tool.type not in (None, "custom")


def _custom_tool(tool: Tool, at: str) -> ToolSpec:
    if not tool.name:
        raise required(f"{at}.name")
    schema = bytes(tool.input_schema) if is_set(tool.input_schema) else EMPTY_SCHEMA
    if not schema.startswith(b"{"):
        raise BadRequest(f"`{at}.input_schema`: expected an object", f"{at}.input_schema")
    extensions = {name: value for name in _EXTENSIONS if (value := getattr(tool, name)) is not None}
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        schema=schema,
        strict=tool.strict,
        meta=meta_of(tool.cache_control, extensions),
    )


def _typed_tool(tool: Tool, raw: msgspec.Raw) -> ToolSpec:
    """Parse a tool that Anthropic defines. If the client runs it, its schema is known. If not, the upstream runs it."""
    kind = tool.type or ""
    name, meta = tool.name or kind, meta_of(tool.cache_control, {"tool": text_of(raw)})
    known = described(kind, decode_any(raw))
    if known is None:
        return ToolSpec(name=name, hosted=kind, meta=meta)
    return ToolSpec(name=name, description=known[0], schema=known[1], meta=meta)


def _added_tools(messages: Iterable[Message], declared: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Return the tools that system messages within the conversation add, except those in `declared`.

    Upstreams that use other protocols must receive these tools in the list of tools.
    """
    names = {tool.name for tool in declared}
    added: dict[str, ToolSpec] = {}
    for message in messages:
        for part in message.parts if message.role == "system" else ():
            if type(part) is Foreign and part.kind == "tool_addition":
                at = part.meta[AT]
                definition = parse(_ADDITION, part.json.encode(), at).tool.definition
                if is_set(definition):
                    spec = _tool(definition, f"{at}.tool.definition")
                    added[spec.name] = replace(spec, meta={**spec.meta, "inline": True})
    return tuple(spec for name, spec in added.items() if name not in names)
