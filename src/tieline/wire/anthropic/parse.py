"""Parse a client's Messages request.

Fields without an equivalent in `Request` are kept as JSON in `Request.extra`. The request also keeps the JSON that it
was parsed from, for an upstream that uses the same protocol (see `model.source`).
"""

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import astuple, replace

from tieline.model.content import NO_META, Message, Meta
from tieline.model.errors import BadRequest
from tieline.model.request import (
    Effort,
    OutputFormat,
    Reasoning,
    Request,
    RequestSource,
    Sampling,
    ToolChoice,
)
from tieline.wire.anthropic.parse_content import parse, text_part, unexpected
from tieline.wire.anthropic.parse_messages import MessagesParser
from tieline.wire.anthropic.parse_tools import parse_choice, parse_tools
from tieline.wire.anthropic.schema import (
    PASSED_ON,
    PROTOCOL,
    THE_PASSED_ON,
    TRANSLATED,
    FormatIn,
    KnownRequest,
    Metadata,
    RequestFields,
    TextBlock,
    ThinkingConfig,
    is_set,
    text_of,
)
from tieline.wire.shared import json
from tieline.wire.shared.conversations import MIN_CACHED_BODY, ConversationCache, cached

_KNOWN_REQUEST = msgspec.json.Decoder(KnownRequest)
_FIELDS = msgspec.json.Decoder(RequestFields)
_SYSTEM: msgspec.json.Decoder[str | list[TextBlock]] = msgspec.json.Decoder(str | list[TextBlock])
_METADATA = msgspec.json.Decoder(Metadata)
_THINKING = msgspec.json.Decoder(ThinkingConfig)

_NULL = Raw(b"null")
_EFFORTS: tuple[Effort, ...] = get_args(Effort)


def parse_request(body: bytes, cache: ConversationCache | None = None, *, counting: bool = False) -> Request:
    """Parse a request body. If it is invalid, raise BadRequest with the path of the invalid field.

    `counting` says whether the client only asks for a token count. If so, max_tokens is not required.
    """
    try:
        return _parse(body, cache, counting)
    except BadRequest:
        repaired = json.replace_lone_surrogates(body)
        if repaired == body:
            raise
    return _parse(repaired, cache, counting)


def _parse(body: bytes, cache: ConversationCache | None, counting: bool) -> Request:
    if len(body) < MIN_CACHED_BODY:
        cache = None
    _check_encoding(body)
    fields, extra = _decode(body)
    parser = MessagesParser(cache)
    parser.parse(fields.messages)
    _check(fields, parser.messages, counting)
    system = _system(fields.system, cache) if is_set(fields.system) else ()
    metadata = parse(_METADATA, fields.metadata, "metadata") if is_set(fields.metadata) else Metadata()
    request = Request(
        model=fields.model or "",
        messages=(*system, *parser.messages),
        tools=parse_tools(fields.tools, parser.messages, cache),
        tool_choice=ToolChoice() if fields.tool_choice is None else parse_choice(fields.tool_choice),
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
    return replace(request, source=RequestSource(PROTOCOL, fields, sources, request))


def _check_encoding(body: bytes) -> None:
    """Raise BadRequest if the body is not UTF-8. The JSON decoder does not check fields that are passed on."""
    try:
        body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}") from error


def _decode(body: bytes) -> tuple[RequestFields, dict[str, Raw]]:
    """Decode the top level of a request. Return the fields to translate, and the fields to pass on unchanged."""
    try:
        known = _KNOWN_REQUEST.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = parse(_FIELDS, body)
        members = json.parse_object(body)
        return fields, _extra((name, raw) for name, raw in members.items() if name not in TRANSLATED)
    passed_on = astuple(known)[THE_PASSED_ON]
    return known, _extra(zip(PASSED_ON, passed_on, strict=True)) if any(passed_on) else {}


def _extra(members: Iterable[tuple[str, Raw]]) -> dict[str, Raw]:
    """Return the members to pass on unchanged: those that are not null.

    Each value is copied, because a Raw is a view, and even a small one would keep the whole body in memory.
    """
    return {name: raw.copy() for name, raw in members if raw and raw != _NULL}


def _check(fields: RequestFields, messages: list[Message], counting: bool) -> None:
    if is_set(fields.thread):
        # When the SDKs receive this code, they send the request again with the whole history.
        raise BadRequest(
            "`thread`: message threads are not supported; send the whole history",
            "thread",
            code="thread_unsupported_request",
        )
    if not messages:
        raise BadRequest("`messages`: at least one message is required", "messages")
    if fields.max_tokens is None and not counting:
        raise BadRequest("`max_tokens`: field required", "max_tokens")
    if fields.max_tokens is not None and fields.max_tokens < 0:
        raise BadRequest("`max_tokens`: expected a number of tokens, got a negative number", "max_tokens")


def _system(raw: Raw, cache: ConversationCache | None) -> tuple[Message, ...]:
    """Parse the system prompt: return one message, or none if it is empty."""
    return cached(cache, (PROTOCOL, "system", bytes(raw)), lambda: _read_system(raw))


def _read_system(raw: Raw) -> tuple[Message, ...]:
    system = parse(_SYSTEM, raw, "system")
    if not system:
        return ()
    blocks = [TextBlock(system)] if isinstance(system, str) else system
    return (Message(role="system", parts=tuple(text_part(block) for block in blocks)),)


# ── Thinking and output ────────────────────────────────────────────────────────────────────────────────


def _reasoning(fields: RequestFields) -> Reasoning:
    config = parse(_THINKING, fields.thinking, "thinking") if is_set(fields.thinking) else None
    output = fields.output_config
    kept: dict[str, Any] = {}
    effort = None
    if output is not None:
        effort = next((known for known in _EFFORTS if known == output.effort), None)
        if output.effort is not None and effort is None:
            kept["effort"] = output.effort
        if is_set(output.task_budget):
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
    if not is_set(wanted.schema):
        raise BadRequest(f"`{at}.schema`: field required", f"{at}.schema")
    return OutputFormat(name=wanted.name or "output", schema=bytes(wanted.schema))
