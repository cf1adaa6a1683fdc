"""Parse a client's Chat Completions request.

Fields without an equivalent in `Request` are kept as JSON in `Request.extra`. The request also keeps the JSON that it
was parsed from, for an upstream that uses the same protocol (see `model.source`).
"""

from typing import Any, get_args

import msgspec
from msgspec import Raw
from msgspec.structs import astuple, replace

from tieline.model.errors import BadRequest
from tieline.model.request import Effort, OutputFormat, Reasoning, Request, RequestSource, Sampling, ToolChoice
from tieline.wire.openai_chat.parse_messages import ChatMessagesParser
from tieline.wire.openai_chat.parse_tools import LEGACY, parse_choice, parse_tools
from tieline.wire.openai_chat.schema import (
    PROTOCOL,
    THE_UNTRANSLATED,
    UNTRANSLATED,
    AnyRequestShape,
    FormatShape,
    RequestShape,
    SamplingFields,
    StreamOptions,
)
from tieline.wire.shared.blocks import read_system
from tieline.wire.shared.conversations import MIN_CACHED_BODY, ConversationCache
from tieline.wire.shared.fields import bad
from tieline.wire.shared.freeform import restore_calls
from tieline.wire.shared.json import encode, parse, parse_object, replace_lone_surrogates

_decode_known = msgspec.json.Decoder(RequestShape).decode
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
_ANY_REQUEST = msgspec.json.Decoder(AnyRequestShape)
_STREAM_OPTIONS = msgspec.json.Decoder(StreamOptions | None)
_FORMAT = msgspec.json.Decoder(FormatShape | None)
_KNOWN = frozenset(RequestShape.__struct_fields__)
_EFFORTS: frozenset[Any] = frozenset(get_args(Effort))
_NULL = Raw(b"null")
_NO_REASONING = Reasoning()
_NO_CHOICE = ToolChoice()


class ResponsesBody(BadRequest):
    """The body is a request for the Responses API: it has `input` instead of `messages`.

    `usage` says whether the client wants token counts. For a stream, it requests them in `stream_options`, as in Chat
    Completions.
    """

    def __init__(self, usage: bool) -> None:
        super().__init__("`messages`: expected an array of at least one message, got `input` instead", "messages")
        self.usage = usage


def parse_request(body: bytes, cache: ConversationCache | None = None) -> Request:
    """Parse a request body. If a field is invalid, raise BadRequest with its path.

    Raise ResponsesBody if the body is a request for the Responses API.
    """
    try:
        return _parse(body, cache)
    except ResponsesBody:
        raise
    except BadRequest:
        repaired = replace_lone_surrogates(body)
        if repaired == body:
            raise
    return _parse(repaired, cache)


def is_legacy(request: Request) -> bool:
    """Return whether the client uses deprecated fields: it offers only `functions` and expects a `function_call`."""
    return bool(request.tools) and LEGACY in request.tools[-1].meta


def _parse(body: bytes, cache: ConversationCache | None) -> Request:
    if len(body) < MIN_CACHED_BODY:
        cache = None
    shape, unknown = _decode(body)
    if not shape.messages:
        if unknown.get("input", _NULL) != _NULL:
            raise ResponsesBody(_wants_usage(shape))
        raise bad("messages", "an array of at least one message")
    parser = ChatMessagesParser(cache)
    parser.parse(shape.messages)
    tools = parse_tools(shape, cache) if shape.tools or shape.functions else ()
    if tools and any(tool.freeform for tool in tools):
        restore_calls(parser.messages, parser.sources, tools, cache)
    system = read_system(unknown.pop("system")) if "system" in unknown else ()
    untranslated = astuple(shape)[THE_UNTRANSLATED]
    request = Request(
        model=shape.model or "",
        messages=(*system, *parser.messages),
        tools=tools,
        tool_choice=parse_choice(shape) if _has_choice(shape) else _NO_CHOICE,
        sampling=_sampling(shape),
        reasoning=_reasoning(shape),
        output=_output(shape.response_format) if shape.response_format else None,
        stream=bool(shape.stream),
        usage_in_stream=_wants_usage(shape),
        user=shape.user,
        cache_key=shape.prompt_cache_key,
        protocol=PROTOCOL,
        extra=_extra(shape, untranslated, unknown),
    )
    if system or shape.functions or shape.function_call:
        return request  # these fields are deprecated or not in the spec, so the upstream does not get the original JSON
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


# ── Fields other than the messages ───────────────────────────────────────────────────────────────


def _extra(shape: RequestShape, untranslated: tuple[Raw, ...], unknown: dict[str, Raw]) -> dict[str, Raw]:
    """Return the fields without an equivalent in `Request`, for `Request.extra`.

    Each value is copied, because a Raw is a view, and even a small one would keep the whole body in memory.
    """
    extra: dict[str, Raw] = {}
    if any(untranslated):
        fields = zip(UNTRANSLATED, untranslated, strict=True)
        extra = {name: raw.copy() for name, raw in fields if raw and raw != _NULL}
    for name, raw in unknown.items():
        extra[name] = raw.copy()
    if shape.n is not None and shape.n != 1:
        extra["n"] = Raw(encode(shape.n))
    if shape.reasoning_effort is not None and shape.reasoning_effort not in _EFFORTS:
        extra["reasoning_effort"] = Raw(encode(shape.reasoning_effort))
    return extra


def _has_choice(shape: RequestShape) -> bool:
    return not (
        shape.tool_choice is None
        and shape.parallel_tool_calls is None
        and shape.function_call is None
        and not shape.functions
    )


def _wants_usage(shape: SamplingFields) -> bool:
    options = parse(_STREAM_OPTIONS, shape.stream_options, "stream_options") if shape.stream_options else None
    return not shape.stream or (options is not None and bool(options.include_usage))


def _sampling(shape: SamplingFields) -> Sampling:
    stop = shape.stop
    return Sampling(
        max_tokens=shape.max_tokens if shape.max_completion_tokens is None else shape.max_completion_tokens,
        temperature=shape.temperature,
        top_p=shape.top_p,
        top_k=shape.top_k,
        stop=() if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
    )


def _output(raw: Raw) -> OutputFormat | None:
    shape = parse(_FORMAT, raw, "response_format")
    if shape is None:
        return None
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
    parse(_ANY, wanted.schema, "response_format.json_schema.schema")  # only to raise BadRequest for invalid JSON
    return OutputFormat(name=wanted.name or "output", schema=bytes(wanted.schema), strict=wanted.strict)


# ── Thinking: the field in the spec, and two fields from compatible upstreams ────────────────────


def _reasoning(shape: RequestShape) -> Reasoning:
    effort: Any = shape.reasoning_effort
    if effort in _EFFORTS:
        return Reasoning(effort=effort)
    if shape.thinking:
        return _from_thinking(_object(shape.thinking, "thinking"))
    if shape.reasoning:
        return _from_reasoning(_object(shape.reasoning, "reasoning"))
    return _NO_REASONING


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
