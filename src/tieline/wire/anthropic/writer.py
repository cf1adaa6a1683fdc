"""Write the events of a leg as a Messages answer: a stream, or one body.

The writer numbers the blocks; parts that this protocol cannot express get no number. The input of a tool call is never
sent in content_block_start, because many clients read it only from deltas. Input that is not a JSON object is converted
to one, because clients expect an object.

Frames from an upstream that uses the same protocol are copied (see `model.source`), unless the gateway changed their
meaning.
"""

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.model.content import File, Foreign, Image, Part, Text, Thinking, ToolCall, ToolResult
from tieline.model.events import (
    Activity,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    Reply,
    Started,
    StopReason,
    Usage,
    source_of,
)
from tieline.model.source import AnswerSource
from tieline.wire.anthropic.build_content import text_block, thinking_block
from tieline.wire.anthropic.dialect import Options
from tieline.wire.anthropic.errors import error_event
from tieline.wire.anthropic.schema import PROTOCOL, RedactedBlock, TextBlock, ThinkingBlock, ToolUseBlock
from tieline.wire.shared.json import encode, object_text, one_line
from tieline.wire.shared.sources import completed, merged, with_model
from tieline.wire.shared.spelling import plain_id

_PREFIX = "msg_"
KEEP_ALIVE = b'event: ping\ndata: {"type":"ping"}\n\n'

AnswerBlock = TextBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | Raw

_DEFAULT = Options()
_LIST = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_NO_STOP = {"stop_reason": None, "stop_sequence": None}
_REASONS = {
    StopReason.END_TURN: "end_turn",
    StopReason.TOOL_USE: "tool_use",
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_FULL: "model_context_window_exceeded",
    StopReason.STOP_SEQUENCE: "stop_sequence",
    StopReason.REFUSAL: "refusal",
    StopReason.PAUSED: "pause_turn",
    StopReason.CANCELLED: "end_turn",
    StopReason.COMPACTED: "compaction",
}
_TRANSLATED = frozenset(["content", "stop_details", "container"])
"""Members of a message that are always written from the events, never copied from the upstream."""
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":%b'
_TEXT = b'"text_delta","text":'
_THINKING = b'"thinking_delta","thinking":'
_SIGNATURE = b'"signature_delta","signature":'
_INPUT = b'"input_json_delta","partial_json":'
_CITATION = b'"citations_delta","citation":'
_END = b"}}\n\n"


class ResponseWriter:
    """Writes one answer as server-sent events."""

    def __init__(self, options: Options = _DEFAULT) -> None:
        self._buffered = options.arguments == "buffered"
        self._estimate = options.estimate
        self._started: Started | None = None
        self._usage = Usage()
        self._index = -1
        self._is_open = False
        self._is_call = False
        """Whether the open block is a tool call."""
        self._prefix: bytes | None = None
        """The bytes to write before the text of a delta; None if text is held back until the part is complete."""
        self._probed: str | None = None
        """The beginning of a call's arguments while it is unknown whether they are an object; None once it is known."""
        self._refused = False
        """Whether the answer contains a refusal as text."""
        self._model = ""

    def write_all(self, batch: Sequence[Event]) -> bytes:
        """Return the bytes to send for a batch. The upstream's frames are copied if possible."""
        source = source_of(batch)
        is_own = source is not None and source.protocol == PROTOCOL and source.is_stream
        if source is not None and is_own and source.is_exact and self._may_copy(batch):
            return self._copy(batch, source)
        return b"".join(map(self.write, batch))

    def _may_copy(self, batch: Sequence[Event]) -> bool:
        """Return whether the upstream's frames can be copied. Calls whose arguments are buffered cannot."""
        if not self._buffered:
            return True
        return not self._is_call and not any(
            type(event) is PartStart and type(event.part) is ToolCall for event in batch
        )

    def _copy(self, batch: Sequence[Event], source: AnswerSource) -> bytes:
        """Return the upstream's frames for a batch, and update the writer's state as if it had written the events."""
        for event in batch:
            if type(event) is not PartDelta or self._probed is not None:
                self.write(event)
        return with_model(source, self._model)

    def keep_alive(self) -> bytes:
        """Return bytes that keep an idle connection open."""
        return KEEP_ALIVE

    def write(self, event: Event) -> bytes:
        """Return the bytes to send for one event; empty if this protocol cannot express it."""
        if type(event) is PartDelta:
            if self._prefix is not None and self._probed is None:
                return self._prefix + encode(event.text) + _END
            return self._hold(event.text)
        return self._write_other(event)

    def _write_other(self, event: Event) -> bytes:
        match event:
            case Started():
                self._started, self._model = event, event.model
                return b""
            case Usage():
                self._usage = event
                return self._begin()
            case PartStart():
                return self._begin() + self._start(event.part)
            case PartEnd():
                return self._stop(event.part)
            case Finished():
                return self._begin() + self._finish(event)
            case Failed():
                # An unfinished call stays open: some clients run a call as soon as its block is closed.
                closing = b"" if self._is_call else self._close()
                return closing + _event(b"error", error_event(event))
            case Note() | Activity() | Plan() | PartDelta():
                return b""
            case _:
                assert_never(event)

    def _begin(self) -> bytes:
        """Return message_start, or no bytes if it was already sent.

        It is sent only when the event after Started arrives, because that event may be the usage, which message_start
        should contain.
        """
        started, self._started = self._started, None
        if started is None:
            return b""
        usage = self._usage
        if not usage.prompt and self._estimate is not None:
            usage = replace(usage, input=self._estimate())
        message = _message(started.id, started.model, [], _NO_STOP, usage)
        return _event(b"message_start", encode({"type": "message_start", "message": message}))

    def _start(self, part: Part) -> bytes:
        self._prefix = self._probed = None
        match part:
            case Text():
                self._refused = self._refused or part.refusal
                return self._open(TextBlock(""), _TEXT)
            case Thinking(redacted=False):
                return self._open(ThinkingBlock("", ""), _THINKING)
            case Thinking():
                return self._open(RedactedBlock(part.signature or ""))
            case ToolCall():
                self._is_call = True
                held = self._buffered or part.freeform
                self._probed = None if held else ""
                return self._open(_call_block(part, b"{}"), None if held else _INPUT)
            case Foreign() | Image() | File() | ToolResult():
                return b""  # a foreign part is written when it ends; models do not produce the others

    def _open(self, block: AnswerBlock, delta: bytes | None = None) -> bytes:
        self._index += 1
        self._is_open = True
        if delta is not None:
            self._prefix = _DELTA % (self._index, delta)
        start = {"type": "content_block_start", "index": self._index, "content_block": block}
        return _event(b"content_block_start", encode(start))

    def _hold(self, text: str) -> bytes:
        """Hold back the arguments of a call until they are known to be an object; then return them as a delta.

        Arguments that are not an object are held back until the end of the call, and then converted to an object.
        """
        if self._prefix is None or self._probed is None:
            return b""
        self._probed += text
        beginning = self._probed.lstrip()
        if not beginning.startswith("{"):
            self._prefix = None if beginning else self._prefix
            return b""
        whole, self._probed = self._probed, None
        return self._prefix + encode(whole) + _END

    def _stop(self, part: Part) -> bytes:
        match part:
            case Text():
                return b"".join(self._delta(_CITATION, raw) for raw in _citations(part)) + self._close()
            case Thinking(redacted=False, signature=str(signature)) if signature:
                return self._delta(_SIGNATURE, encode(signature)) + self._close()
            case ToolCall() if self._prefix is None or self._probed is not None:
                return self._delta(_INPUT, encode(_input(part))) + self._close()
            case Foreign(protocol=protocol, json=json, kind=kind) if protocol == PROTOCOL:
                if kind == "compaction":
                    return self._compaction(json)
                return self._open(Raw(json.encode())) + self._close()
            case _:
                return self._close()

    def _compaction(self, json: str) -> bytes:
        """Return a compaction block with its summary in a delta, as the API streams it."""
        fields = _OBJECT.decode(json)
        text = {name: fields.pop(name) for name in ("content", "encrypted_content") if name in fields}
        start = self._open(Raw(encode({**fields, "content": None})))
        delta = encode({"type": "compaction_delta", **text})[1:-1]
        event = b'{"type":"content_block_delta","index":%d,"delta":{%b}}' % (self._index, delta)
        return start + _event(b"content_block_delta", event) + self._close()

    def _delta(self, kind: bytes, value: bytes) -> bytes:
        return _DELTA % (self._index, kind) + one_line(value) + _END

    def _close(self) -> bytes:
        if not self._is_open:
            return b""
        self._is_open = self._is_call = False
        return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % self._index

    def _finish(self, finished: Finished) -> bytes:
        delta = {"type": "message_delta", "delta": _stop_fields(finished, self._refused), "usage": _usage(self._usage)}
        return _event(b"message_delta", encode(delta)) + _event(b"message_stop", b'{"type":"message_stop"}')


def render(reply: Reply, options: Options = _DEFAULT) -> bytes:  # noqa: ARG001 - all codecs take options
    """Return the response body for a complete reply."""
    source = reply.source
    is_own = source is not None and source.protocol == PROTOCOL and not source.is_stream
    if source is not None and is_own and source.is_exact:
        return merged({"model": reply.model}, source)
    content = [block for part in reply.parts if (block := _whole_block(part)) is not None]
    refused = any(type(part) is Text and part.refusal for part in reply.parts)
    message = _message(reply.id, reply.model, content, _stop_fields(reply.finished, refused), reply.usage)
    return encode(message) if source is None or not is_own else completed(message, source, _TRANSLATED)


def _event(name: bytes, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, one_line(data))


def _message(
    message_id: str, model: str, content: list[AnswerBlock], stop: dict[str, Any], usage: Usage
) -> dict[str, Any]:
    head = {"id": _with_prefix(message_id), "type": "message", "role": "assistant", "model": model, "content": content}
    return {**head, **stop, "usage": _usage(usage)}


def _with_prefix(message_id: str) -> str:
    """Return the message id, with the prefix that this API uses added if it is missing."""
    return message_id if message_id.startswith(_PREFIX) else _PREFIX + message_id


def _stop_fields(finished: Finished, refused: bool) -> dict[str, Any]:
    """Return the members that describe the ending.

    `refused` says whether the answer contains a refusal as text. If so, and the answer ended normally, the stop reason
    is `refusal`, as this protocol requires.
    """
    own = finished.meta.get(PROTOCOL, {})
    reason = StopReason.REFUSAL if refused and finished.reason is StopReason.END_TURN else finished.reason
    fields: dict[str, Any] = {"stop_reason": _REASONS[reason], "stop_sequence": finished.sequence}
    fields |= {name: Raw(own[name].encode()) for name in ("stop_details", "container") if name in own}
    if reason is StopReason.REFUSAL and "stop_details" not in fields:
        fields["stop_details"] = {"type": "refusal", "category": None, "explanation": finished.detail}
    return fields


def _usage(usage: Usage) -> dict[str, Any]:
    """Return the member `usage` with all four counts, because some clients fail if one is missing."""
    counts: dict[str, Any] = {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }
    if usage.reasoning:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return counts


# ── Blocks ───────────────────────────────────────────────────────────────────────────────────────


def _whole_block(part: Part) -> AnswerBlock | None:
    match part:
        case Text():
            return text_block(part)
        case Thinking():
            return thinking_block(part)
        case ToolCall(freeform=True):
            return _call_block(part, _input(part).encode())
        case ToolCall():
            return _call_block(part, object_text(part.arguments).encode())
        case Foreign(protocol=protocol, json=json) if protocol == PROTOCOL:
            return Raw(json.encode())
        case _:
            return None


def _call_block(part: ToolCall, arguments: bytes) -> ToolUseBlock:
    own = part.meta.get(PROTOCOL, {})
    block = ToolUseBlock(plain_id(part.id), part.name, Raw(arguments))
    if "caller" in own:
        block.caller = Raw(own["caller"].encode())
    if "toolset_name" in own:
        block.toolset_name = Raw(own["toolset_name"].encode())
    return block


def _input(part: ToolCall) -> str:
    """Return the whole input of a call as the JSON text of an object.

    The text of a freeform call becomes the member `input`. Other arguments that start like an object are returned
    unchanged, even if they were cut off.
    """
    if part.freeform:
        return encode({"input": part.arguments}).decode()
    return part.arguments if part.arguments.lstrip().startswith("{") else object_text(part.arguments)


def _citations(part: Text) -> list[bytes]:
    citations = part.meta.get(PROTOCOL, {}).get("citations")
    return [] if citations is None else [bytes(raw) for raw in _LIST.decode(citations)]
