"""Parse a client's tools and its tool choice.

Tools are defined in three places: the field `tools`, items of the type `additional_tools`, and the outputs of tool
searches. All of them are offered to the upstream. Tools that are defined in items are marked as *inline*: an upstream
that uses this protocol receives them in those items, not in `tools`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Raw

from tieline.model.content import NO_META, Meta
from tieline.model.errors import BadRequest
from tieline.model.request import EMPTY_SCHEMA, ToolChoice, ToolSpec
from tieline.wire.openai_responses.client_tools import described, is_client_run
from tieline.wire.openai_responses.names import flat_name, namespace_of
from tieline.wire.openai_responses.schema import PROTOCOL, AllowedTool, ChoiceShape, RequestShape, ToolShape
from tieline.wire.shared.conversations import ConversationCache, cached
from tieline.wire.shared.fields import bad
from tieline.wire.shared.freeform import flat_format
from tieline.wire.shared.json import parse

_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_RAWS = msgspec.json.Decoder(list[Raw] | None)
_TOOL = msgspec.json.Decoder(ToolShape)
_CHOICE = msgspec.json.Decoder(str | ChoiceShape | None)
_OTHER_FIELDS = ("output_schema", "allowed_callers")

Mode = Literal["auto", "none", "required"]
_MODES: dict[str, Mode] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def parse_tools(raw: Raw, inline: Iterable[ToolSpec], cache: ConversationCache | None) -> tuple[ToolSpec, ...]:
    """Parse the field `tools` and add the tools defined in items. A tool replaces an earlier one with the same name."""
    declared: tuple[ToolSpec, ...] = ()
    if raw:
        declared = cached(cache, (PROTOCOL, "tools", bytes(raw)), lambda: read_tools(raw, "tools"))
    added = tuple(inline)
    if not added:
        return declared
    specs = {spec.name: spec for spec in declared}
    specs.update((spec.name, spec) for spec in added)
    return tuple(specs.values())


def read_tools(raw: Raw, at: str, *, inline: bool = False) -> tuple[ToolSpec, ...]:
    """Parse an array of tools; `at` is its path. A namespace is replaced by the tools in it.

    `inline` says whether the array is in an item, so that the tools are marked as inline.
    """
    specs: dict[str, ToolSpec] = {}
    for position, tool in enumerate(parse(_RAWS, raw, at) or ()):
        for spec in _specs(tool, f"{at}[{position}]", None):
            specs[spec.name] = _add_meta(spec, inline=True) if inline else spec
    return tuple(specs.values())


def _add_meta(spec: ToolSpec, **fields: Any) -> ToolSpec:
    meta = {**spec.meta, PROTOCOL: {**spec.meta.get(PROTOCOL, {}), **fields}}
    return msgspec.structs.replace(spec, meta=meta)


def _specs(raw: Raw, at: str, namespace: str | None) -> Iterator[ToolSpec]:
    shape = parse(_TOOL, raw, at)
    if shape.type != "namespace":
        try:
            yield _spec(shape, raw, namespace)
        except BadRequest as error:
            raise error.within(at) from error
        return
    if not shape.name:
        raise bad(f"{at}.name", "the name of a namespace")
    for position, tool in enumerate(shape.tools or ()):
        for spec in _specs(tool, f"{at}.tools[{position}]", namespace_of(shape.name)):
            yield _add_meta(spec, namespace_description=shape.description) if shape.description else spec


def _spec(shape: ToolShape, raw: Raw, namespace: str | None) -> ToolSpec:
    if shape.function is not None:
        return _function(shape.function, raw, namespace, "function.")
    if shape.custom is not None:
        return _freeform(shape.custom, namespace, "custom.")
    if shape.input_schema:
        return _function(shape, raw, namespace, "")
    match shape.type:
        case "function" | None:
            return _function(shape, raw, namespace, "")
        case "custom":
            return _freeform(shape, namespace, "")
        case _ if shape.name and shape.parameters:
            return _function(shape, raw, namespace, "")  # some editors send functions under other types
        case kind:
            return _typed(kind, shape, parse(_ANY, raw))


def _function(shape: ToolShape, raw: Raw, namespace: str | None, below: str) -> ToolSpec:
    if not shape.name:
        raise bad(f"{below}name", "the name of a tool")
    schema = bytes(shape.parameters or shape.input_schema)
    if schema in (b"", b"null"):
        schema = EMPTY_SCHEMA
    if not schema.startswith(b"{"):
        field = "parameters" if shape.parameters else "input_schema"
        raise bad(f"{below}{field}", "a JSON schema object")
    own = _own(shape, namespace)
    if any(b'"%b"' % name.encode() in bytes(raw) for name in _OTHER_FIELDS):
        whole = parse(_ANY, raw)
        own |= {name: whole[name] for name in _OTHER_FIELDS if whole.get(name) is not None}
    return ToolSpec(
        name=flat_name(namespace, shape.name),
        description=shape.description or "",
        schema=schema,
        strict=shape.strict,
        meta=_meta(own) if shape.cache_control is None else {**_meta(own), "cache_control": shape.cache_control},
    )


def _freeform(shape: ToolShape, namespace: str | None, below: str) -> ToolSpec:
    if not shape.name:
        raise bad(f"{below}name", "the name of a tool")
    meta = dict(_meta(_own(shape, namespace)))
    if shape.format is not None:
        meta["format"] = flat_format(shape.format)
    return ToolSpec(
        name=flat_name(namespace, shape.name), description=shape.description or "", freeform=True, meta=meta or NO_META
    )


def _typed(kind: str, shape: ToolShape, whole: dict[str, Any]) -> ToolSpec:
    """Return a tool that OpenAI defines and either the client or the upstream runs. `whole` is its decoded JSON."""
    if is_client_run(kind, whole):
        description, schema = described(kind, whole)
        return ToolSpec(name=kind, description=description, schema=schema, meta={PROTOCOL: whole})
    return ToolSpec(name=shape.name or shape.server_label or kind, hosted=kind, meta={PROTOCOL: whole})


def _own(shape: ToolShape, namespace: str | None) -> dict[str, Any]:
    own: dict[str, Any] = {}
    if namespace is not None:
        own |= {"namespace": namespace, "name": shape.name}
    if shape.defer_loading is not None:
        own["defer_loading"] = shape.defer_loading
    return own


def _meta(own: dict[str, Any]) -> Meta:
    return {PROTOCOL: own} if own else NO_META


# ── The choice ───────────────────────────────────────────────────────────────────────────────────


def parse_choice(shape: RequestShape) -> ToolChoice:
    """Parse `tool_choice` and `parallel_tool_calls`."""
    parallel = shape.parallel_tool_calls
    choice = parse(_CHOICE, shape.tool_choice, "tool_choice") if shape.tool_choice else None
    if choice is None:
        return ToolChoice(parallel=parallel)
    if isinstance(choice, str):
        return ToolChoice(mode=_mode(choice, "tool_choice"), parallel=parallel, given=True)
    mode, names = _object_choice(choice)
    return ToolChoice(mode=mode, names=names, parallel=parallel, given=True)


def _mode(word: str, at: str) -> Mode:
    mode = _MODES.get(word)
    if mode is None:
        raise bad(at, f"one of auto, none, required or an object that names a tool, got '{word}'")
    return mode


def _object_choice(choice: ChoiceShape) -> tuple[Mode, tuple[str, ...]]:
    if choice.type == "allowed_tools":
        tools = enumerate(choice.tools or ())
        names = tuple(_name(tool, f"tool_choice.tools[{position}]") for position, tool in tools)
        return _mode(choice.mode or "auto", "tool_choice.mode"), names
    if choice.type in _MODES:
        return _MODES[choice.type], ()
    return "required", (_name(choice, "tool_choice"),)


def _name(tool: AllowedTool, at: str) -> str:
    """Return the flat name of an allowed tool. For a tool that OpenAI defines, return its label, name or type."""
    if tool.function is not None:
        named, field = tool.function, "function.name"
    elif tool.custom is not None:
        named, field = tool.custom, "custom.name"
    else:
        named, field = tool, "name"
    if tool.type not in (None, "function", "custom"):
        return tool.server_label or tool.name or tool.type
    if not named.name:
        raise bad(f"{at}.{field}", "the name of a tool")
    return flat_name(named.namespace, named.name)
