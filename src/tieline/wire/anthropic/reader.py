"""Translate the answer from a Messages upstream into the events of a leg.

A stream consists of message_start, the blocks, message_delta and message_stop; the ending is emitted at message_stop.
Blocks are identified by their index; `OpenBlock` holds the state of a block until it stops. Unknown events, deltas and
fields are ignored. `call_blocks` handles the details of tool calls and of blocks that only this protocol has.
"""

from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tieline.model.assemble import reason_for
from tieline.model.content import NO_META, Foreign, Part, Text, Thinking, ToolCall
from tieline.model.events import Event, Failed, Finished, Note, Started, StopReason, Usage
from tieline.wire.anthropic import call_blocks
from tieline.wire.anthropic.errors import failed_by
from tieline.wire.anthropic.schema import (
    ABSENT,
    PROTOCOL,
    BlockIn,
    DeltaIn,
    MessageIn,
    StopDetails,
    StreamEvent,
    UsageIn,
    is_set,
    text_of,
)
from tieline.wire.framing.sse import SseReader
from tieline.wire.framing.stream_reader import TRIAL, StreamReader
from tieline.wire.shared.json import Malformed, read
from tieline.wire.shared.spelling import NO_TOOL_NAMES, ToolNames

_EVENT = msgspec.json.Decoder(StreamEvent)
_MESSAGE = msgspec.json.Decoder(MessageIn)
_BLOCK = msgspec.json.Decoder(BlockIn)
_STOP_DETAILS = msgspec.json.Decoder(StopDetails)

T = TypeVar("T")

MAX_MISTYPED = 20
"""Maximum number of notes about values of the wrong type in one answer."""
NO_TEXT = Text()
REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSAL,
    "model_context_window_exceeded": StopReason.CONTEXT_FULL,
    "compaction": StopReason.COMPACTED,
    # Other gateways pass on the reasons from their own upstreams.
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
NO_USAGE = Usage()
_STOP_SEQUENCE = StopReason.STOP_SEQUENCE  # cached: enum attribute lookup is slow on CPython 3.11


class OpenBlock(Struct):
    """The state of a block that has started but not stopped. Text that was already emitted is not kept here."""

    part: Part
    accepts: str
    """The kind of deltas that belong to the block, a key of _TEXT_FIELD."""
    raw: Raw
    input: Raw
    has_input: bool = False
    signature: list[str] = []
    citations: list[str] = []
    compaction: dict[str, str] = {}
    """The members of a compaction block, collected from its deltas."""
    held: list[str] | None = None
    """The deltas of an input that must be complete before it is emitted; None if input is emitted as it arrives."""
    doubtful: bool = False
    """Whether it is still unclear if the block is a real call. If so, no part has been started for it yet."""
    has_strays: bool = False
    """Whether the block contained text that does not match its type. A separate part was started for that text."""


_TEXT_FIELD = {"text": "text", "thinking": "thinking", "input": "partial_json"}
_KIND_OF: dict[type, str] = {Text: "text", Thinking: "thinking", ToolCall: "input", Foreign: "input"}


def _open_block(part: Part, block: BlockIn, raw: Raw) -> OpenBlock:
    """Return the state of a block at its start."""
    opened = OpenBlock(part, _KIND_OF[type(part)], raw, block.input)
    if block.signature:
        opened.signature.append(block.signature)
    if block.citations is not ABSENT:
        opened.citations = call_blocks.citations_of(block.citations)
    return opened


class ResponseReader(StreamReader):
    """Translates one answer into the events of one leg. All data after the end of the answer is ignored.

    `fallback_id` and `model` are used if the answer itself has no id or no model name.
    """

    protocol = PROTOCOL
    _opened = 0
    """The number of blocks that have started."""
    _message_id: str | None = None
    _usage = _usage_emitted = NO_USAGE

    def __init__(
        self,
        tool_names: ToolNames = NO_TOOL_NAMES,
        *,
        fallback_id: str = "",
        model: str = "",
        keep_source: bool = False,
    ) -> None:
        super().__init__(keep_source)
        self._tool_names = tool_names
        self._id = fallback_id
        self._model = model
        self._blocks: dict[int, OpenBlock] = {}
        self._calls: dict[str, tuple[str, str] | None] = {}
        """The calls in the answer, by id: the name and arguments of a complete call, None for an incomplete one."""
        self._stop: DeltaIn | MessageIn = DeltaIn()
        self._mistyped: dict[str, None] = {}
        """The paths of the values that have the wrong type, in order of appearance."""

    def read_whole(self, body: bytes) -> list[Event]:
        """Return the events of a non-streaming answer."""
        try:
            message = self._decode(_MESSAGE, body)
            if is_set(message.error):
                self._fail(failed_by(message.error))
            elif message.content is None:
                self._fail(Failed(kind="upstream", message="the upstream's answer is not a message"))
            else:
                self._read_message(message, message.content)
        except (Malformed, UnicodeDecodeError) as error:
            self._fail_unreadable(error)
        return self._whole(body)

    # ── Events of the stream ─────────────────────────────────────────────────────────────────────

    def _receive(self, block: bytes) -> None:
        named = self._sse.event(block)
        if named is None:
            return
        event = self._decode(_EVENT, named[1])
        match event.type:
            case "content_block_delta":
                if event.delta is not None:
                    self._add_delta(event.index, event.delta)
                    self._learn(block, event, event.delta)
            case "content_block_start":
                self._start_block(event.index, event.content_block)
            case "content_block_stop":
                self._stop_block(event.index)
            case "message_start":
                self._find_model(event.message.model if event.message else None, block)
                self._start(event.message or MessageIn())
            case "message_delta":
                self._update_ending(event.delta or DeltaIn(), event.usage)
            case "message_stop":
                self._finish()
            case _ if is_set(event.error):
                self._fail(failed_by(event.error))
            case _:
                pass  # pings and unknown events

    def _decode(self, decoder: msgspec.json.Decoder[T], data: bytes) -> T:
        """Decode JSON from the upstream. Tolerate values of the wrong type, and record their paths for notes."""
        try:
            return decoder.decode(data)
        except (ValueError, RecursionError):
            mistyped: list[str] = []
            value = read(decoder, data, mistyped)
        self._is_exact = False
        self._mistyped.update(dict.fromkeys(mistyped[:MAX_MISTYPED]))
        return value

    def _read_message(self, message: MessageIn, content: list[Raw]) -> None:
        self._start(message)
        for index, raw in enumerate(content):
            self._read_block(index, raw)
        self._stop = message
        self._finish()

    def _read_block(self, index: int, raw: Raw) -> None:
        """Read a block of a non-streaming answer, which is complete."""
        block = self._decode(_BLOCK, bytes(raw))
        if not block.type:
            self._note("ignored", "a block without a type")
            return
        part = self._part(block, index, call_blocks.is_object_input)
        opened = _open_block(part, block, raw)
        if type(part) is ToolCall and self._is_doubtful(part, block):
            self._is_exact = False
            self._stop_doubtful(opened, part)
            return
        complete, text = self._completed(opened)
        self._parts.whole(complete, text or _text_at_start(part, block))

    def _start(self, message: MessageIn) -> None:
        if self._message_id is None:
            self._message_id = message.id or self._id
            started = Started(id=self._message_id, model=message.model or self._model)
            self._parts.events.append(started)
            if message.usage is not None:
                self._usage = _merge_usage(message.usage)
                self._emit_usage()
        elif message.id and message.id != self._message_id:
            self._fail(Failed(kind="upstream", message="the upstream started a second message in one answer"))

    def _infer_start(self) -> None:
        if self._message_id is None:
            self._start(MessageIn())
            self._note("inferred_start", "the answer started without message_start")

    def _update_ending(self, delta: DeltaIn, usage: UsageIn | None) -> None:
        """Record the ending and usage in a message_delta. A later delta overrides only the members that it contains."""
        if usage is not None:
            self._usage = _merge_usage(usage, self._usage)
        stop = self._stop
        stop.stop_reason = delta.stop_reason or stop.stop_reason
        stop.stop_sequence = delta.stop_sequence or stop.stop_sequence
        if delta.stop_details is not ABSENT and is_set(delta.stop_details):
            stop.stop_details = delta.stop_details
        if delta.container is not ABSENT and is_set(delta.container):
            stop.container = delta.container

    # ── Blocks ───────────────────────────────────────────────────────────────────────────────────

    def _start_block(self, index: int, raw: Raw) -> None:
        if self._message_id is None:
            self._infer_start()
        block = self._decode(_BLOCK, bytes(raw)) if raw is not ABSENT else BlockIn()
        if index in self._blocks:
            if self._is_repeated(index, block):
                return
            self._stop_block(index)
        if not block.type:
            self._note("ignored", "a block without a type")
            return
        part = self._part(block, index, call_blocks.is_empty_input)
        opened = _open_block(part, block, raw)
        if type(part) is ToolCall and self._is_doubtful(part, block):
            self._hold_doubtful(index, opened)
            return
        self._add_block(index, opened)
        text = _text_at_start(part, block)
        if text:
            self._parts.add(index, text)

    def _is_doubtful(self, call: ToolCall, block: BlockIn) -> bool:
        """Return whether a call may not be real: it has no id and no name, or it has the id of an earlier call."""
        return call.id in self._calls or not (block.id or block.name)

    def _is_repeated(self, index: int, block: BlockIn) -> bool:
        """Return whether `block` repeats the start of the call at this index, which has received no input yet."""
        known = self._blocks[index]
        return (
            isinstance(known.part, ToolCall)
            and not known.has_input
            and call_blocks.is_repeated_start(block, known.part)
        )

    def _add_block(self, index: int, block: OpenBlock) -> None:
        part = block.part
        if type(part) is ToolCall:
            self._calls[part.id] = None
        if type(part) is Foreign or (type(part) is ToolCall and part.freeform):
            block.held = []
        self._is_exact = self._is_exact and index == self._opened and not self._blocks
        self._opened += 1
        for other, waiting in self._blocks.items():
            self._start_part(other, waiting)
        self._blocks[index] = block
        # A Foreign block is written whole or not at all, so its frames must not be copied in part.
        if type(part) is not Foreign or not self._is_exact:
            self._start_part(index, block)

    def _start_part(self, index: int, block: OpenBlock) -> None:
        if not block.doubtful and not self._parts.has(index):
            self._parts.start(index, block.part)

    def _hold_doubtful(self, index: int, block: OpenBlock) -> None:
        """Hold back a call that may not be real."""
        self._is_exact = False
        block.held, block.doubtful = [], True
        self._blocks[index] = block

    def _stop_doubtful(self, block: OpenBlock, call: ToolCall) -> None:
        """Emit a call that was held back, unless it is empty or repeats an earlier call."""
        text = call_blocks.complete_arguments(block.held, block.input, call.freeform)
        before = self._calls.get(call.id)
        if before == (call.name, text) or (call.name == call_blocks.UNNAMED and text == "{}" and not before):
            self._note("ignored", "a repeated tool call" if before else "an empty tool call")
            return
        if call.id in self._calls:
            self._note("repair", f"two tool calls with the id {call.id}: the second got a new id")
            call = replace(call, id=f"{call.id}_{len(self._calls)}")
        self._calls[call.id] = (call.name, text)
        self._parts.whole(call, text)

    def _part(self, block: BlockIn, index: int, is_standard_input: Callable[[Raw], bool]) -> Part:
        """Return the part that a block starts, without its text.

        `is_standard_input` checks the input at the start of a tool_use block. If the check fails, no more
        frames are copied to the client.
        """
        match block.type:
            case "text":
                return NO_TEXT
            case "thinking":
                return Thinking()
            case "redacted_thinking":
                return Thinking(signature=block.data or "", redacted=True)
            case "tool_use":
                if not block.id or not block.name:
                    self._note("repair", f"a tool call without {'a name' if block.id else 'an id'}")
                call = call_blocks.call_of(block, self._tool_names, f"call_{self._message_id or self._id}_{index}")
                is_unchanged = (call.id, call.name, call.freeform) == (block.id, block.name, False)
                self._is_exact = self._is_exact and is_unchanged and is_standard_input(block.input)
                return call
            case kind:
                return Foreign(protocol=PROTOCOL, kind=kind, json="")

    def _add_delta(self, index: int, delta: DeltaIn) -> None:
        """Add all members of a delta to its block, because some deltas contain both thinking and a signature."""
        block = self._blocks.get(index)
        if delta.text:
            if block is not None and block.accepts == "text":
                self._parts.add(index, delta.text)
            else:
                self._parts.add(self._stray(index, Text()), delta.text)
            return
        if delta.partial_json:
            self._add_input(index, block, delta.partial_json)
            return
        if delta.thinking:
            if block is not None and block.accepts == "thinking":
                self._parts.add(index, delta.thinking)
            else:
                self._parts.add(self._stray(index, Thinking()), delta.thinking)
        if block is not None:
            if delta.signature:
                self._is_exact = self._is_exact and not delta.thinking
                block.signature.append(delta.signature)
            if delta.type == "compaction_delta":
                call_blocks.add_compaction(block.compaction, delta)
            if delta.citation is not ABSENT and is_set(delta.citation):
                block.citations.append(text_of(delta.citation))

    def _learn(self, raw: bytes, event: StreamEvent, delta: DeltaIn) -> None:
        """Learn the delta frame of a block from `raw`, the frame of `delta`, if the delta contains only text."""
        index, frame = event.index, self._frame
        block = self._blocks.get(index)
        if block is None or block.held is not None or frame.key is not None:
            return
        field = _TEXT_FIELD[block.accepts]
        text = getattr(delta, field)
        if text:
            frame.learn(index, raw, field, text, partial(_is_plain_delta, index, delta.type, field))

    def _add_input(self, index: int, block: OpenBlock | None, text: str) -> None:
        if block is None or block.accepts != "input":
            self._infer_start()
            self._note("ignored", "arguments for a block that is not a call")
            return
        block.has_input = True
        if block.held is None:
            self._parts.add(index, text)
        else:
            block.held.append(text)

    def _stray(self, index: int, part: Text | Thinking) -> Hashable:
        """Return the key of the part for text that arrived outside any block, or in a block of another kind.

        If there is no such part yet, start `part` for it.
        """
        block = self._blocks.get(index)
        if block is None:
            self._infer_start()
            self._add_block(index, _open_block(part, BlockIn(), ABSENT))
            return index
        key = (index, type(part))
        if not self._parts.has(key):
            self._is_exact = False
            block.has_strays = True
            self._parts.start(key, part)
        return key

    def _stop_block(self, index: int) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        self._frame.forget(index)
        part = block.part
        if type(part) is ToolCall and block.doubtful:
            self._stop_doubtful(block, part)
        else:
            self._start_part(index, block)
            complete, text = self._completed(block, index)
            if complete is not part:
                self._parts.revise(index, complete)
            self._parts.add(index, text)
            self._parts.end(index)
        if block.has_strays:
            for kind in (Text, Thinking):
                if self._parts.has((index, kind)):
                    self._parts.end((index, kind))

    def _completed(self, block: OpenBlock, index: int | None = None) -> tuple[Part, str]:
        """Return the part of a block with all its fields, and the arguments of a call that were not emitted yet.

        `index` is the key of the part, if it has been started.
        """
        part, text = block.part, ""
        if type(part) is Text:
            if block.citations:
                part = replace(part, meta={PROTOCOL: {"citations": f"[{','.join(block.citations)}]"}})
        elif type(part) is ToolCall:
            if block.held is not None or not block.has_input:
                text = call_blocks.complete_arguments(block.held, block.input, part.freeform)
            self._calls[part.id] = (part.name, text if index is None else self._parts.text_of(index) + text)
        elif type(part) is Thinking:
            if block.signature and not part.redacted:
                part = replace(part, signature="".join(block.signature))
        elif type(part) is Foreign:
            json = call_blocks.complete_block(block.raw, block.held, block.compaction, "".join(block.signature))
            part = replace(part, json=json)
        return part, text

    # ── Usage and endings ────────────────────────────────────────────────────────────────────────

    def _emit_usage(self) -> None:
        if self._usage != self._usage_emitted:
            self._usage_emitted = self._usage
            self._parts.events.append(self._usage)

    def _finish(self) -> None:
        if self._message_id is None:
            self._fail(Failed(kind="upstream", message="the upstream's answer ended before it started"))
            return
        for index in [*self._blocks]:
            self._stop_block(index)
        self._parts.end_all()
        self._emit_usage()
        for path in [*self._mistyped][:MAX_MISTYPED]:
            self._note("odd_value", f"the upstream's `{path}` has the wrong type")
        given_reason = self._reason()
        reason = reason_for(self._parts.calls, given_reason)
        self._is_exact = self._is_exact and reason is given_reason
        self._parts.events.append(_finished(reason, self._stop))
        self.ended = True

    def _reason(self) -> StopReason:
        word = self._stop.stop_reason
        if not word:
            self._note("inferred_ending", "the upstream gave no stop reason")
            return StopReason.END_TURN
        reason = REASONS.get(word)
        if reason is None:
            self._note("unknown_stop_reason", word)
        return reason or StopReason.END_TURN

    def _end_of_stream(self) -> None:
        stray = self._sse.stray.strip()
        if self._stop.stop_reason is not None and self._message_id is not None:
            self._note("inferred_ending", "the stream ended after its stop reason, without message_stop")
            self._finish()
        elif stray.startswith(b"{"):
            self._fail(failed_by(Raw(stray)))
        else:
            self._fail(Failed(kind="upstream", message="the upstream's stream ended early"))

    def _note(self, kind: str, message: str) -> None:
        self._is_exact = False
        self._parts.events.append(Note(kind=kind, message=message))


def read_reply(
    body: bytes,
    tool_names: ToolNames = NO_TOOL_NAMES,
    *,
    fallback_id: str = "",
    model: str = "",
    keep_source: bool = False,
) -> list[Event]:
    """Return the events of a non-streaming answer; see `ResponseReader`."""
    return ResponseReader(tool_names, fallback_id=fallback_id, model=model, keep_source=keep_source).read_whole(body)


def _text_at_start(part: Part, block: BlockIn) -> str:
    """Return the text that a text or thinking block contains when it starts; empty for any other block."""
    if type(part) is Text or (type(part) is Thinking and not part.redacted):
        return block.text or block.thinking or ""
    return ""


def _is_plain_delta(index: int, kind: str | None, field: str, block: bytes) -> bool:
    """Return whether a server-sent event is a delta with this index and kind whose only content is TRIAL in `field`."""
    event = SseReader().event(block)
    delta = DeltaIn(type=kind)
    setattr(delta, field, TRIAL)
    plain = StreamEvent(type="content_block_delta", index=index, delta=delta)
    return event is not None and _EVENT.decode(event[1]) == plain


def _merge_usage(usage: UsageIn, so_far: Usage = NO_USAGE) -> Usage:
    """Merge two usages by taking the larger value of each count. Counts are cumulative, and events may omit some."""
    fresh, output = usage.input_tokens or 0, usage.output_tokens or 0
    cached, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = usage.output_tokens_details
    reasoning = 0 if details is None else details.thinking_tokens or 0
    return Usage(
        input=max(so_far.input, fresh),
        output=max(so_far.output, output),
        cache_read=max(so_far.cache_read, cached),
        cache_write=max(so_far.cache_write, written),
        reasoning=max(so_far.reasoning, reasoning),
    )


def _finished(reason: StopReason, stop: DeltaIn | MessageIn) -> Finished:
    """Return the ending of the leg, with the details that the upstream sent."""
    sequence = (stop.stop_sequence or None) if reason is _STOP_SEQUENCE else None
    if stop.stop_details is ABSENT and stop.container is ABSENT:
        return Finished(reason=reason, sequence=sequence)
    own = {name: text_of(value) for name in ("stop_details", "container") if is_set(value := getattr(stop, name))}
    return Finished(
        reason=reason,
        sequence=sequence,
        detail=_explanation(stop.stop_details),
        meta={PROTOCOL: own} if own else NO_META,
    )


def _explanation(details: Raw) -> str | None:
    try:
        return read(_STOP_DETAILS, bytes(details)).explanation if is_set(details) else None
    except Malformed:
        return None
