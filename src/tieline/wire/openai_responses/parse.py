"""Parse a client's Responses request.

Fields without an equivalent in `Request` are kept as JSON in `Request.extra`. The request also keeps the JSON that it
was parsed from, for an upstream that uses the same protocol (see `model.source`). References to stored responses and
items must already have been replaced (see `stored`).
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.model.content import Checkpoint, Message, Text
from tieline.model.errors import BadRequest
from tieline.model.request import Effort, OutputFormat, Reasoning, Request, RequestSource, Sampling, ToolChoice
from tieline.wire.openai_responses.parse_items import ItemsParser
from tieline.wire.openai_responses.parse_tools import parse_choice, parse_tools
from tieline.wire.openai_responses.schema import (
    PROTOCOL,
    UNTRANSLATED,
    AnyRequestShape,
    FormatShape,
    ReasoningShape,
    RequestShape,
    TextOptionsShape,
)
from tieline.wire.shared.blocks import read_system
from tieline.wire.shared.conversations import MIN_CACHED_BODY, ConversationCache, cached
from tieline.wire.shared.fields import bad, json_text
from tieline.wire.shared.freeform import restore_calls
from tieline.wire.shared.json import encode, parse, parse_object, replace_lone_surrogates

ENCRYPTED = "reasoning.encrypted_content"
"""The value in `include` with which a client requests the `encrypted_content` of reasoning items."""

_decode_known = msgspec.json.Decoder(RequestShape).decode
_ANY_REQUEST = msgspec.json.Decoder(AnyRequestShape)
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_TEXT = msgspec.json.Decoder(TextOptionsShape)
_REASONING = msgspec.json.Decoder(ReasoningShape)
_KNOWN = frozenset(RequestShape.__struct_fields__)
_EFFORTS: frozenset[Any] = frozenset(get_args(Effort))
_NULL = Raw(b"null")
_untranslated = attrgetter(*UNTRANSLATED)
_NO_CHOICE = ToolChoice()
_NO_REASONING = Reasoning()


class KnownItems(NamedTuple):
    """The items of a conversation that precede those in the request body."""

    items: Sequence[bytes] = ()
    checkpoint: Checkpoint | None = None
    """The state from which an upstream can continue after these items, if any."""


_NOTHING_KNOWN = KnownItems()


def parse_request(body: bytes, cache: ConversationCache | None = None, known: KnownItems = _NOTHING_KNOWN) -> Request:
    """Parse a request body that continues the `known` items. If a field is invalid, raise BadRequest with its path.

    If there are known items, `input` must be an array. In error paths, the position of an item counts the known items
    before it. Raise GatewayError of the kind `not_found` if an item is a reference, which the caller has to replace.
    """
    try:
        return _parse(body, cache, known)
    except BadRequest:
        repaired = replace_lone_surrogates(body)
        items = [replace_lone_surrogates(item) for item in known.items]
        if repaired == body and items == [*known.items]:
            raise
    return _parse(repaired, cache, known._replace(items=items))


def _parse(body: bytes, cache: ConversationCache | None, known: KnownItems) -> Request:
    if len(body) + sum(map(len, known.items)) < MIN_CACHED_BODY:
        cache = None
    shape, unknown = _decode(body)
    parser = ItemsParser(cache)
    checkpoint = known.checkpoint
    if "system" in unknown:
        parser.add_system(read_system(unknown.pop("system")))
        checkpoint = None  # the upstream may have stored a different system message
    _read_input(shape, parser, cache, known.items)
    if checkpoint is not None and isinstance(shape.input, list) and parser.has_answer(shape.input):
        checkpoint = None  # it covers the last answer that the upstream gave, not one that the client added
    tools = parse_tools(shape.tools, parser.tools, cache)
    if any(tool.freeform for tool in tools):
        restore_calls(parser.messages, parser.sources, tools, cache)
    has_choice = shape.tool_choice or shape.parallel_tool_calls is not None
    request = Request(
        model=shape.model or "",
        messages=tuple(parser.messages),
        tools=tools,
        tool_choice=parse_choice(shape) if has_choice else _NO_CHOICE,
        sampling=Sampling(max_tokens=shape.max_output_tokens, temperature=shape.temperature, top_p=shape.top_p),
        reasoning=_reasoning(shape.reasoning),
        output=_output(shape.text),
        stream=bool(shape.stream),
        user=shape.user,
        cache_key=shape.prompt_cache_key,
        protocol=PROTOCOL,
        extra=_extra(shape, unknown),
        checkpoint=checkpoint,
    )
    return replace(request, source=RequestSource(PROTOCOL, shape, tuple(parser.sources), request))


def _decode(body: bytes) -> tuple[RequestShape, dict[str, Raw]]:
    """Decode the top level of a request. Also return the fields that RequestShape does not define."""
    try:
        # Fields that are only passed on are never decoded, so the encoding of the whole body is checked here.
        if not body.isascii():
            body.decode()
        return _decode_known(body), {}
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}") from error
    except (msgspec.DecodeError, RecursionError):
        shape = parse(_ANY_REQUEST, body)
    fields = parse_object(body)
    return shape, {name: raw for name, raw in fields.items() if name not in _KNOWN}


def _read_input(
    shape: RequestShape, parser: ItemsParser, cache: ConversationCache | None, known: Sequence[bytes]
) -> None:
    """Parse the instructions, the known items and the input of a request into messages."""
    text = shape.instructions
    if text:
        parser.messages.append(
            cached(cache, (PROTOCOL, "instructions", text.encode("utf-8", "replace")), lambda: _instructions(text))
        )
        parser.sources.append(None)
    if isinstance(shape.input, str):
        parser.messages.append(Message(role="user", parts=(Text(text=shape.input),) if shape.input else ()))
        parser.sources.append(None)
    elif shape.input or known:
        parser.parse(known, shape.input or ())
    else:
        raise bad("input", "a string or an array of at least one item")


def _instructions(text: str) -> Message:
    return Message(role="system", parts=(Text(text=text),), meta={PROTOCOL: {"instructions": True}})


# ── Settings ─────────────────────────────────────────────────────────────────────────────────────


def _reasoning(raw: Raw) -> Reasoning:
    """Parse the field `reasoning`. Its JSON is kept in `meta` if it contains anything other than a known effort."""
    if not raw or raw == _NULL:
        return _NO_REASONING
    effort: Any = parse(_REASONING, raw, "reasoning").effort
    members = _set_members(raw)
    if effort in _EFFORTS and members.keys() == {"effort"}:
        return Reasoning(effort=effort)
    meta = {PROTOCOL: {"reasoning": json_text(raw)}}
    return Reasoning(effort=effort if effort in _EFFORTS else None, meta=meta) if members else _NO_REASONING


def _output(raw: Raw) -> OutputFormat | None:
    if not raw or raw == _NULL:
        return None
    wanted = parse(_TEXT, raw, "text").format
    if wanted is None:
        return None
    match wanted.type:
        case "text":
            return None
        case "json_object":
            return OutputFormat()
        case "json_schema":
            return _schema_output(wanted)
        case _:
            raise bad("text.format.type", "one of text, json_object, json_schema")


def _schema_output(wanted: FormatShape) -> OutputFormat:
    if not bytes(wanted.schema).startswith(b"{"):
        raise bad("text.format.schema", "a JSON schema object")
    parse(_ANY, wanted.schema, "text.format.schema")  # only to raise BadRequest for invalid JSON
    return OutputFormat(name=wanted.name or "output", schema=bytes(wanted.schema), strict=wanted.strict)


def _extra(shape: RequestShape, unknown: dict[str, Raw]) -> dict[str, Raw]:
    """Return the fields without an equivalent in `Request`, except those that the gateway handles itself.

    Each value is copied, because a Raw is a view, and even a small one would keep the whole body in memory.
    """
    values = _untranslated(shape)
    given = {**dict(zip(UNTRANSLATED, values, strict=True)), **unknown} if any(values) else unknown
    extra = {name: value.copy() for name, value in given.items() if value and value != _NULL}
    included = [word for word in shape.include or () if word != ENCRYPTED]
    if included:
        extra["include"] = Raw(encode(included))
    if shape.text and shape.text != _NULL:
        members = _set_members(shape.text)
        members.pop("format", None)
        if members:
            extra["text"] = Raw(encode(members))
    return extra


def _set_members(raw: Raw) -> dict[str, Raw]:
    """Return those members of a JSON object that are not null."""
    return {name: value for name, value in _MEMBERS.decode(raw).items() if value != _NULL}
