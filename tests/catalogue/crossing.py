"""An answer on its way through the gateway, as a client of any protocol sees it.

`cross` takes what an upstream sent, byte for byte, through that protocol's reader and a client protocol's writer, and
reads the result the way a client would: with a plain JSON parser, not with our own reader, so that a mistake made on
both sides is seen. Everything that is shown to the client is also checked against the official SDK's own types.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from pydantic import TypeAdapter

from tests.grammar import check
from tests.shapes import check_stream
from tieline.model.assemble import fold
from tieline.model.errors import LegFailed
from tieline.model.events import Event, Note
from tieline.wire import anthropic, openai_chat, openai_responses
from tieline.wire.shared.spelling import ToolNames

Protocol = Literal["anthropic", "openai_chat"]
PROTOCOLS: tuple[Protocol, ...] = ("anthropic", "openai_chat")
Client = Literal["anthropic", "openai_chat", "openai_responses"]
CLIENTS: tuple[Client, ...] = (*PROTOCOLS, "openai_responses")

_ANTHROPIC_EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)


class Crossing(NamedTuple):
    """Where an answer goes: to which client protocol, streamed or whole, with arguments in which delivery."""

    client: Client
    stream: bool
    arguments: Literal["buffered", "incremental"] = "buffered"

    @property
    def asked(self) -> Protocol:
        """The protocol of the request, for tests that begin with one: that of the client, or a similar one."""
        return "anthropic" if self.client == "anthropic" else "openai_chat"


MODES: tuple[Literal["buffered", "incremental"], ...] = ("buffered", "incremental")
STREAMS = tuple(Crossing(client, True, mode) for client, mode in product(CLIENTS, MODES))
CROSSINGS = (*STREAMS, *(Crossing(client, False) for client in CLIENTS))
"""Every way to a client."""


@dataclass
class Call:
    """A tool call as a client puts it together; `pieces` are the argument deltas as they came."""

    id: str
    name: str
    pieces: list[str] = field(default_factory=list)
    index: int = 0

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass
class Seen:
    """What the client has in the end."""

    text: str = ""
    thinking: str = ""
    signature: str = ""
    refusal: str = ""
    calls: list[Call] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    """The kinds of parts in the order they appeared: text, thinking, call, or another block's type."""
    finish: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    frames: list[dict[str, Any]] = field(default_factory=list)
    """Every JSON object the client was sent."""
    raw: bytes = b""
    notes: list[Note] = field(default_factory=list)

    @property
    def arguments(self) -> list[str]:
        return [call.arguments for call in self.calls]

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    def add(self, kind: str) -> None:
        if not self.order or self.order[-1] != kind or kind == "call":
            self.order.append(kind)


def events_of(data: bytes, upstream: Protocol, *, spelled: ToolNames | None = None, whole: bool = False) -> list[Event]:
    """The events of what an upstream sent: a stream, or a whole JSON body."""
    spelled = spelled or ToolNames()
    if whole:
        read_reply = anthropic.read_reply if upstream == "anthropic" else openai_chat.read_reply
        events = read_reply(data, spelled, fallback_id="fallback", model="m")
    else:
        reader_of = anthropic.ResponseReader if upstream == "anthropic" else openai_chat.ResponseReader
        reader = reader_of(spelled, fallback_id="fallback", model="m")
        events = [*reader.feed(data), *reader.close()]
    check(events)
    return events


def cross(
    data: bytes, upstream: Protocol, crossing: Crossing, *, spelled: ToolNames | None = None, whole: bool = False
) -> Seen:
    """What a client sees of what an upstream sent."""
    return shown(events_of(data, upstream, spelled=spelled, whole=whole), crossing)


def shown(events: Sequence[Event], crossing: Crossing) -> Seen:
    """What a client sees of a leg."""
    seen = _SHOW[crossing.client](events, crossing)
    seen.notes = [event for event in events if isinstance(event, Note)]
    return seen


# ── Chat Completions, as a client reads it ──────────────────────────────────────────────────────


def _openai(events: Sequence[Event], crossing: Crossing) -> Seen:
    options = openai_chat.Options(created=1, arguments=crossing.arguments, usage=True)
    seen = Seen()
    if not crossing.stream:
        try:
            seen.raw = openai_chat.render(fold(events), options)
        except LegFailed as failed:
            seen.raw = openai_chat.render_error(failed)
            seen.error = json.loads(seen.raw)["error"]
            return seen
        body = json.loads(seen.raw)
        ChatCompletion.model_validate(body)
        seen.frames = [body]
        seen.usage = body["usage"]
        _openai_message(seen, body["choices"][0]["message"])
        seen.finish = body["choices"][0]["finish_reason"]
        return seen
    writer = openai_chat.ResponseWriter(options)
    seen.raw = b"".join(writer.write(event) for event in events)
    for data in _data_lines(seen.raw):
        if data == "[DONE]":
            continue
        frame = json.loads(data)
        seen.frames.append(frame)
        if frame.get("error"):
            seen.error = frame["error"]
            continue
        ChatCompletionChunk.model_validate(frame)
        seen.usage = frame.get("usage") or seen.usage
        for choice in frame["choices"]:
            _openai_delta(seen, choice["delta"])
            seen.finish = choice["finish_reason"] or seen.finish
    return seen


def _openai_message(seen: Seen, message: dict[str, Any]) -> None:
    thinking = message.get("reasoning_content") or ""
    if thinking:
        seen.thinking = thinking
        seen.add("thinking")
    if message["content"]:
        seen.text = message["content"]
        seen.add("text")
    seen.refusal = message.get("refusal") or ""
    for index, call in enumerate(message.get("tool_calls") or []):
        body = call.get("function") or call["custom"]
        pieces = [body.get("arguments", body.get("input", ""))]
        seen.calls.append(Call(call["id"], body["name"], pieces, index))
        seen.add("call")


def _openai_delta(seen: Seen, delta: dict[str, Any]) -> None:
    if delta.get("reasoning_content"):
        seen.thinking += delta["reasoning_content"]
        seen.add("thinking")
    if delta.get("content"):
        seen.text += delta["content"]
        seen.add("text")
    seen.refusal += delta.get("refusal") or ""
    for call in delta.get("tool_calls") or []:
        body = call.get("function") or call.get("custom") or {}
        if call.get("id"):
            seen.calls.append(Call(call["id"], body["name"], [], call["index"]))
            seen.add("call")
        piece = body.get("arguments", body.get("input", ""))
        if piece:
            next(known for known in seen.calls if known.index == call["index"]).pieces.append(piece)


# ── Anthropic Messages, as a client reads it ────────────────────────────────────────────────────


def _anthropic(events: Sequence[Event], crossing: Crossing) -> Seen:
    options = anthropic.Options(arguments=crossing.arguments)
    seen = Seen()
    if not crossing.stream:
        try:
            seen.raw = anthropic.render(fold(events), options)
        except LegFailed as failed:
            seen.raw = anthropic.render_error(failed)
            seen.error = json.loads(seen.raw)["error"]
            return seen
        body = json.loads(seen.raw)
        AnthropicMessage.model_validate(body)
        seen.frames = [body]
        seen.usage = body["usage"]
        seen.finish = body["stop_reason"]
        for block in body["content"]:
            _anthropic_block(seen, block)
            if block["type"] == "tool_use":
                seen.calls[-1].pieces.append(json.dumps(block["input"]))
        return seen
    writer = anthropic.ResponseWriter(options)
    seen.raw = b"".join(writer.write(event) for event in events)
    for data in _data_lines(seen.raw):
        frame = json.loads(data)
        seen.frames.append(frame)
        if frame["type"] == "error":
            seen.error = frame["error"]
            continue
        _ANTHROPIC_EVENT.validate_python(frame)
        _anthropic_frame(seen, frame)
    return seen


def _anthropic_frame(seen: Seen, frame: dict[str, Any]) -> None:
    match frame["type"]:
        case "message_start":
            seen.usage.update(frame["message"]["usage"])
        case "content_block_start":
            _anthropic_block(seen, frame["content_block"])
        case "content_block_delta":
            _anthropic_delta(seen, frame["delta"])
        case "message_delta":
            seen.finish = frame["delta"]["stop_reason"]
            seen.usage.update({name: value for name, value in frame["usage"].items() if value is not None})
        case _:
            pass


def _anthropic_block(seen: Seen, block: dict[str, Any]) -> None:
    match block["type"]:
        case "text":
            seen.text += block["text"]
            seen.add("text")
        case "thinking":
            seen.thinking += block["thinking"]
            seen.signature += block["signature"]
            seen.add("thinking")
        case "tool_use":
            seen.calls.append(Call(block["id"], block["name"], [], len(seen.calls)))
            seen.add("call")
        case kind:
            seen.add(kind)


def _anthropic_delta(seen: Seen, delta: dict[str, Any]) -> None:
    match delta["type"]:
        case "text_delta":
            seen.text += delta["text"]
        case "thinking_delta":
            seen.thinking += delta["thinking"]
        case "signature_delta":
            seen.signature += delta["signature"]
        case "input_json_delta" if delta["partial_json"]:
            seen.calls[-1].pieces.append(delta["partial_json"])
        case _:
            pass


# ── Responses, as a client reads it ─────────────────────────────────────────────────────────────

_CHAT_WORDS = {"max_output_tokens": "length", "content_filter": "content_filter"}


def _responses(events: Sequence[Event], crossing: Crossing) -> Seen:
    """What a client sees; the ending and the usage are put in the words of Chat Completions, to compare them."""
    options = openai_responses.Options(created=1, response_id="resp_1", arguments=crossing.arguments, encrypted=True)
    seen = Seen()
    if not crossing.stream:
        try:
            seen.raw = openai_responses.render(fold(events), options)
        except LegFailed as failed:
            seen.raw = openai_responses.render_error(failed)
            seen.error = json.loads(seen.raw)["error"]
            return seen
        response = json.loads(seen.raw)
        seen.frames = [response]
        for item in response["output"]:
            _responses_item(seen, item)
        _responses_end(seen, response)
        return seen
    writer = openai_responses.ResponseWriter(options)
    seen.raw = b"".join(writer.write(event) for event in events)
    check_stream("openai_responses", seen.raw, typed=False)
    for data in _data_lines(seen.raw):
        frame = json.loads(data)
        seen.frames.append(frame)
        _responses_frame(seen, frame)
    return seen


def _responses_frame(seen: Seen, frame: dict[str, Any]) -> None:
    match frame["type"].removeprefix("response."):
        case "output_text.delta":
            seen.text += frame["delta"]
            seen.add("text")
        case "refusal.delta":
            seen.refusal += frame["delta"]
        case "reasoning_summary_text.delta":
            seen.thinking += frame["delta"]
            seen.add("thinking")
        case "output_item.added" if frame["item"]["type"] in _RESPONSES_CALLS:
            item = frame["item"]
            seen.calls.append(Call(item["call_id"], item["name"], [], len(seen.calls)))
            seen.add("call")
        case "function_call_arguments.delta" | "custom_tool_call_input.delta":
            seen.calls[-1].pieces.append(frame["delta"])
        case "completed" | "incomplete" | "failed":
            _responses_end(seen, frame["response"])
        case _:
            pass


_RESPONSES_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}


def _responses_item(seen: Seen, item: dict[str, Any]) -> None:
    for part in item.get("summary", ()):
        seen.thinking += part["text"]
        seen.add("thinking")
    for part in item.get("content", ()):
        seen.refusal += part.get("refusal", "")
        if part.get("text"):
            seen.text += part["text"]
            seen.add("text")
    if item["type"] in _RESPONSES_CALLS:
        arguments = item[_RESPONSES_CALLS[item["type"]]]
        seen.calls.append(Call(item["call_id"], item["name"], [arguments], len(seen.calls)))
        seen.add("call")


def _responses_end(seen: Seen, response: dict[str, Any]) -> None:
    if response["status"] == "failed":
        seen.error = response["error"]
        return
    Response.model_validate(response)
    usage = response["usage"]
    seen.usage = {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
        "prompt_tokens_details": usage["input_tokens_details"],
        "completion_tokens_details": usage["output_tokens_details"],
    }
    if response["status"] == "incomplete":
        for call, item in zip(seen.calls, _call_items(response), strict=True):
            call.pieces = call.pieces or [item[_RESPONSES_CALLS[item["type"]]]]  # a call that was cut off
        seen.finish = _CHAT_WORDS[response["incomplete_details"]["reason"]]
    else:
        seen.finish = "tool_calls" if seen.calls else "stop"


def _call_items(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in response["output"] if item["type"] in _RESPONSES_CALLS]


_SHOW: dict[Client, Callable[[Sequence[Event], Crossing], Seen]] = {
    "anthropic": _anthropic,
    "openai_chat": _openai,
    "openai_responses": _responses,
}


def _data_lines(raw: bytes) -> list[str]:
    return [line[6:] for line in raw.decode().split("\n") if line.startswith("data: ")]


# ── what upstreams send ─────────────────────────────────────────────────────────────────────────


def sse(*frames: dict[str, Any] | str, named: bool = False) -> bytes:
    """A stream of server-sent events; with `named`, each has its type as the event's name."""
    lines = []
    for frame in frames:
        data = frame if isinstance(frame, str) else json.dumps(frame)
        name = f"event: {frame['type']}\n" if named and isinstance(frame, dict) else ""
        lines.append(f"{name}data: {data}\n\n")
    return "".join(lines).encode()


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk of a Chat Completions stream."""
    return {
        "id": "chatcmpl-up",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "up",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
        **fields,
    }


def call_delta(index: int, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    """A delta of one tool call; `id` and `name` go in the usual places."""
    function: dict[str, Any] = {}
    if "name" in fields:
        function["name"] = fields.pop("name")
    if arguments is not None:
        function["arguments"] = arguments
    return {"tool_calls": [{"index": index, **fields, "function": function}]}


def chat_stream(*deltas: dict[str, Any], finish: str | None = "stop", done: bool = True) -> bytes:
    """A whole Chat Completions stream of these deltas."""
    frames: list[dict[str, Any] | str] = [chunk(delta) for delta in deltas]
    if finish is not None:
        frames.append(chunk(finish=finish))
    return sse(*frames, *(["[DONE]"] if done else []))


def message_stream(*frames: dict[str, Any], stop: str | None = "end_turn", **delta: Any) -> bytes:
    """A whole Messages stream around these block frames."""
    start = {
        "type": "message_start",
        "message": {
            "id": "msg_up",
            "type": "message",
            "role": "assistant",
            "model": "up",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1},
        },
    }
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": None, **delta},
        "usage": {"output_tokens": 5},
    }
    return sse(start, *frames, end, {"type": "message_stop"}, named=True)


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """The frames of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def tool_block(index: int, call_id: str, name: str, *pieces: str, start: Any = None) -> list[dict[str, Any]]:
    """The frames of one tool_use block, its arguments in pieces."""
    content = {"type": "tool_use", "id": call_id, "name": name, "input": {} if start is None else start}
    return block(index, content, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def text_block(index: int, *pieces: str) -> list[dict[str, Any]]:
    """The frames of one text block."""
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))
