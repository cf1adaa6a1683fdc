"""What a client asks in the Messages dialect, in neutral words.

A usual request is decoded in one pass into typed blocks. One with unknown fields or unusual blocks, and one that is
wrong, is read again block by block: that keeps the JSON of what is unknown and tells exactly where a mistake is.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from tieline.model.content import NO_META, Foreign, Message, Meta, Part, Role
from tieline.model.errors import BadRequest
from tieline.model.request import (
    EMPTY_SCHEMA,
    Effort,
    OutputFormat,
    Reasoning,
    Request,
    Sampling,
    ToolChoice,
    ToolSpec,
)
from tieline.wire.anthropic.client_tools import described
from tieline.wire.anthropic.parse_content import meta_of, parse, patient_parts, text_part, unexpected, usual_parts
from tieline.wire.anthropic.schema import (
    ABSENT,
    PASSED_ON,
    PROTOCOL,
    TRANSLATED,
    Addition,
    FormatIn,
    Metadata,
    RequestFields,
    RequestShell,
    TextBlock,
    ThinkingConfig,
    Tool,
    ToolsShell,
    UsualRequest,
    given,
    text_of,
)
from tieline.wire.shared import json

_USUAL = msgspec.json.Decoder(UsualRequest)
_SHELL = msgspec.json.Decoder(RequestShell)
_TOOLS = msgspec.json.Decoder(ToolsShell)
_TOOL = msgspec.json.Decoder(Tool)
_ADDITION = msgspec.json.Decoder(Addition)
_METADATA = msgspec.json.Decoder(Metadata)
_THINKING = msgspec.json.Decoder(ThinkingConfig)

_ROLES: tuple[Role, ...] = get_args(Role)
_EFFORTS: tuple[Effort, ...] = get_args(Effort)
_TOOL_EXTENSIONS = ("eager_input_streaming", "defer_loading", "allowed_callers", "input_examples")


def parse_request(body: bytes, counting: bool = False) -> Request:
    """The request of a client; one that is only to be counted needs no max_tokens."""
    return json.parse_mended(partial(_parse, counting=counting), body)


def _parse(body: bytes, counting: bool) -> Request:
    _check_encoding(body)
    try:
        usual = _USUAL.decode(body)
    except (msgspec.ValidationError, RecursionError):
        return _parse_patiently(body, counting)
    except (msgspec.DecodeError, UnicodeDecodeError):
        json.parse(_USUAL, body)
        raise
    messages = _Messages()
    for at, message in enumerate(usual.messages):
        messages.add(message.role, usual_parts(message.content, at))
    extra = {name: value for name in PASSED_ON if given(value := getattr(usual, name))}
    return _request(usual, messages, extra, body, counting)


def _check_encoding(body: bytes) -> None:
    """What only travels through is never decoded, and must not be wrong when it leaves."""
    try:
        body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}") from error


def _parse_patiently(body: bytes, counting: bool) -> Request:
    fields = json.parse_object(body)
    shell = parse(_SHELL, body)
    messages = _Messages()
    for at, message in enumerate(shell.messages):
        if message.role not in _ROLES:
            raise unexpected(f"messages[{at}].role", '"user", "assistant" or "system"', message.role)
        messages.add(message.role, patient_parts(message.content, at))
    extra = {name: value for name, value in fields.items() if name not in TRANSLATED and given(value)}
    return _request(shell, messages, extra, body, counting)


class _Messages(list[Message]):
    """The messages so far; one of the system that comes after others stays where it is."""

    def add(self, role: Role, parts: tuple[Part, ...]) -> None:
        # All messages before a system message are of the system if the last of them is, unless that one is late itself.
        late = role == "system" and bool(self) and (self[-1].role != "system" or self[-1].meta is not NO_META)
        self.append(Message(role=role, parts=parts, meta={PROTOCOL: {"in_place": True}} if late else NO_META))


def _request(
    fields: RequestFields, messages: list[Message], extra: dict[str, msgspec.Raw], body: bytes, counting: bool
) -> Request:
    _check(fields, messages, counting)
    metadata = parse(_METADATA, fields.metadata, "metadata") if given(fields.metadata) else Metadata()
    return Request(
        model=fields.model or "",
        messages=(*_system(fields.system), *messages),
        tools=_all_tools(fields, messages, body),
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


def _system(system: str | list[TextBlock] | None) -> tuple[Message, ...]:
    if not system:
        return ()
    given_blocks = [TextBlock(system)] if isinstance(system, str) else system
    return (Message(role="system", parts=tuple(text_part(block) for block in given_blocks)),)


# ── Tools ────────────────────────────────────────────────────────────────────────────────────────


def _all_tools(fields: RequestFields, messages: list[Message], body: bytes) -> tuple[ToolSpec, ...]:
    declared = _tools(fields.tools or (), body)
    if not any(message.role == "system" for message in messages):
        return declared
    return declared + _added_tools(messages, declared)


def _tools(tools: Iterable[Tool], body: bytes) -> tuple[ToolSpec, ...]:
    raw: list[msgspec.Raw] = []
    specs = []
    for at, tool in enumerate(tools):
        if tool.type in (None, "custom"):
            specs.append(_own_tool(tool, at))
        else:
            raw = raw or _TOOLS.decode(body).tools
            specs.append(_hosted_tool(tool, tool.type or "", text_of(raw[at])))
    return tuple(specs)


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
                    for spec in _tools([_TOOL.decode(tool.definition)], b'{"tools":[%b]}' % bytes(tool.definition)):
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
