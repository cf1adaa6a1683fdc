"""The answer to a client that speaks Chat Completions: written event by event, or rendered whole.

A stream has one id, one time and one model; the role stands in the first chunk only. Calls are counted by themselves,
and id, type and name stand in the first delta of each. With *buffered* arguments a call is one such delta and one with
all of its arguments, because some clients act on the first prefix that parses.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, assert_never

from tieline.model.content import File, Foreign, Image, Part, Text, Thinking, ToolCall, ToolResult, Value
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    Started,
    StopReason,
    Usage,
)
from tieline.wire.json import encode
from tieline.wire.openai_chat.errors import render_failed

KEEP_ALIVE = b": keep-alive\n"
"""A comment without a blank line: with one, some clients take it for an event."""

_FINISH: dict[StopReason, bytes] = {
    StopReason.END_TURN: b'"stop"',
    StopReason.STOP_SEQUENCE: b'"stop"',
    StopReason.PAUSED: b'"stop"',
    StopReason.CANCELLED: b'"stop"',
    StopReason.TOOL_USE: b'"tool_calls"',
    StopReason.MAX_TOKENS: b'"length"',
    StopReason.CONTEXT_FULL: b'"length"',
    StopReason.REFUSAL: b'"content_filter"',
}
_NOTHING = (b"", b"")
_NO_USAGE = Usage()


class Options(Value):
    """How one client wants its answer."""

    created: int = 0
    arguments: Literal["buffered", "incremental"] = "buffered"
    usage: bool = True
    reasoning: Literal["reasoning_content", "reasoning", "none"] = "reasoning_content"


_DEFAULT = Options()


class ResponseWriter:
    """Give it the events of one leg; it gives whole server-sent events."""

    def __init__(self, options: Options = _DEFAULT) -> None:
        self._options = options
        self._head = b""
        self._tail = b'},"logprobs":null,"finish_reason":null}]' + (
            b',"usage":null}\n\n' if options.usage else b"}\n\n"
        )
        self._around = _NOTHING
        """What stands before and after the text of a delta of the open part; nothing if it has no place here."""
        self._calls = 0
        self._unsaid = False
        """Whether the open call still lacks its arguments."""
        self._refused = False
        self._usage = _NO_USAGE
        self._ended = False

    def write(self, event: Event) -> bytes:
        """The bytes for one event; none when it says nothing in this protocol."""
        if isinstance(event, PartDelta):
            before, after = self._around
            if not before or not event.text:
                return b""
            self._unsaid = False
            return before + encode(event.text) + after
        return b"" if self._ended else self._write_rare(event)

    def _write_rare(self, event: Event) -> bytes:
        match event:
            case PartStart():
                return self._start(event.part)
            case PartEnd():
                return self._end(event.part)
            case Started():
                return self._begin(event)
            case Usage():
                self._usage = event
                return b""
            case Note() | PartDelta():
                return b""
            case Finished():
                return self._finish(event)
            case Failed():
                self._ended = True
                self._around = _NOTHING
                return b"data: " + render_failed(event) + b"\n\n"
            case _:
                assert_never(event)

    def _begin(self, started: Started) -> bytes:
        self._head = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,' % (
            encode(started.id),
            self._options.created,
            encode(started.model),
        )
        return self._chunk(b'"role":"assistant","content":""')

    def _chunk(self, delta: bytes) -> bytes:
        return self._head + b'"choices":[{"index":0,"delta":{' + delta + self._tail

    # ── Parts ────────────────────────────────────────────────────────────────────────────────────

    def _start(self, part: Part) -> bytes:
        match part:
            case Text():
                self._refused = self._refused or part.refusal
                self._around = self._field(b"refusal" if part.refusal else b"content")
            case Thinking() if self._options.reasoning != "none":
                self._around = self._field(self._options.reasoning.encode())
            case ToolCall():
                return self._start_call(part)
            case Thinking() | Image() | File() | ToolResult() | Foreign():
                self._around = _NOTHING
            case _:
                assert_never(part)
        return b""

    def _field(self, name: bytes) -> tuple[bytes, bytes]:
        return self._head + b'"choices":[{"index":0,"delta":{"' + name + b'":', self._tail

    def _start_call(self, call: ToolCall) -> bytes:
        self._unsaid = True
        self._around = self._arguments(call) if self._options.arguments == "incremental" else _NOTHING
        kind, field = _words(call)
        return self._chunk(
            b'"tool_calls":[{"index":%d,"id":%b,"type":"%b","%b":{"name":%b,"%b":""}}]'
            % (self._calls, encode(call.id), kind, kind, encode(call.name), field)
        )

    def _arguments(self, call: ToolCall) -> tuple[bytes, bytes]:
        before = self._head + b'"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"%b":{"%b":' % (
            self._calls,
            *_words(call),
        )
        return before, b"}}]" + self._tail

    def _end(self, part: Part) -> bytes:
        written = b""
        if isinstance(part, ToolCall):
            arguments = _final(part)
            if self._unsaid and arguments:
                before, after = self._arguments(part)
                written = before + encode(arguments) + after
            self._calls += 1
        self._around = _NOTHING
        return written

    # ── Endings ──────────────────────────────────────────────────────────────────────────────────

    def _finish(self, finished: Finished) -> bytes:
        self._ended = True
        written = b""
        if finished.reason is StopReason.REFUSAL and finished.detail and not self._refused:
            written = self._chunk(b'"refusal":' + encode(finished.detail))
        fired = b"" if finished.sequence is None else b',"stop_reason":' + encode(finished.sequence)
        written += (
            self._head
            + b'"choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":'
            + _FINISH[finished.reason]
            + fired
            + (b'}],"usage":null}\n\n' if self._options.usage else b"}]}\n\n")
        )
        if self._options.usage:
            written += self._head + b'"choices":[],"usage":' + encode(_usage(self._usage)) + b"}\n\n"
        return written + b"data: [DONE]\n\n"


def render(reply: Reply, options: Options = _DEFAULT) -> bytes:
    """The body of an answer that does not stream."""
    finished = reply.finished
    choice: dict[str, Any] = {
        "index": 0,
        "message": _message(reply.parts, finished, options),
        "logprobs": None,
        "finish_reason": _FINISH[finished.reason].strip(b'"').decode(),
    }
    if finished.sequence is not None:
        choice["stop_reason"] = finished.sequence
    return encode(
        {
            "id": reply.id,
            "object": "chat.completion",
            "created": options.created,
            "model": reply.model,
            "choices": [choice],
            "usage": _usage(reply.usage),
        }
    )


def _message(parts: Sequence[Part], finished: Finished, options: Options) -> dict[str, Any]:
    texts = [part.text for part in parts if isinstance(part, Text) and not part.refusal]
    refusals = [part.text for part in parts if isinstance(part, Text) and part.refusal]
    calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
    detail = finished.detail if finished.reason is StopReason.REFUSAL else None
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(texts) if texts or not calls else None,
        "refusal": "".join(refusals) or detail,
    }
    thoughts = _thoughts(parts)
    if thoughts and options.reasoning != "none":
        message[options.reasoning] = thoughts
    if calls:
        message["tool_calls"] = calls
    return message


def _thoughts(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Thinking) and not part.redacted)


def _call(call: ToolCall) -> dict[str, Any]:
    kind, field = (word.decode() for word in _words(call))
    return {"id": call.id, "type": kind, kind: {"name": call.name, field: _final(call)}}


def _words(call: ToolCall) -> tuple[bytes, bytes]:
    return (b"custom", b"input") if call.freeform else (b"function", b"arguments")


def _final(call: ToolCall) -> str:
    """A function that takes nothing is called with an empty object, not with nothing."""
    return call.arguments if call.freeform or call.arguments.strip() else "{}"


def _usage(usage: Usage) -> dict[str, Any]:
    details = {"cached_tokens": usage.cache_read}
    if usage.cache_write:
        details["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.prompt + usage.output,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
