"""A Chat Completions request of a client, read into the model.

The usual request is decoded in one pass, a small one of nothing but words by a strict shape of its own. Fields that the
model has no word for are kept as they came, in `Request.extra`, for an upstream of the same protocol.
"""

from typing import Any, NamedTuple, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import astuple, replace

from tieline.model.content import Message, Text
from tieline.model.errors import BadRequest
from tieline.model.request import Effort, OutputFormat, Reasoning, Request, Sampling
from tieline.wire.openai_chat.parse_content import bad
from tieline.wire.openai_chat.parse_messages import RESULT_ROLES, Reader, read_words
from tieline.wire.openai_chat.parse_tools import UNCHOSEN, parse_choice, parse_tools
from tieline.wire.openai_chat.schema import (
    ABSENT,
    PROTOCOL,
    THE_UNTRANSLATED,
    UNTRANSLATED,
    AnyRequestShape,
    Asked,
    FormatShape,
    MessageShape,
    PlainRequestShape,
    RequestShape,
)
from tieline.wire.shared.incremental import LARGEST, WORTHWHILE, Memory, Told, as_array, end_of_last
from tieline.wire.shared.json import encode, parse, parse_mended, parse_object

_decode_plain = msgspec.json.Decoder(PlainRequestShape).decode
_decode_known = msgspec.json.Decoder(RequestShape).decode
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_ANY_REQUEST = msgspec.json.Decoder(AnyRequestShape)
_KNOWN = frozenset(RequestShape.__struct_fields__)
_EFFORTS: frozenset[Any] = frozenset(get_args(Effort))
_NULL = Raw(b"null")
_NOTHING_SAID = (ABSENT,) * len(UNTRANSLATED)
_UNREASONED = Reasoning()


def parse_request(body: bytes) -> Request:
    """The request; what cannot be understood raises BadRequest with the path of the field."""
    return parse_mended(_parse, body)


def _parse(body: bytes) -> Request:
    if len(body) < WORTHWHILE:
        return _read_plain(body) or _read(body, Reader())
    if len(body) > LARGEST:
        return _read(body, Reader())
    told = _TOLD.find(body)
    return (told and _going_on(told, body)) or _read_and_keep(body)


def _read_plain(body: bytes) -> Request | None:
    """A request of nothing but words and the usual settings; None for any other."""
    try:
        shape = _decode_plain(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    messages = read_words(shape.messages)
    if messages is None:
        return None
    return Request(
        model=shape.model,
        messages=messages,
        tool_choice=UNCHOSEN,
        sampling=_sampling(shape),
        reasoning=_UNREASONED,
        stream=bool(shape.stream),
        usage_in_stream=_wants_usage(shape),
        protocol=PROTOCOL,
    )


def _read(body: bytes, reader: Reader) -> Request:
    shape, unknown = _decode(body)
    if not shape.messages:
        raise bad("messages", "an array of at least one message")
    untranslated = astuple(shape)[THE_UNTRANSLATED]
    system = _system(unknown.pop("system", None)) if "system" in unknown else ()
    plain = untranslated == _NOTHING_SAID and shape.reasoning_effort is None and shape.n is None and not unknown
    return Request(
        model=shape.model or "",
        messages=system + reader.read(shape.messages),
        tools=parse_tools(shape) if shape.tools or shape.functions else (),
        tool_choice=parse_choice(shape),
        sampling=_sampling(shape),
        reasoning=_UNREASONED if plain else _reasoning(shape),
        output=None if shape.response_format is None else _output(shape.response_format),
        stream=bool(shape.stream),
        usage_in_stream=_wants_usage(shape),
        user=shape.user,
        cache_key=shape.prompt_cache_key,
        protocol=PROTOCOL,
        extra={} if plain else _extra(shape, untranslated, unknown),
    )


def _decode(body: bytes) -> tuple[RequestShape, dict[str, Raw]]:
    """The typed request, and the fields that no version of the spec knows."""
    try:
        # What only travels through is never decoded again, so this is the place to check its encoding.
        if not body.isascii():
            body.decode()
        return _decode_known(body), {}
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {error.reason} at byte {error.start}") from error
    except (msgspec.DecodeError, RecursionError):
        shape = parse(_ANY_REQUEST, body)
    fields = parse_object(body)
    return shape, {name: raw for name, raw in fields.items() if name not in _KNOWN}


# ── A conversation that is told again ────────────────────────────────────────────────────────────


class _Conversation(NamedTuple):
    request: Request
    reader: Reader
    """How the messages that come next are read."""


class _Messages(msgspec.Struct):
    messages: Raw = ABSENT


_TOLD: Memory[_Conversation] = Memory()
_FIND_MESSAGES = msgspec.json.Decoder(_Messages)
_ADDED = msgspec.json.Decoder(list[MessageShape])


def _read_and_keep(body: bytes) -> Request:
    reader = Reader()
    request = _read(body, reader)
    end = end_of_last(body, _FIND_MESSAGES.decode(body).messages)
    if end is not None:
        _TOLD.keep(body, end, _Conversation(request, reader))
    return request


def _going_on(told: Told[_Conversation], body: bytes) -> Request | None:
    """What is known with the messages that were added to it; None if the body has to be read as a whole."""
    known, added = told.read, told.added_in(body)
    if not added:
        return known.request
    shapes = _added(added)
    if not shapes or (known.reader.ends_with_result and shapes[0].role in RESULT_ROLES):
        return None
    reader = known.reader.next()
    try:
        messages = known.request.messages + reader.read(shapes)
    except BadRequest:
        return None
    request = replace(known.request, messages=messages)
    _TOLD.keep(body, len(body) - len(told.tail), _Conversation(request, reader), told)
    return request


def _added(added: bytes) -> list[MessageShape] | None:
    array = as_array(added)
    try:
        added.decode()
        return None if array is None else _ADDED.decode(array)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None


# ── Fields beside the messages ───────────────────────────────────────────────────────────────────


def _system(raw: Raw | None) -> tuple[Message, ...]:
    """The system prompt beside the messages, as some editors send it: a string, or text blocks."""
    try:
        said = msgspec.json.decode(raw or b"null", type=str | list[_Block] | None)
    except msgspec.DecodeError as error:
        raise bad("system", "a string or an array of text blocks") from error
    texts = [said] if isinstance(said, str) else [block.text for block in said or ()]
    parts = tuple(Text(text=text) for text in texts if text)
    return (Message(role="system", parts=parts),) if parts else ()


class _Block(msgspec.Struct):
    text: str


def _extra(shape: RequestShape, untranslated: tuple[Raw, ...], unknown: dict[str, Raw]) -> dict[str, Raw]:
    """What is not translated, copied: otherwise the smallest of it would keep the whole body in memory."""
    said = zip(UNTRANSLATED, untranslated, strict=True)
    extra = {name: raw.copy() for name, raw in said if raw and raw != _NULL}
    for name, raw in unknown.items():
        extra[name] = raw.copy()
    if shape.n is not None and shape.n > 1:
        extra["n"] = Raw(encode(shape.n))
    if shape.reasoning_effort is not None and shape.reasoning_effort not in _EFFORTS:
        extra["reasoning_effort"] = Raw(encode(shape.reasoning_effort))
    return extra


def _wants_usage(shape: Asked) -> bool:
    wanted = shape.stream_options
    return not shape.stream or (wanted is not None and bool(wanted.include_usage))


def _sampling(shape: Asked) -> Sampling:
    stop = shape.stop
    return Sampling(
        max_tokens=shape.max_tokens if shape.max_completion_tokens is None else shape.max_completion_tokens,
        temperature=shape.temperature,
        top_p=shape.top_p,
        top_k=shape.top_k,
        stop=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
    )


def _output(shape: FormatShape) -> OutputFormat | None:
    match shape.type:
        case "text":
            return None
        case "json_object":
            return OutputFormat()
        case "json_schema" if shape.json_schema is not None:
            return _schema_output(shape)
        case "json_schema":
            raise bad("response_format.json_schema", "an object with name and schema")
        case _:
            raise bad("response_format.type", "one of text, json_object, json_schema")


def _schema_output(shape: FormatShape) -> OutputFormat:
    wanted = shape.json_schema
    if wanted is None or not bytes(wanted.schema).startswith(b"{"):
        raise bad("response_format.json_schema.schema", "a JSON schema object")
    parse(_ANY, wanted.schema, "response_format.json_schema.schema")  # it is read again when it is built
    return OutputFormat(name=wanted.name or "output", schema=bytes(wanted.schema), strict=wanted.strict)


# ── Thinking: the spec's field, and the two that other upstreams of this protocol have ───────────


def _reasoning(shape: RequestShape) -> Reasoning:
    effort: Any = shape.reasoning_effort
    if effort in _EFFORTS:
        return Reasoning(effort=effort)
    if shape.thinking:
        return _from_thinking(_object(shape.thinking, "thinking"))
    if shape.reasoning:
        return _from_reasoning(_object(shape.reasoning, "reasoning"))
    return _UNREASONED


def _from_thinking(thinking: dict[str, Any]) -> Reasoning:
    match thinking:
        case {"type": "disabled"}:
            return Reasoning(mode="off")
        case {"type": "enabled", "budget_tokens": int(budget)}:
            return Reasoning(mode="budget", budget=budget)
        case {"type": "adaptive" | "enabled" | "auto"}:
            return Reasoning(mode="adaptive")
        case _:
            return Reasoning()


def _from_reasoning(reasoning: dict[str, Any]) -> Reasoning:
    match reasoning:
        case {"enabled": False}:
            return Reasoning(mode="off")
        case {"max_tokens": int(budget)}:
            return Reasoning(mode="budget", budget=budget)
        case {"effort": str(effort)} if effort in _EFFORTS:
            return msgspec.convert({"effort": effort}, Reasoning)
        case {"enabled": True}:
            return Reasoning(mode="adaptive")
        case _:
            return Reasoning()


def _object(raw: Raw, at: str) -> dict[str, Any]:
    value = parse(_ANY, raw, at)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"`{at}`: expected an object", at)
    return value
