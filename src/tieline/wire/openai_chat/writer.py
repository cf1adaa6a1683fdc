"""Write the events of a leg as a Chat Completions answer: a stream, or one body.

All chunks of a stream have the same id, time and model; only the first one has the role. Calls are numbered from 0. The
first delta of a call has its id, type and name. With *buffered* arguments, a second delta has all arguments, because
some clients run a call as soon as the arguments they have received are valid JSON. The text of a freeform call is not
JSON. For clients that support only function calls, it is written as the arguments, without buffering.

Frames from an upstream that uses the same protocol are written unchanged (see `model.source`), unless the gateway has
to change the answer.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw

from tieline.model.content import NO_META, Meta, Part, Text, Thinking, ToolCall, state_of
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    Started,
    StopReason,
    Usage,
    source_of,
)
from tieline.model.source import AnswerSource
from tieline.wire.openai_chat.dialect import Options
from tieline.wire.openai_chat.errors import render_failed
from tieline.wire.openai_chat.schema import PROTOCOL, STATE_FIELDS
from tieline.wire.openai_chat.think_tags import ThinkTags, tagged_parts
from tieline.wire.shared.json import decode_any, encode, one_line
from tieline.wire.shared.sources import completed, first_frame, merged, with_model
from tieline.wire.shared.spelling import short_id

KEEP_ALIVE = b": keep-alive\n"
"""A comment without a blank line, because some clients would treat the blank line as the end of an event."""

_FINISH: dict[StopReason, bytes] = {
    StopReason.END_TURN: b'"stop"',
    StopReason.STOP_SEQUENCE: b'"stop"',
    StopReason.PAUSED: b'"stop"',
    StopReason.CANCELLED: b'"stop"',
    StopReason.COMPACTED: b'"stop"',
    StopReason.TOOL_USE: b'"tool_calls"',
    StopReason.MAX_TOKENS: b'"length"',
    StopReason.CONTEXT_FULL: b'"length"',
    StopReason.REFUSAL: b'"content_filter"',
}
_FUNCTION_START = b'"tool_calls":[{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}%b}]'
_FUNCTION_ARGUMENTS = b'"tool_calls":[{"index":%d,"function":{"arguments":'
_CUSTOM_START = b'"tool_calls":[{"index":%d,"id":%b,"type":"custom","custom":{"name":%b,"input":""}%b}]'
_CUSTOM_INPUT = b'"tool_calls":[{"index":%d,"custom":{"input":'
_USAGE = (
    b'{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d%b},'
    b'"completion_tokens_details":{"reasoning_tokens":%d}}'
)
_WHOLE = (
    b'{"id":%b,"object":"chat.completion","created":%d,"model":%b,"choices":[{"index":0,"message":%b,"logprobs":null,'
    b'"finish_reason":%b%b}],"usage":%b}'
)
_NOTHING = (b"", b"")
_TRANSLATED = frozenset(
    ["content", "refusal", "tool_calls", "function_call", "reasoning", "reasoning_content", *STATE_FIELDS]
)
"""Members of a message that are always written from the events, never copied from the upstream."""
_OWN_MEMBERS = frozenset(["id", "model", "object", "choices", "usage"])
"""Members of a chunk that are written from the events, not copied from the upstream."""
_LEGACY_START = b'"function_call":{"name":%b,"arguments":""}'
_LEGACY_ARGUMENTS = b'"function_call":{"arguments":'
_TOOL_USE = StopReason.TOOL_USE
_REFUSAL = StopReason.REFUSAL  # cached: enum attribute lookup is slow on CPython 3.11
_NO_USAGE = Usage()
_DEFAULT = Options()


class ResponseWriter:
    """Writes the events of one leg as server-sent events."""

    def __init__(self, options: Options = _DEFAULT) -> None:
        self._options = options
        self._reasoning = (options.reasoning or "reasoning_content").encode()
        self._tags = ThinkTags() if options.reasoning == "think" else None
        self._model = ""
        self._extra: dict[str, Raw] = {}
        """Members of the upstream's first chunk that the writer does not set itself. Every chunk repeats them."""
        self._head = self._delta = b""
        """The first bytes of every chunk, and the first bytes of every chunk that contains a delta."""
        self._tail = b'},"logprobs":null,"finish_reason":null}]' + (
            b',"usage":null}\n\n' if options.usage else b"}\n\n"
        )
        self._around = _NOTHING
        """The bytes to write before and after the text of a delta; empty if the open part's text is not written."""
        self._calls = 0
        self._lacks_arguments = False
        """Whether no delta with arguments was written for the last call. Its arguments are then written at its end."""
        self._in_converted = False
        """Whether the open part is a freeform call that is written as a function call."""
        self._state = NO_META
        """The `meta` that the open call had when it started. The provider state in it has already been written."""
        self._refused = False
        self._usage = _NO_USAGE
        self._ended = False

    def write_all(self, batch: Sequence[Event]) -> bytes:
        """Return the bytes to send for a batch. The upstream's frames are copied if possible."""
        if self._tags is not None:
            batch = self._tags.tagged(batch)
        source = source_of(batch)
        if source is not None and source.protocol == PROTOCOL and source.is_stream:
            if not self._head:
                self._extra = first_frame(source, _OWN_MEMBERS)
            if source.is_exact and self._may_copy(batch):
                return self._copy(batch, source)
        return b"".join(map(self.write, batch))

    def _may_copy(self, batch: Sequence[Event]) -> bool:
        """Return whether the frames of a batch can be written unchanged."""
        options = self._options
        if options.legacy or options.reasoning is not None or self._in_converted:
            return False
        for event in batch:
            if type(event) is PartStart:
                if type(event.part) is ToolCall and self._changes(event.part):
                    return False
            elif type(event) is Finished and not options.usage:
                return False
        return not (self._lacks_arguments and options.arguments == "buffered")

    def _copy(self, batch: Sequence[Event], source: AnswerSource) -> bytes:
        """Return the frames of a batch as bytes, and update the state as if its events had been written."""
        for event in batch:
            if type(event) is not PartDelta:
                self.write(event)
            else:
                self._lacks_arguments = False
        return with_model(source, self._model)

    def keep_alive(self) -> bytes:
        """Return bytes that keep an idle connection open."""
        return KEEP_ALIVE

    def write(self, event: Event) -> bytes:
        """Return the bytes to send for one event; empty if there is nothing to write."""
        if type(event) is PartDelta:
            before, after = self._around
            if not before or not event.text:
                return b""
            self._lacks_arguments = False
            return before + encode(event.text) + after
        write = _WRITE.get(type(event))
        return b"" if write is None or self._ended else write(self, event)

    def _begin(self, started: Started) -> bytes:
        self._model = started.model
        head = {
            "id": started.id,
            "object": "chat.completion.chunk",
            "created": self._options.created,
            **self._extra,
            "model": started.model,
        }
        self._head = b"data: " + encode(head)[:-1] + b","
        self._delta = self._head + b'"choices":[{"index":0,"delta":{'
        return self._delta + b'"role":"assistant","content":""' + self._tail

    # ── Parts ────────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: PartStart) -> bytes:
        part = event.part
        if type(part) is Text:
            self._refused = self._refused or part.refusal
            self._around = self._delta + (b'"refusal":' if part.refusal else b'"content":'), self._tail
        elif type(part) is ToolCall:
            return self._start_call(part)
        elif type(part) is Thinking and self._reasoning != b"none":
            self._around = self._delta + b'"%b":' % self._reasoning, self._tail
        else:
            self._around = _NOTHING
        return b""

    def _start_call(self, call: ToolCall) -> bytes:
        self._lacks_arguments = True
        if self._options.legacy and self._calls:
            self._around = _NOTHING
            return b""
        self._in_converted = self._converts(call)
        is_incremental = self._options.arguments == "incremental" or self._in_converted
        self._around = self._arguments(call) if is_incremental else _NOTHING
        if self._options.legacy:
            return self._delta + _LEGACY_START % encode(call.name) + self._tail
        start = _CUSTOM_START if call.freeform and not self._in_converted else _FUNCTION_START
        self._state = call.meta
        state = _state(call.meta) if call.meta else b""
        return (
            self._delta + start % (self._calls, encode(_id(call, self._options)), encode(call.name), state) + self._tail
        )

    def _changes(self, call: ToolCall) -> bool:
        """Return whether the start of a call has to be written in a different form from the one the upstream sent."""
        options = self._options
        return options.arguments == "buffered" or self._converts(call) or _id(call, options) != call.id

    def _converts(self, call: ToolCall) -> bool:
        """Return whether a call is a freeform call that is written as a function call."""
        return call.freeform and self._options.freeform == "function"

    def _arguments(self, call: ToolCall) -> tuple[bytes, bytes]:
        if self._options.legacy:
            return self._delta + _LEGACY_ARGUMENTS, b"}" + self._tail
        delta = _CUSTOM_INPUT if call.freeform and not self._converts(call) else _FUNCTION_ARGUMENTS
        return self._delta + delta % self._calls, b"}}]" + self._tail

    def _end(self, event: PartEnd) -> bytes:
        part, written = event.part, b""
        if type(part) is ToolCall:
            arguments = "" if self._options.legacy and self._calls else _final_arguments(part)
            if self._lacks_arguments and arguments:
                before, after = self._arguments(part)
                written = before + encode(arguments) + after
            if part.meta and part.meta != self._state and not self._options.legacy:
                # The provider state arrived after the start of the call.
                written += (
                    self._delta + b'"tool_calls":[{"index":%d%b}]' % (self._calls, _state(part.meta)) + self._tail
                )
            self._calls += 1
            self._in_converted = False
        self._around = _NOTHING
        return written

    # ── Endings ──────────────────────────────────────────────────────────────────────────────────

    def _count(self, usage: Usage) -> bytes:
        self._usage = usage
        return b""

    def _finish(self, ending: Finished | Failed) -> bytes:
        self._ended = True
        self._around = _NOTHING
        if isinstance(ending, Failed):
            return b"data: " + render_failed(ending) + b"\n\n"
        written = b""
        if ending.reason is _REFUSAL and ending.detail and not self._refused:
            written = self._delta + b'"refusal":' + encode(ending.detail) + self._tail
        if ending.meta and (state := _state(ending.meta)):
            written += self._delta + state[1:] + self._tail
        sequence = b"" if ending.sequence is None else b',"stop_reason":' + encode(ending.sequence)
        reason = _finish_reason(ending, self._options)
        written += self._delta + b'},"logprobs":null,"finish_reason":' + reason + sequence + b"}]"
        if self._options.usage:
            written += b',"usage":null}\n\n' + self._head + b'"choices":[],"usage":' + _usage(self._usage)
        return written + b"}\n\ndata: [DONE]\n\n"


_WRITE: dict[type, Callable[[ResponseWriter, Any], bytes]] = {
    Started: ResponseWriter._begin,
    PartStart: ResponseWriter._start,
    PartEnd: ResponseWriter._end,
    Usage: ResponseWriter._count,
    Finished: ResponseWriter._finish,
    Failed: ResponseWriter._finish,
}
"""The methods that write the events, except for PartDelta, which `write` handles itself because it is frequent."""


def render(reply: Reply, options: Options = _DEFAULT) -> bytes:
    """Return the response body for a complete reply."""
    source, finished = reply.source, reply.finished
    is_own = source is not None and source.protocol == PROTOCOL and not source.is_stream
    if source is not None and is_own and source.is_exact and _may_copy(reply, options):
        return merged({"model": reply.model}, source)
    body = _WHOLE % (
        encode(reply.id),
        options.created,
        encode(reply.model),
        _message(reply.parts, finished, options),
        _finish_reason(finished, options),
        b"" if finished.sequence is None else b',"stop_reason":' + encode(finished.sequence),
        _usage(reply.usage),
    )
    return body if source is None or not is_own else completed(decode_any(body), source, _TRANSLATED)


def _may_copy(reply: Reply, options: Options) -> bool:
    """Return whether a reply from an upstream that uses this protocol can be sent to the client unchanged."""
    if options.legacy or options.reasoning is not None:
        return False
    calls = [part for part in reply.parts if type(part) is ToolCall]
    has_changes = options.freeform == "function" and any(call.freeform for call in calls)
    return not has_changes and all(_id(call, options) == call.id for call in calls)


def _message(parts: Sequence[Part], finished: Finished, options: Options) -> bytes:
    content: str | None = None
    refusal = thinking = ""
    calls = []
    for part in tagged_parts(parts) if options.reasoning == "think" else parts:
        if type(part) is Text:
            if part.refusal:
                refusal += part.text
            else:
                content = part.text if content is None else content + part.text
        elif type(part) is ToolCall:
            calls.append(_call(part, options))
        elif type(part) is Thinking and not part.redacted:
            thinking += part.text
    if content is None and not calls:
        content = ""
    detail = finished.detail if finished.reason is _REFUSAL else None
    more = b""
    reasoning = options.reasoning or "reasoning_content"
    if thinking and reasoning != "none":
        more = b',"%b":%b' % (reasoning.encode(), encode(thinking))
    if calls:
        more += _calls(calls, options)
    if finished.meta:
        more += _state(finished.meta)
    return b'{"role":"assistant","content":%b,"refusal":%b%b}' % (encode(content), encode(refusal or detail), more)


def _calls(calls: list[dict[str, Any]], options: Options) -> bytes:
    if options.legacy:
        return b',"function_call":' + encode(calls[0]["function"])
    return b',"tool_calls":' + encode(calls)


def _finish_reason(finished: Finished, options: Options) -> bytes:
    reason = _FINISH[finished.reason]
    return b'"function_call"' if options.legacy and finished.reason is _TOOL_USE else reason


def _call(call: ToolCall, options: Options) -> dict[str, Any]:
    state = {name: Raw(text.encode()) for name, text in state_of(call.meta).items()} if call.meta else {}
    call_id = _id(call, options)
    if call.freeform and options.freeform == "custom":
        return {"id": call_id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}, **state}
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": _final_arguments(call)},
        **state,
    }


def _id(call: ToolCall, options: Options) -> str:
    return call.id if options.id_limit is None else short_id(call.id, options.id_limit)


def _state(meta: Meta) -> bytes:
    """Return the provider state in `meta` as JSON members to append to an object, each with a leading comma."""
    return b"".join(b',"%b":%b' % (name.encode(), one_line(text.encode())) for name, text in state_of(meta).items())


def _final_arguments(call: ToolCall) -> str:
    """Return the arguments of a call; for a function call without arguments, an empty object."""
    return call.arguments if call.freeform or call.arguments.strip() else "{}"


def _usage(usage: Usage) -> bytes:
    prompt, output = usage.prompt, usage.output
    written = b',"cache_write_tokens":%d' % usage.cache_write if usage.cache_write else b""
    return _USAGE % (prompt, output, prompt + output, usage.cache_read, written, usage.reasoning)
