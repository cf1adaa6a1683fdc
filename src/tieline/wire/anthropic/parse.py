"""Parse a client's Messages request.

Fields that the model has no name for are kept as JSON in `Request.extra`. The request also carries the body it was
parsed from, for an upstream of the same protocol (see `model.source`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from tieline.model.content import NO_META, Foreign, Message, Meta, Role
from tieline.model.errors import BadRequest
from tieline.model.request import (
    EMPTY_SCHEMA,
    Effort,
    OutputFormat,
    Reasoning,
    Request,
    RequestSource,
    Sampling,
    ToolChoice,
    ToolSpec,
)
from tieline.wire.anthropic.client_tools import described
from tieline.wire.anthropic.parse_content import content_parts, is_standard, meta_of, parse, text_part, unexpected
from tieline.wire.anthropic.schema import (
    ABSENT,
    PASSED_ON,
    PROTOCOL,
    TRANSLATED,
    Addition,
    FormatIn,
    KnownRequest,
    MessageShell,
    Metadata,
    RequestFields,
    TextBlock,
    ThinkingConfig,
    Tool,
    given,
    text_of,
)
from tieline.wire.shared import json
from tieline.wire.shared.conversations import WORTHWHILE, ConversationCache, cached, parsed_weight
from tieline.wire.shared.unsupported import AT

_KNOWN_REQUEST = msgspec.json.Decoder(KnownRequest)
_FIELDS = msgspec.json.Decoder(RequestFields)
_MESSAGE = msgspec.json.Decoder(MessageShell)
_SYSTEM: msgspec.json.Decoder[str | list[TextBlock]] = msgspec.json.Decoder(str | list[TextBlock])
_TOOLS = msgspec.json.Decoder(list[Tool])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
_ADDITION = msgspec.json.Decoder(Addition)
_METADATA = msgspec.json.Decoder(Metadata)
_THINKING = msgspec.json.Decoder(ThinkingConfig)

_ROLES: tuple[Role, ...] = get_args(Role)
_EFFORTS: tuple[Effort, ...] = get_args(Effort)
_TOOL_EXTENSIONS = ("eager_input_streaming", "defer_loading", "allowed_callers", "input_examples")


def parse_request(body: bytes, cache: ConversationCache | None = None, *, counting: bool = False) -> Request:
    """Parse a request; one that is only to be counted needs no max_tokens."""
    try:
        return _parse(body, cache, counting)
    except BadRequest:
        repaired = json.replace_lone_surrogates(body)
        if repaired == body:
            raise
    return _parse(repaired, cache, counting)


def _parse(body: bytes, cache: ConversationCache | None, counting: bool) -> Request:
    if len(body) < WORTHWHILE:
        cache = None
    _check_encoding(body)
    fields, extra = _decode(body)
    parser = _MessagesParser(cache)
    parser.parse(fields.messages)
    _check(fields, parser.messages, counting)
    system = _system(fields.system, cache) if given(fields.system) else ()
    metadata = parse(_METADATA, fields.metadata, "metadata") if given(fields.metadata) else Metadata()
    request = Request(
        model=fields.model or "",
        messages=(*system, *parser.messages),
        tools=_all_tools(fields.tools, parser.messages, cache),
        tool_choice=_tool_choice(fields),
        sampling=Sampling(
            max_tokens=fields.max_tokens,
            temperature=fields.temperature,
            top_p=fields.top_p,
            top_k=fields.top_k,
            stop=tuple(fields.stop_sequences or ()),
        ),
        reasoning=_reasoning(fields),
        output=_output(fields),
        stream=bool(fields.stream),
        user=metadata.user_id,
        protocol=PROTOCOL,
        extra=extra,
    )
    sources = (*[None] * len(system), *parser.sources)
    return replace(request, source=RequestSource(PROTOCOL, body, sources, request))


def _check_encoding(body: bytes) -> None:
    """Check text that is only passed on, and therefore never decoded."""
    try:
        body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}") from error


def _decode(body: bytes) -> tuple[RequestFields, dict[str, msgspec.Raw]]:
    """Decode the top level; also return the fields that are only passed on."""
    try:
        known = _KNOWN_REQUEST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = parse(_FIELDS, body)
        members = json.parse_object(body)
        return fields, {name: value for name, value in members.items() if name not in TRANSLATED and given(value)}
    return known, {name: value for name in PASSED_ON if given(value := getattr(known, name))}


class _Parsed(NamedTuple):
    message: Message
    source: bytes | None
    """The JSON text, if the API takes it as it is."""


class _MessagesParser:
    """Parses messages in their order, with those that were parsed before taken from the cache."""

    def __init__(self, cache: ConversationCache | None) -> None:
        self._cache = cache
        self.messages: list[Message] = []
        self.sources: list[bytes | None] = []
        self._begun = False
        """Whether a system message would be one in the middle of the conversation."""

    def parse(self, raws: Iterable[msgspec.Raw]) -> None:
        """Parse all messages; raise BadRequest with the path of the field."""
        for at, raw in enumerate(raws):
            message, source = self._parsed(bytes(raw), at)
            self.messages.append(message)
            self.sources.append(source)
            self._begun = message.role != "system" or message.meta is not NO_META

    def _parsed(self, text: bytes, at: int) -> _Parsed:
        cache, key = self._cache, (PROTOCOL, self._begun, text)
        if cache is not None:
            known: _Parsed | None = cache.get(key)
            if known is not None:
                return known
        shell = parse(_MESSAGE, text, f"messages[{at}]")
        role = next((role for role in _ROLES if role == shell.role), None)
        if role is None:
            raise unexpected(f"messages[{at}].role", '"user", "assistant" or "system"', shell.role)
        parts = content_parts(shell.content, at)
        is_late = role == "system" and self._begun
        message = Message(role=role, parts=parts, meta={PROTOCOL: {"in_place": True}} if is_late else NO_META)
        parsed = _Parsed(message, text if is_standard(role, parts, text) else None)
        if cache is not None and not any(AT in part.meta for part in parts):  # else it contains its position
            cache.put(key, parsed, parsed_weight(text))
        return parsed


def _check(fields: RequestFields, messages: list[Message], counting: bool) -> None:
    if given(fields.thread):
        # The SDKs then send the whole history by themselves; anything else would answer a part of it.
        raise BadRequest(
            "`thread`: message threads are not kept here, send the whole history",
            "thread",
            code="thread_unsupported_request",
        )
    if not messages:
        raise BadRequest("`messages`: at least one message is required", "messages")
    if fields.max_tokens is None and not counting:
        raise BadRequest("`max_tokens`: field required", "max_tokens")
    if fields.max_tokens is not None and fields.max_tokens < 0:
        raise BadRequest("`max_tokens`: expected a number of tokens, not a negative number", "max_tokens")


def _system(raw: msgspec.Raw, cache: ConversationCache | None) -> tuple[Message, ...]:
    """Parse the system prompt."""
    return cached(cache, (PROTOCOL, "system", bytes(raw)), lambda: _read_system(raw))


def _read_system(raw: msgspec.Raw) -> tuple[Message, ...]:
    system = parse(_SYSTEM, raw, "system")
    if not system:
        return ()
    blocks = [TextBlock(system)] if isinstance(system, str) else system
    return (Message(role="system", parts=tuple(text_part(block) for block in blocks)),)


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


def _all_tools(raw: msgspec.Raw, messages: list[Message], cache: ConversationCache | None) -> tuple[ToolSpec, ...]:
    declared = cached(cache, (PROTOCOL, "tools", bytes(raw)), lambda: _tools(raw)) if given(raw) else ()
    if not any(message.role == "system" for message in messages):
        return declared
    return declared + _added_tools(messages, declared)


def _tools(raw: msgspec.Raw) -> tuple[ToolSpec, ...]:
    tools = parse(_TOOLS, raw, "tools")
    texts = _RAWS.decode(raw) if any(map(_is_hosted, tools)) else []
    return tuple(
        _hosted_tool(tool, tool.type or "", text_of(texts[at])) if _is_hosted(tool) else _own_tool(tool, at)
        for at, tool in enumerate(tools)
    )


def _is_hosted(tool: Tool) -> bool:
    return tool.type not in (None, "custom")


def _own_tool(tool: Tool, at: int) -> ToolSpec:
    if not tool.name:
        raise BadRequest(f"`tools[{at}].name`: field required", f"tools[{at}].name")
    schema = bytes(tool.input_schema) if given(tool.input_schema) else EMPTY_SCHEMA
    if not schema.startswith(b"{"):
        raise BadRequest(f"`tools[{at}].input_schema`: expected an object", f"tools[{at}].input_schema")
    extensions = {name: value for name in _TOOL_EXTENSIONS if (value := getattr(tool, name)) is not None}
    return ToolSpec(
        name=tool.name,
        description=tool.description or "",
        schema=schema,
        strict=tool.strict,
        meta=meta_of(tool.cache_control, extensions),
    )


def _hosted_tool(tool: Tool, kind: str, raw: str) -> ToolSpec:
    """A tool this protocol knows by its type: run by the upstream, or by the client with a schema that is public."""
    name, meta = tool.name or kind, meta_of(tool.cache_control, {"tool": raw})
    known = described(kind, json.decode_any(raw))
    if known is None:
        return ToolSpec(name=name, hosted=kind, meta=meta)
    return ToolSpec(name=name, description=known[0], schema=known[1], meta=meta)


def _added_tools(messages: Iterable[Message], declared: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """The tools that system messages define in the middle of a conversation; only other protocols are told of them."""
    names = {tool.name for tool in declared}
    added: dict[str, ToolSpec] = {}
    for message in messages:
        for part in message.parts if message.role == "system" else ():
            if type(part) is Foreign and part.kind == "tool_addition":
                tool = _ADDITION.decode(part.json).tool
                if given(tool.definition) and tool.definition is not ABSENT:
                    for spec in _tools(msgspec.Raw(b"[%b]" % bytes(tool.definition))):
                        added[spec.name] = replace(spec, meta={**spec.meta, "inline": True})
    return tuple(spec for name, spec in added.items() if name not in names)


def _tool_choice(fields: RequestFields) -> ToolChoice:
    choice = fields.tool_choice
    if choice is None:
        return ToolChoice()
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


# ── How to answer ────────────────────────────────────────────────────────────────────────────────


def _reasoning(fields: RequestFields) -> Reasoning:
    config = parse(_THINKING, fields.thinking, "thinking") if given(fields.thinking) else None
    output = fields.output_config
    kept: dict[str, Any] = {}
    effort = None
    if output is not None:
        effort = next((known for known in _EFFORTS if known == output.effort), None)
        if output.effort is not None and effort is None:
            kept["effort"] = output.effort
        if given(output.task_budget):
            kept["task_budget"] = text_of(output.task_budget)
    if config is None:
        return Reasoning(effort=effort, meta={PROTOCOL: kept} if kept else NO_META)
    meta: Meta = {PROTOCOL: {"thinking": text_of(fields.thinking), **kept}}
    match config.type:
        case "disabled":
            return Reasoning(mode="off", effort=effort, meta=meta)
        case "enabled" if config.budget_tokens is None:
            raise BadRequest("`thinking.budget_tokens`: field required", "thinking.budget_tokens")
        case "enabled":
            return Reasoning(mode="budget", budget=config.budget_tokens, effort=effort, meta=meta)
        case "adaptive" | "between_tools":
            return Reasoning(mode="adaptive", effort=effort, meta=meta)
        case _:
            return Reasoning(effort=effort, meta=meta)


def _output(fields: RequestFields) -> OutputFormat | None:
    config = fields.output_config
    if config is not None and config.format is not None:
        return _format(config.format, "output_config.format")
    if fields.output_format is not None:
        return _format(fields.output_format, "output_format")
    return None


def _format(wanted: FormatIn, at: str) -> OutputFormat:
    if wanted.type != "json_schema":
        raise unexpected(f"{at}.type", '"json_schema"', wanted.type)
    if not given(wanted.schema):
        raise BadRequest(f"`{at}.schema`: field required", f"{at}.schema")
    return OutputFormat(name=wanted.name or "output", schema=bytes(wanted.schema))
