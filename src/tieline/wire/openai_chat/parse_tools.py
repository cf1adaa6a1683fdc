"""Parse a client's tools and its tool choice.

Editors send tools to this endpoint in three forms: nested as in the spec, flat as in the Responses API, and as in
Anthropic's API. A tool in any other form is run by the upstream itself, so its whole JSON is kept.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from tieline.model.content import NO_META, Meta
from tieline.model.errors import BadRequest
from tieline.model.request import EMPTY_SCHEMA, ToolChoice, ToolSpec
from tieline.wire.openai_chat.schema import (
    PROTOCOL,
    AllowedTool,
    AllowedTools,
    ChoiceShape,
    CustomSpec,
    FunctionSpec,
    RequestShape,
    ToolReference,
    ToolShape,
)
from tieline.wire.shared.conversations import ConversationCache, cached
from tieline.wire.shared.fields import bad
from tieline.wire.shared.freeform import flat_format
from tieline.wire.shared.json import parse

LEGACY = "legacy"
"""The key in `meta` that marks the tools of a client that offers only the deprecated `functions`."""

_TOOLS = msgspec.json.Decoder(list[ToolShape] | None)
_ANY_LIST = msgspec.json.Decoder(list[Any])

_MODES: dict[str, Literal["auto", "none", "required"]] = {
    "auto": "auto",
    "none": "none",
    "required": "required",
    "any": "required",
}


def parse_tools(shape: RequestShape, cache: ConversationCache | None) -> tuple[ToolSpec, ...]:
    """Parse the tools of a request. A tool with the name of an earlier tool takes the place of that tool."""
    raw, tools = shape.tools, tuple[ToolSpec, ...]()
    if raw:
        tools = _read(raw) if cache is None else cached(cache, (PROTOCOL, "tools", bytes(raw)), lambda: _read(raw))
    return _with_functions(tools, shape.functions) if shape.functions else tools


def _read(raw: Raw) -> tuple[ToolSpec, ...]:
    tools = parse(_TOOLS, raw, "tools") or ()
    specs: dict[str, ToolSpec] = {}
    for position, tool in enumerate(tools):
        try:
            spec = _flat(tool) if tool.function is None else _function(tool.function, "function.", tool)
        except BadRequest as error:
            raise error.within(f"tools[{position}]") from error
        specs[spec.name] = spec
    if any(spec.hosted for spec in specs.values()):
        return tuple(_with_whole(specs, tools, raw))
    return tuple(specs.values())


def _with_functions(tools: Sequence[ToolSpec], functions: Sequence[FunctionSpec]) -> tuple[ToolSpec, ...]:
    """Return the tools together with those in the deprecated field `functions`."""
    specs = {spec.name: spec for spec in tools}
    for position, function in enumerate(functions):
        try:
            spec = _function(function, "", None)
        except BadRequest as error:
            raise error.within(f"functions[{position}]") from error
        specs[spec.name] = spec if tools else msgspec.structs.replace(spec, meta={**spec.meta, LEGACY: True})
    return tuple(specs.values())


def _with_whole(specs: dict[str, ToolSpec], tools: Sequence[ToolShape], raw: Raw) -> list[ToolSpec]:
    """Return the tools in `specs`. Tools that the upstream runs itself get their whole JSON in `ToolSpec.meta`."""
    whole = parse(_ANY_LIST, raw, "tools")
    by_name = {_hosted_name(tool): json for tool, json in zip(tools, whole, strict=True)}
    return [
        msgspec.structs.replace(spec, meta={**spec.meta, PROTOCOL: by_name[spec.name]}) if spec.hosted else spec
        for spec in specs.values()
    ]


def _function(spec: FunctionSpec, below: str, tool: ToolShape | None) -> ToolSpec:
    if not spec.name:
        raise bad(f"{below}name", "the name of a tool")
    return ToolSpec(
        name=spec.name,
        description=spec.description or "",
        schema=_schema(spec.parameters, below),
        strict=spec.strict,
        meta=_meta(spec.cache_control or (tool.cache_control if tool is not None else None)),
    )


def _flat(tool: ToolShape) -> ToolSpec:
    if tool.custom is not None:
        return _freeform(tool.custom, "custom.")
    if tool.input_schema:
        return _from_schema(tool, tool.input_schema, "input_schema")
    match tool.type:
        case "custom":
            return _freeform(CustomSpec(name=tool.name, description=tool.description, format=tool.format), "")
        case "function" | None:
            if tool.name is None:
                raise bad("function", "an object with a name")
            return _from_schema(tool, tool.parameters, "parameters")
        case _ if tool.name and tool.parameters:
            # Some versions of Cursor's editor send functions under other types. Tools that an upstream runs have no
            # parameters.
            return _from_schema(tool, tool.parameters, "parameters")
        case _:
            return ToolSpec(name=_hosted_name(tool), hosted=tool.type, meta=_meta(tool.cache_control))


def _hosted_name(tool: ToolShape) -> str:
    return tool.name or tool.type or ""


def _from_schema(tool: ToolShape, schema: Raw, field: str) -> ToolSpec:
    if not tool.name:
        raise bad("name", "the name of a tool")
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        schema=_schema(schema, "", field),
        strict=tool.strict,
        meta=_meta(tool.cache_control),
    )


def _freeform(spec: CustomSpec, below: str) -> ToolSpec:
    if not spec.name:
        raise bad(f"{below}name", "the name of a tool")
    meta = {"format": flat_format(spec.format)} if spec.format is not None else NO_META
    return ToolSpec(name=spec.name, description=spec.description or "", freeform=True, meta=meta)


def _schema(raw: Raw, below: str, field: str = "parameters") -> bytes:
    schema = bytes(raw)
    if not schema or schema == b"null":
        return EMPTY_SCHEMA
    if not schema.startswith(b"{"):
        raise bad(below + field, "a JSON schema object")
    return schema


def _meta(cache_control: dict[str, Any] | None) -> Meta:
    return NO_META if cache_control is None else {"cache_control": cache_control}


# ── The choice ───────────────────────────────────────────────────────────────────────────────────


def parse_choice(shape: RequestShape) -> ToolChoice:
    """Parse `tool_choice` (or the deprecated `function_call`) and `parallel_tool_calls`."""
    parallel = shape.parallel_tool_calls
    if shape.functions and not shape.tools:
        parallel = False  # the answer has room for one call, in `function_call`
    choice, function = shape.tool_choice, shape.function_call
    if isinstance(choice, ChoiceShape):
        if parallel is None and choice.disable_parallel_tool_use is not None:
            parallel = not choice.disable_parallel_tool_use
        mode, names = _object_choice(choice)
    elif choice is not None:
        mode, names = _mode(choice, "tool_choice"), ()
    elif isinstance(function, ToolReference):
        mode, names = "required", (_name(None, None, function.name or "", "function_call"),)
    elif function is not None:
        mode, names = _mode(function, "function_call"), ()
    else:
        return ToolChoice(parallel=parallel)
    return ToolChoice(mode=mode, names=names, parallel=parallel, given=True)


Mode = Literal["auto", "none", "required"]


def _mode(word: str, at: str) -> Mode:
    mode = _MODES.get(word)
    if mode is None:
        raise bad(at, f"one of auto, none, required or an object that names a tool, got '{word}'")
    return mode


def _object_choice(choice: ChoiceShape) -> tuple[Mode, tuple[str, ...]]:
    match choice.type:
        case "allowed_tools":
            return _allowed(choice)
        case "function" | "custom" | "tool" | None:
            name = _name(choice.function, choice.custom, choice.name, "tool_choice")
            return "required", (name,)
        case _:
            return _mode(choice.type, "tool_choice.type"), ()


def _allowed(choice: ChoiceShape) -> tuple[Mode, tuple[str, ...]]:
    allowed = choice.allowed_tools or AllowedTools(mode=choice.mode, tools=choice.tools)
    at = "tool_choice.allowed_tools" if choice.allowed_tools else "tool_choice"
    tools = allowed.tools or []
    return _mode(allowed.mode or "auto", f"{at}.mode"), tuple(
        _allowed_name(tool, f"{at}.tools[{position}]") for position, tool in enumerate(tools)
    )


def _allowed_name(tool: AllowedTool, at: str) -> str:
    """Return the name of an allowed tool; for a tool that the upstream runs itself, this is its type."""
    if tool.type not in (None, "function", "custom") and tool.name is None:
        return tool.type
    return _name(tool.function, tool.custom, tool.name, at)


def _name(function: ToolReference | None, custom: ToolReference | None, flat: str | None, at: str) -> str:
    if function is not None:
        field, name = "function.name", function.name
    elif custom is not None:
        field, name = "custom.name", custom.name
    else:
        field, name = "function.name" if flat is None else "name", flat
    if not name:
        raise bad(f"{at}.{field}", "the name of a tool")
    return name
