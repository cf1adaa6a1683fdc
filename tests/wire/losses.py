"""What a protocol cannot say: every difference between a common case and what comes back, with its reason."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.model.content import NO_META, Message, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import Event, PartDelta, PartEnd, PartStart, StopReason
from tieline.model.request import Reasoning, Request

T = TypeVar("T")

FREEFORM_SCHEMA = b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}'
REFUSED = {"anthropic": {"stop_details": '{"type":"refusal","category":null,"explanation":null}'}}


@dataclass(frozen=True)
class Loss(Generic[T]):
    """Why a case does not come back as it went, and what comes back instead."""

    reason: str
    expected: Callable[[T], T]


def _changed(**fields: Any) -> Callable[[Request], Request]:
    return lambda request: replace(request, **fields)


def _sampled(**fields: Any) -> Callable[[Request], Request]:
    return lambda request: replace(request, sampling=replace(request.sampling, **fields))


def _thought(spelled: str) -> Callable[[Request], Request]:
    meta = {"anthropic": {"thinking": spelled}}
    return lambda request: replace(request, reasoning=replace(request.reasoning, meta=meta))


def _one_system(request: Request) -> Request:
    first, second, *rest = request.messages
    return replace(request, messages=(replace(first, parts=first.parts + second.parts), *rest))


def _without_thinking(request: Request) -> Request:
    messages = [
        replace(message, parts=tuple(part for part in message.parts if not isinstance(part, Thinking)))
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _as_functions(request: Request) -> Request:
    tools = [replace(tool, freeform=False, schema=FREEFORM_SCHEMA) for tool in request.tools]
    messages = [
        replace(message, parts=tuple(_as_function(part) for part in message.parts)) for message in request.messages
    ]
    return replace(request, tools=tuple(tools), messages=tuple(messages))


def _as_function(part: Part) -> Part:
    if isinstance(part, ToolCall) and part.freeform:
        return replace(part, freeform=False, arguments=wrapped(part.arguments))
    return part


def _unsigned(request: Request) -> Request:
    messages = [
        replace(message, parts=tuple(_unsigned_part(part) for part in message.parts)) for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _unsigned_part(part: Part) -> Part:
    return replace(part, signature=None) if isinstance(part, Thinking) else part


def _error_in_words(request: Request) -> Request:
    *before, last = request.messages
    said = ToolResult(call_id="call_1", content=(Text(text="Error: no such file"),))
    return replace(request, messages=(*before, replace(last, parts=(said,))))


def _result_apart(request: Request) -> Request:
    *before, last = request.messages
    apart = (replace(last, parts=(part,)) for part in last.parts)
    return replace(request, messages=(*before, *apart))


def _file_in_words(request: Request) -> Request:
    (message,) = request.messages
    words = Text(text="[file: https://example.com/a.pdf]")
    return replace(request, messages=(replace(message, parts=(words, *message.parts[1:])),))


def wrapped(text: str) -> str:
    """Raw text as the arguments of a function with one field."""
    return msgspec.json.encode({"input": text}).decode()


def _json_in_words(request: Request) -> Request:
    words = Text(text="Answer with one JSON object and nothing else: no explanation, no code fence.")
    return replace(request, output=None, messages=(Message(role="system", parts=(words,)), *request.messages))


def _leg_as_function(events: list[Event]) -> list[Event]:
    return [_event_as_function(event) for event in events]


def _event_as_function(event: Event) -> Event:
    match event:
        case PartDelta():
            return replace(event, text=wrapped(event.text))
        case PartStart(part=ToolCall() as call):
            return replace(event, part=replace(call, freeform=False))
        case PartEnd():
            return replace(event, part=_as_function(event.part))
        case _:
            return event


def _ending(**fields: Any) -> Callable[[list[Event]], list[Event]]:
    def changed(events: list[Event]) -> list[Event]:
        ending = events[-1]
        return [*events[:-1], replace(ending, **fields)]

    return changed


def _leg_unsigned(events: list[Event]) -> list[Event]:
    return [
        replace(event, part=_unsigned_part(event.part)) if isinstance(event, PartEnd) else event for event in events
    ]


def _without_first_part(events: list[Event]) -> list[Event]:
    return [
        replace(event, index=event.index - 1) if isinstance(event, PartStart | PartDelta | PartEnd) else event
        for event in events
        if not (isinstance(event, PartStart | PartDelta | PartEnd) and event.index == 0)
    ]


def _plain_refusal(events: list[Event]) -> list[Event]:
    return [
        replace(event, part=replace(event.part, refusal=False))
        if isinstance(event, PartStart | PartEnd) and isinstance(event.part, Text)
        else event
        for event in _ending(meta=REFUSED)(events)
    ]


def _invalid(events: list[Event]) -> list[Event]:
    """Arguments that are no JSON, kept inside an object."""
    (text,) = [event.text for event in events if isinstance(event, PartDelta)]
    kept = msgspec.json.encode({"_invalid_json": text}).decode()
    return [
        replace(event, text=kept)
        if isinstance(event, PartDelta)
        else replace(event, part=replace(event.part, arguments=kept))
        if isinstance(event, PartEnd) and isinstance(event.part, ToolCall)
        else event
        for event in events
    ]


def _stateless(request: Request) -> Request:
    messages = [
        replace(message, parts=tuple(_stateless_part(part) for part in message.parts), meta=NO_META)
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))


def _stateless_part(part: Part) -> Part:
    return replace(part, meta=NO_META) if isinstance(part, ToolCall) else part


def _leg_stateless(events: list[Event]) -> list[Event]:
    return [
        replace(event, part=_stateless_part(event.part)) if isinstance(event, PartStart | PartEnd) else event
        for event in _ending(meta=NO_META)(events)
    ]


def _worded_refusal(events: list[Event]) -> list[Event]:
    return _ending(reason=StopReason.REFUSAL)(_plain_refusal(events))


def _unmarked(request: Request) -> Request:
    messages = [
        replace(message, parts=tuple(replace(part, meta=NO_META) for part in message.parts))
        for message in request.messages
    ]
    tools = [replace(tool, meta=NO_META) for tool in request.tools]
    return replace(request, messages=tuple(messages), tools=tuple(tools))


_NOT_OPENAI = Loss("only encrypted reasoning of the upstream itself can be sent back", _without_thinking)
_MORE_TOKENS = Loss("16 tokens are the least", _sampled(max_tokens=16))

REQUEST_LOSSES: Mapping[tuple[str, str], Loss[Request]] = {
    ("anthropic", "no max_tokens"): Loss("the field is required, so a default is sent", _sampled(max_tokens=32000)),
    ("anthropic", "several systems"): Loss("there is one system prompt, with a block for each", _one_system),
    ("anthropic", "thinking unsigned"): Loss("the API refuses thinking that it did not sign", _without_thinking),
    ("anthropic", "provider state"): Loss("it belongs to upstreams of another protocol", _stateless),
    ("anthropic", "a freeform call"): Loss("there are no freeform tools", _as_functions),
    ("anthropic", "a freeform tool"): Loss("there are no freeform tools", _as_functions),
    ("anthropic", "choice of several"): Loss(
        "a choice has one name or none, so only the chosen tools are offered",
        lambda request: replace(request, tools=request.tools[:2], tool_choice=replace(request.tool_choice, names=())),
    ),
    ("anthropic", "temperature and top_p"): Loss("models refuse both at once", _sampled(top_p=None)),
    ("anthropic", "reasoning off"): Loss("kept as it was said too", _thought('{"type":"disabled"}')),
    ("anthropic", "reasoning budget"): Loss(
        "kept as it was said too", _thought('{"type":"enabled","budget_tokens":4096}')
    ),
    ("anthropic", "reasoning adaptive"): Loss("kept as it was said too", _thought('{"type":"adaptive"}')),
    ("anthropic", "output json"): Loss(
        "there is no JSON without a schema, so it is asked for in words", _json_in_words
    ),
    ("anthropic", "output named and strict"): Loss(
        "a schema has no name and is always strict",
        lambda request: replace(request, output=replace(request.output, name="output", strict=None)),  # type: ignore[type-var]  # it is there
    ),
    ("anthropic", "user"): Loss("kept as it was said too", _changed(extra={"metadata": Raw(b'{"user_id":"user-1"}')})),
    ("anthropic", "cache key"): Loss("there is no such field", _changed(cache_key=None)),
    ("openai_chat", "thinking signed"): Loss("there is no place for a signature", _unsigned),
    ("openai_chat", "thinking before a call"): Loss("there is no place for a signature", _unsigned),
    ("openai_chat", "thinking redacted"): Loss("there is no place for a signature", _without_thinking),
    ("openai_chat", "file url"): Loss(
        "a file is data, or an id of the upstream's own, so its address is told in words", _file_in_words
    ),
    ("openai_chat", "an error result"): Loss("a result cannot be marked as an error, so it says so", _error_in_words),
    ("openai_chat", "a result and more text"): Loss("a result is a message of its own", _result_apart),
    ("openai_chat", "reasoning off"): Loss("not every model can be told not to think", _changed(reasoning=Reasoning())),
    ("openai_chat", "reasoning budget"): Loss(
        "there is only the coarse way to say it", _changed(reasoning=Reasoning(effort="medium"))
    ),
    ("openai_chat", "reasoning adaptive"): Loss("it is the default", _changed(reasoning=Reasoning())),
    ("openai_responses", "thinking signed"): _NOT_OPENAI,
    ("openai_responses", "thinking before a call"): _NOT_OPENAI,
    ("openai_responses", "thinking redacted"): _NOT_OPENAI,
    ("openai_responses", "thinking unsigned"): _NOT_OPENAI,
    ("openai_responses", "provider state"): Loss("it belongs to upstreams of another protocol", _stateless),
    ("openai_responses", "a result and more text"): Loss("a result is an item of its own", _result_apart),
    ("openai_responses", "temperature and stop"): Loss(
        "there are no stop sequences, and 16 tokens are the least", _sampled(max_tokens=16, stop=())
    ),
    ("openai_responses", "top_p"): _MORE_TOKENS,
    ("openai_responses", "temperature and top_p"): _MORE_TOKENS,
    ("openai_responses", "top_k"): Loss(
        "there is no such field, and 16 tokens are the least", _sampled(max_tokens=16, top_k=None)
    ),
    ("openai_responses", "reasoning off"): Loss(
        "not every model can be told not to think", _changed(reasoning=Reasoning())
    ),
    ("openai_responses", "reasoning budget"): Loss(
        "there is only the coarse way to say it", _changed(reasoning=Reasoning(effort="medium"))
    ),
    ("openai_responses", "reasoning adaptive"): Loss("it is the default", _changed(reasoning=Reasoning())),
    ("openai_responses", "cache marks"): Loss("there are none", _unmarked),
}

_NO_FREEFORM = Loss("there are no freeform tools", _leg_as_function)
_NOT_CANCELLED = Loss("there is no such reason", _ending(reason=StopReason.END_TURN))
_DETAILED = Loss("a refusal comes with details", _ending(meta=REFUSED))
_PLAIN = Loss("words of a refusal are plain text", _plain_refusal)

LEG_LOSSES: Mapping[tuple[str, str], Loss[list[Event]]] = {
    ("anthropic", "a freeform call"): _NO_FREEFORM,
    ("anthropic", "ends with cancelled"): _NOT_CANCELLED,
    ("anthropic", "ends with refusal"): _DETAILED,
    ("anthropic", "refusal in words"): _PLAIN,
    ("anthropic", "refusal with an ordinary ending"): Loss("a refusal is an ending of its own", _worded_refusal),
    ("anthropic", "provider state"): Loss("the gateway remembers it instead", _leg_stateless),
    ("openai_chat", "thinking signed"): Loss("there is no place for a signature", _leg_unsigned),
    ("openai_chat", "thinking redacted"): Loss("there is no place for a signature", _without_first_part),
    ("openai_chat", "ends with context_full"): Loss("it is one of two lengths", _ending(reason=StopReason.MAX_TOKENS)),
    ("openai_chat", "ends with paused"): Loss("there is no such reason", _ending(reason=StopReason.END_TURN)),
    ("openai_chat", "ends with cancelled"): _NOT_CANCELLED,
    ("openai_responses", "stop sequence"): Loss(
        "there are no stop sequences", _ending(reason=StopReason.END_TURN, sequence=None)
    ),
    ("openai_responses", "refusal in words"): Loss(
        "a refusal is content, not an ending", _ending(reason=StopReason.END_TURN)
    ),
    ("openai_responses", "provider state"): Loss("the gateway remembers it instead", _leg_stateless),
    ("openai_responses", "ends with context_full"): Loss(
        "it is one of two lengths", _ending(reason=StopReason.MAX_TOKENS)
    ),
    ("openai_responses", "ends with paused"): Loss("there is no such reason", _ending(reason=StopReason.END_TURN)),
    ("openai_responses", "ends with cancelled"): _NOT_CANCELLED,
}
REPLY_LOSSES: Mapping[tuple[str, str], Loss[list[Event]]] = {
    **LEG_LOSSES,
    ("anthropic", "a call cut short"): Loss("input is an object, also of a call that was cut", _invalid),
}
