"""Read the answer of a Messages upstream into the events of a leg.

A stream is message_start, blocks, message_delta and message_stop; the ending is emitted at message_stop. Blocks are
identified by their index; `_Block` collects the state of a block until it stops. Unknown events, deltas and fields are
ignored.
"""

from collections.abc import Hashable
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tieline.model.assemble import reason_for
from tieline.model.content import NO_META, Foreign, Part, Text, Thinking, ToolCall
from tieline.model.events import Event, Failed, Note, Started, StopReason
from tieline.wire.anthropic.errors import failed_by
from tieline.wire.anthropic.schema import (
    ABSENT,
    PROTOCOL,
    BlockIn,
    DeltaIn,
    MessageIn,
    StreamEvent,
    UsageIn,
    given,
    text_of,
)
from tieline.wire.anthropic.usage import NO_USAGE, REASONS, finished_by, usage_of
from tieline.wire.framing.sse import SseReader
from tieline.wire.framing.stream_reader import StreamReader
from tieline.wire.shared.delta_frames import TRIAL
from tieline.wire.shared.json import Malformed, encode, object_text, read
from tieline.wire.shared.spelling import UNCHANGED, Spelled, restore_id

_EVENT = msgspec.json.Decoder(StreamEvent)
_MESSAGE = msgspec.json.Decoder(MessageIn)
_BLOCK = msgspec.json.Decoder(BlockIn)
_FIELDS = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_WRAPPED = msgspec.json.Decoder(dict[str, str])

T = TypeVar("T")

MAX_ODD = 20
"""How many odd values of one answer are noted."""
NAMELESS = "unknown_tool"
NO_TEXT = Text()

_NO_INPUT = ("", "null", '""', "[]")


class _Block:
    """What is known of a block under way, beside the text that has been given out."""

    __slots__ = (
        "citations",
        "compaction",
        "doubtful",
        "fits",
        "has_input",
        "has_strays",
        "held",
        "input",
        "part",
        "raw",
        "signature",
    )

    def __init__(self, part: Part, block: BlockIn, raw: Raw) -> None:
        self.part = part
        self.raw = raw
        self.input = block.input
        self.has_input = False
        self.signature = [block.signature] if block.signature else []
        self.citations = [] if block.citations is ABSENT else _texts(block.citations)
        self.compaction: dict[str, str] = {}
        """The members of a compaction block that came in deltas."""
        self.fits = _KIND_OF[type(part)]
        self.held: list[str] | None = None
        """Input that cannot be given out before it is complete."""
        self.doubtful = False
        """Whether the block may turn out to be no call at all, so that no part has begun."""
        self.has_strays = False
        """Whether text of another kind came for this block and got a part of its own."""


_TEXT_FIELD = {"text": "text", "thinking": "thinking", "input": "partial_json"}
_KIND_OF: dict[type, str] = {Text: "text", Thinking: "thinking", ToolCall: "input", Foreign: "input"}


class ResponseReader(StreamReader):
    """Reads one answer; everything after its ending is ignored."""

    protocol = PROTOCOL

    def __init__(
        self, spelled: Spelled = UNCHANGED, *, fallback_id: str = "", model: str = "", keep_source: bool = False
    ) -> None:
        super().__init__(keep_source)
        self._spelled = spelled
        self._id = fallback_id
        self._model = model
        self._blocks: dict[int, _Block] = {}
        self._opened = 0
        """How many blocks have begun."""
        self._made: dict[str, tuple[str, str] | None] = {}
        """The calls so far by id: name and arguments once they are complete."""
        self._message_id: str | None = None
        self._usage = self._usage_given = NO_USAGE
        self._stop = DeltaIn()
        self._odd: dict[str, None] = {}
        """The paths of side values that had the wrong type."""
        self._is_usual_input = _streamed_input
        """Tells whether a tool_use block may begin with an input, or has to be written in another form."""

    def read_whole(self, body: bytes) -> list[Event]:
        """Return the events of an answer that did not stream."""
        self._is_usual_input = _whole_input_object
        try:
            message = self._decode(_MESSAGE, body)
            if given(message.error):
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
                    self._add(event.index, event.delta)
                    self._learn(block, event, event.delta)
            case "content_block_start":
                self._open(event.index, event.content_block)
            case "content_block_stop":
                self._shut(event.index)
            case "message_start":
                self._find_model(event.message.model if event.message else None, block)
                self._start(event.message or MessageIn())
            case "message_delta":
                self._end_with(event.delta or DeltaIn(), event.usage)
            case "message_stop":
                self._finish()
            case _ if given(event.error):
                self._fail(failed_by(event.error))
            case _:
                pass  # ping, and whatever the API will think of next

    def _decode(self, decoder: msgspec.json.Decoder[T], data: bytes) -> T:
        """Decode what the upstream sent; side values of the wrong type are noted when the answer ends."""
        try:
            return decoder.decode(data)
        except (ValueError, RecursionError):
            odd: list[str] = []
            value = read(decoder, data, odd)
        self._is_exact = False
        self._odd.update(dict.fromkeys(odd[:MAX_ODD]))
        return value

    def _read_message(self, message: MessageIn, content: list[Raw]) -> None:
        self._start(message)
        for index, raw in enumerate(content):
            self._open(index, raw)
            self._shut(index)
        self._end_with(
            DeltaIn(
                stop_reason=message.stop_reason,
                stop_sequence=message.stop_sequence,
                stop_details=message.stop_details,
                container=message.container,
            ),
            None,
        )
        self._finish()

    def _start(self, message: MessageIn) -> None:
        if self._message_id is None:
            self._message_id = message.id or self._id
            started = Started(id=self._message_id, model=message.model or self._model)
            self._parts.events.append(started)
            if message.usage is not None:
                self._usage = usage_of(message.usage)
                self._give_usage()
        elif message.id and message.id != self._message_id:
            self._fail(Failed(kind="upstream", message="the upstream began a second message in one answer"))

    def _infer_start(self) -> None:
        if self._message_id is None:
            self._start(MessageIn())
            self._note("inferred_start", "the answer began without message_start")

    def _end_with(self, delta: DeltaIn, usage: UsageIn | None) -> None:
        """The last word counts; a later event that says nothing takes nothing back."""
        if usage is not None:
            self._usage = usage_of(usage, self._usage)
        stop = self._stop
        stop.stop_reason = delta.stop_reason or stop.stop_reason
        stop.stop_sequence = delta.stop_sequence or stop.stop_sequence
        if delta.stop_details is not ABSENT and given(delta.stop_details):
            stop.stop_details = delta.stop_details
        if delta.container is not ABSENT and given(delta.container):
            stop.container = delta.container

    # ── Blocks ───────────────────────────────────────────────────────────────────────────────────

    def _open(self, index: int, raw: Raw) -> None:
        if self._message_id is None:
            self._infer_start()
        block = self._decode(_BLOCK, bytes(raw)) if raw is not ABSENT else BlockIn()
        if index in self._blocks:
            if self._has_just_begun(index, block):
                return
            self._shut(index)
        if not block.type:
            self._note("ignored", "a block came without its type")
            return
        part = self._part(block, index)
        if type(part) is ToolCall and (part.id in self._made or not (block.id or block.name)):
            self._doubt(index, _Block(part, block, raw))
            return
        self._begin(index, _Block(part, block, raw))
        if type(part) is Text or (type(part) is Thinking and not part.redacted):
            text = block.text or block.thinking
            if text:
                self._parts.add(index, text)

    def _has_just_begun(self, index: int, block: BlockIn) -> bool:
        """Whether this is the start of a call a second time."""
        under_way = self._blocks.get(index)
        if under_way is None or not isinstance(under_way.part, ToolCall) or under_way.has_input:
            return False
        return block.type == "tool_use" and bool(block.id) and restore_id(block.id or "") == under_way.part.id

    def _begin(self, index: int, block: _Block) -> None:
        part = block.part
        if type(part) is ToolCall:
            self._made[part.id] = None
        if type(part) is Foreign or (type(part) is ToolCall and part.freeform):
            block.held = []
        self._is_exact = self._is_exact and index == self._opened and not self._blocks
        self._opened += 1
        for other, waiting in self._blocks.items():
            self._start_part(other, waiting)
        self._blocks[index] = block
        # Its frames must not be copied in part: a block of another kind is written whole or not at all.
        if type(part) is not Foreign or not self._is_exact:
            self._start_part(index, block)

    def _start_part(self, index: int, block: _Block) -> None:
        if not block.doubtful and not self._parts.has(index):
            self._parts.start(index, block.part)

    def _doubt(self, index: int, block: _Block) -> None:
        """Hold back a call that may be none: it has neither id nor name, or the id of an earlier one."""
        self._is_exact = False
        block.held, block.doubtful = [], True
        self._blocks[index] = block

    def _settle(self, block: _Block, call: ToolCall) -> None:
        """Make a call that was in doubt, if it says anything that was not said before."""
        text = _whole_input(block, call)
        before = self._made.get(call.id)
        if before == (call.name, text) or (call.name == NAMELESS and text == "{}" and not before):
            self._note("ignored", "a call came twice" if before else "a call came without anything in it")
            return
        if call.id in self._made:
            self._note("repair", f"two calls came with the id {call.id}: the second got another")
            call = replace(call, id=f"{call.id}_{len(self._made)}")
        self._made[call.id] = (call.name, text)
        self._parts.whole(call, text)

    def _part(self, block: BlockIn, index: int) -> Part:
        """The empty part a block begins."""
        match block.type:
            case "text":
                return NO_TEXT
            case "thinking":
                return Thinking()
            case "redacted_thinking":
                return Thinking(signature=block.data or "", redacted=True)
            case "tool_use":
                if not block.id or not block.name:
                    self._note("repair", f"a call came without {'a name' if block.id else 'an id'}")
                call = call_of(block, self._spelled, f"call_{self._message_id or self._id}_{index}")
                is_unchanged = (call.id, call.name, call.freeform) == (block.id, block.name, False)
                self._is_exact = self._is_exact and is_unchanged and self._is_usual_input(block.input)
                return call
            case kind:
                return Foreign(protocol=PROTOCOL, kind=kind, json="")

    def _add(self, index: int, delta: DeltaIn) -> None:
        """More of a block. What a delta holds counts, not what it is called: some hold text and signature at once."""
        block = self._blocks.get(index)
        if delta.text:
            if block is not None and block.fits == "text":
                self._parts.add(index, delta.text)
            else:
                self._parts.add(self._stray(index, Text()), delta.text)
            return
        if delta.partial_json:
            self._add_input(index, block, delta.partial_json)
            return
        if delta.thinking:
            if block is not None and block.fits == "thinking":
                self._parts.add(index, delta.thinking)
            else:
                self._parts.add(self._stray(index, Thinking()), delta.thinking)
        if block is not None:
            if delta.signature:
                self._is_exact = self._is_exact and not delta.thinking
                block.signature.append(delta.signature)
            if delta.type == "compaction_delta":
                _add_compaction(block.compaction, delta)
            if delta.citation is not ABSENT and given(delta.citation):
                block.citations.append(text_of(delta.citation))

    def _learn(self, raw: bytes, event: StreamEvent, delta: DeltaIn) -> None:
        """Learn the frame of this block's deltas, if they contain nothing but text."""
        index, frame = event.index, self._frame
        block = self._blocks.get(index)
        if block is None or block.held is not None or frame.key is not None:
            return
        field = _TEXT_FIELD[block.fits]
        text = getattr(delta, field)
        if text:
            frame.learn(index, raw, field, text, partial(_is_plain_delta, index, delta.type, field))

    def _add_input(self, index: int, block: _Block | None, text: str) -> None:
        if block is None or block.fits != "input":
            self._infer_start()
            self._note("ignored", "arguments came for a block that is no call")
            return
        block.has_input = True
        if block.held is None:
            self._parts.add(index, text)
        else:
            block.held.append(text)

    def _stray(self, index: int, part: Text | Thinking) -> Hashable:
        """The key of a part of its own for text that came for no block, or for a block of another kind."""
        block = self._blocks.get(index)
        if block is None:
            self._infer_start()
            self._begin(index, _Block(part, BlockIn(), ABSENT))
            return index
        key = (index, type(part))
        if not self._parts.has(key):
            self._is_exact = False
            block.has_strays = True
            self._parts.start(key, part)
        return key

    def _shut(self, index: int) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        self._frame.forget(index)
        part = block.part
        if type(part) is ToolCall and block.doubtful:
            self._settle(block, part)
        else:
            self._start_part(index, block)
            self._complete(index, block)
            self._parts.end(index)
        if block.has_strays:
            for kind in (Text, Thinking):
                if self._parts.has((index, kind)):
                    self._parts.end((index, kind))

    def _complete(self, index: int, block: _Block) -> None:
        part = block.part
        if type(part) is Text:
            if block.citations:
                citations = f"[{','.join(block.citations)}]"
                self._parts.revise(index, replace(part, meta={PROTOCOL: {"citations": citations}}))
        elif type(part) is ToolCall:
            if block.held is not None or not block.has_input:
                self._parts.add(index, _whole_input(block, part))
            self._made[part.id] = (part.name, self._parts.text_of(index))
        elif type(part) is Thinking:
            if block.signature and not part.redacted:
                self._parts.revise(index, replace(part, signature="".join(block.signature)))
        elif type(part) is Foreign:
            self._parts.revise(index, replace(part, json=_rebuilt(block)))

    # ── Usage and endings ────────────────────────────────────────────────────────────────────────

    def _give_usage(self) -> None:
        if self._usage != self._usage_given:
            self._usage_given = self._usage
            self._parts.events.append(self._usage)

    def _finish(self) -> None:
        if self._message_id is None:
            self._fail(Failed(kind="upstream", message="the upstream's answer ended before it began"))
            return
        for index in [*self._blocks]:
            self._shut(index)
        self._parts.end_all()
        self._give_usage()
        for path in [*self._odd][:MAX_ODD]:
            self._note("odd_value", f"the upstream's `{path}` has a type it should not have")
        said = self._reason()
        reason = reason_for(self._parts.calls, said)
        self._is_exact = self._is_exact and reason is said
        self._parts.events.append(finished_by(reason, self._stop))
        self.ended = True

    def _reason(self) -> StopReason:
        said = self._stop.stop_reason
        if said is None:
            self._note("inferred_ending", "the upstream gave no stop reason")
            return StopReason.END_TURN
        reason = REASONS.get(said)
        if reason is None:
            self._note("unknown_stop_reason", said)
        return reason or StopReason.END_TURN

    def _end_of_stream(self) -> None:
        stray = self._sse.stray.strip()
        if self._stop.stop_reason is not None and self._message_id is not None:
            self._note("inferred_ending", "the stream broke off after its stop reason")
            self._finish()
        elif stray.startswith(b"{"):
            self._fail(failed_by(Raw(stray)))
        else:
            self._fail(Failed(kind="upstream", message="the upstream's stream broke off before its end"))

    def _note(self, kind: str, message: str) -> None:
        self._is_exact = False
        self._parts.events.append(Note(kind=kind, message=message))


def read_reply(
    body: bytes, spelled: Spelled = UNCHANGED, *, fallback_id: str = "", model: str = "", keep_source: bool = False
) -> list[Event]:
    """Return the events of an answer that did not stream."""
    return ResponseReader(spelled, fallback_id=fallback_id, model=model, keep_source=keep_source).read_whole(body)


def _streamed_input(given_input: Raw) -> bool:
    """In a stream the input follows in deltas; clients expect none at the start of the block."""
    return given_input is ABSENT or bytes(given_input) == b"{}"


def _whole_input_object(given_input: Raw) -> bool:
    return bytes(given_input).startswith(b"{")


def _is_plain_delta(index: int, kind: str | None, field: str, block: bytes) -> bool:
    """Return whether a block says nothing but that a delta of this kind has the trial text."""
    event = SseReader().event(block)
    saying = DeltaIn(type=kind)
    setattr(saying, field, TRIAL)
    plain = StreamEvent(type="content_block_delta", index=index, delta=saying)
    return event is not None and _EVENT.decode(event[1]) == plain


def call_of(block: BlockIn, spelled: Spelled, fallback_id: str = "") -> ToolCall:
    """The call a block begins, without its arguments."""
    name = spelled.names.restore(block.name or "") or NAMELESS
    meta = NO_META
    if block.caller is not ABSENT or block.toolset_name is not ABSENT:
        own = {name: text_of(value) for name in ("caller", "toolset_name") if given(value := getattr(block, name))}
        meta = {PROTOCOL: own} if own else NO_META
    return ToolCall(
        id=restore_id(block.id or "") or fallback_id,
        name=name,
        freeform=name in spelled.freeform,
        meta=meta,
    )


def _start_input(given_input: Raw) -> str:
    """The input a block began with, when nothing followed: some upstreams send all of it there."""
    text = text_of(given_input)
    if text.startswith('"') and text not in _NO_INPUT:
        return object_text(text)  # text where an object belongs, mostly the text of that object
    return "{}" if text in _NO_INPUT else text


def _whole_input(block: _Block, call: ToolCall) -> str:
    """The arguments of a call that were held, or came with its start."""
    text = "".join(block.held or ()) or _start_input(block.input)
    return _unwrapped(text) if call.freeform else text


def _unwrapped(text: str) -> str:
    """The raw text of a freeform call that went out as a function with one field; what has another form stays."""
    try:
        return read(_WRAPPED, text.encode()).get("input", text)
    except (Malformed, UnicodeError):
        return text


def _rebuilt(block: _Block) -> str:
    """The JSON of a block only this protocol understands, with the input that came after its start."""
    signature = "".join(block.signature) if block.compaction else ""
    if not block.held and not block.compaction:
        return text_of(block.raw)
    fields = read(_FIELDS, bytes(block.raw))
    if block.held:
        fields["input"] = Raw(object_text("".join(block.held)).encode())
    for name, text in block.compaction.items():
        fields[name] = Raw(encode(text))
    if signature:
        fields["signature"] = Raw(encode(signature))
    return encode(fields).decode()


def _add_compaction(so_far: dict[str, str], delta: DeltaIn) -> None:
    for name in ("content", "encrypted_content"):
        text = getattr(delta, name)
        if text:
            so_far[name] = so_far.get(name, "") + text


def _texts(array: Raw) -> list[str]:
    return [text_of(item) for item in read(_LIST, bytes(array))] if given(array) else []
