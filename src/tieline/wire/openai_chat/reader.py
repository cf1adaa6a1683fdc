"""Translate the answer from a Chat Completions upstream into the events of a leg.

Upstreams send the usage after the finish reason, so the ending is held back until `[DONE]` or the end of the stream.
Notes and usage are emitted just before the ending, because they must not occur inside a part.

Text, thinking and refusals ("prose") never overlap: when one starts, the previous one ends. A call also ends the open
prose, and text after a call is a new part. Blank text is held back until other text follows: a blank part between calls
would become part of the history, and upstreams reject such a history.
"""

from collections.abc import Sequence
from functools import partial

import msgspec
from msgspec import Raw

from tieline.model.assemble import reason_for
from tieline.model.content import NO_META, STATE, Part, Text, Thinking
from tieline.model.events import Event, Failed, Finished, Note, Started, StopReason, Usage
from tieline.wire.framing.stream_reader import TRIAL, StreamReader
from tieline.wire.openai_chat.call_assembly import CallAssembler
from tieline.wire.openai_chat.errors import failure
from tieline.wire.openai_chat.provider_state import StateReader, thoughts_in
from tieline.wire.openai_chat.schema import PROTOCOL, CallDelta, Choice, Chunk, ContentItem, Delta, UsageShape
from tieline.wire.shared.json import Malformed, decode_any, encode, read
from tieline.wire.shared.spelling import NO_TOOL_NAMES, ToolNames

_CHUNK = msgspec.json.Decoder(Chunk)
_decode = _CHUNK.decode
_ITEM = msgspec.json.Decoder(str | ContentItem)
_PROSE: dict[str, Part] = {"text": Text(), "thinking": Thinking(), "refusal": Text(refusal=True)}
_TEXT_FIELDS = {"text": ("content",), "thinking": ("reasoning_content", "reasoning")}
_LEGACY_INDEX = -1
MAX_MISTYPED = 20
"""Maximum number of notes about values of the wrong type in one answer."""

_REASONS = {
    "stop": StopReason.END_TURN,
    "end_turn": StopReason.END_TURN,
    "eos": StopReason.END_TURN,
    "eos_token": StopReason.END_TURN,
    "complete": StopReason.END_TURN,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_calls": StopReason.TOOL_USE,
    "tool_use": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
    "safety": StopReason.REFUSAL,
    "sensitive": StopReason.REFUSAL,
}
_OVERRIDABLE = (None, StopReason.END_TURN, StopReason.TOOL_USE)


class ResponseReader(StreamReader):
    """Translates one answer into the events of one leg, with exactly one ending.

    `fallback_id` and `model` are used if the answer itself has no id or no model name.
    """

    protocol = PROTOCOL

    def __init__(
        self,
        tool_names: ToolNames = NO_TOOL_NAMES,
        *,
        fallback_id: str = "",
        model: str = "",
        keep_source: bool = False,
    ) -> None:
        super().__init__(keep_source)
        self._calls = CallAssembler(self._parts, tool_names, self._end_prose)
        self._fallback_id = fallback_id
        self._model = model
        self._started = False
        self._kind: str | None = None
        self._key = 0
        self._blank = ""
        self._blank_kind = ""
        self._annotations: list[Raw] = []
        self._has_choice = False
        self._state: StateReader | None = None
        self._mistyped: set[str] = set()
        self._reason: StopReason | None = None
        self._sequence: str | None = None
        self._usage: UsageShape | None = None

    def read_whole(self, body: bytes) -> list[Event]:
        """Return the events of a non-streaming answer."""
        try:
            self._chunk(body)
            if not self.ended and not self._has_choice:
                self._fail(_no_choices(body))
            if not self.ended:
                self._finish(is_complete=True, is_whole=True)
        except Malformed as error:
            self._fail_unreadable(error)
        return self._whole(body)

    # ── Chunks ───────────────────────────────────────────────────────────────────────────────────

    def _receive(self, block: bytes) -> None:
        name, data = self._sse.event(block) or (b"", b"")
        if data.startswith(b"[DONE]"):
            self._finish(is_complete=True)
        elif name == b"error":
            self._fail(failure(_loaded(data)))
        elif data and not data.isspace():
            chunk = self._chunk(data)
            if self._kind is not None and self._frame.key != self._key:
                self._learn(block, chunk, self._kind)

    def _end_of_stream(self) -> None:
        self._finish(is_complete=False)

    def _learn(self, block: bytes, chunk: Chunk, kind: str) -> None:
        """Learn the delta frame from this chunk, if its only content is text. `kind` is the kind of that text."""
        choice = chunk.choices[0] if chunk.choices else None
        for field in _TEXT_FIELDS.get(kind, ()):
            text = choice and choice.delta and getattr(choice.delta, field)
            if isinstance(text, str) and text and chunk == _plain_chunk(chunk, field, text):
                self._frame.learn(
                    self._key, block, field, text, partial(self._means, _plain_chunk(chunk, field, TRIAL))
                )
                return

    def _means(self, chunk: Chunk, block: bytes) -> bool:
        event = self._sse.event(block)
        return event is not None and _decode(event[1]) == chunk

    def _chunk(self, data: bytes) -> Chunk:
        try:
            chunk = _decode(data)
        except (ValueError, RecursionError):
            mistyped: list[str] = []
            chunk = read(_CHUNK, data, mistyped)
            self._is_exact = False
            self._note_mistyped(mistyped)
        if chunk.error or chunk.object == "error":
            self._fail(failure(_loaded(data)))
            return chunk
        if not self._started and (chunk.choices or chunk.id):
            self._find_model(chunk.model, data)
            self._start(chunk)
        for choice in chunk.choices or ():
            self._has_choice = True
            delta = choice.delta or choice.message
            self._is_exact = self._is_exact and not choice.index
            if delta is not None:
                self._delta(delta, choice.index or 0)
            if choice.finish_reason or choice.error:
                self._end_choice(choice)
        if chunk.usage is not None:
            self._usage = chunk.usage
        return chunk

    def _start(self, chunk: Chunk) -> None:
        own_id = str(chunk.id or "") or self._fallback_id
        self._is_exact = self._is_exact and own_id == chunk.id
        self._calls.seed = f"{self._fallback_id}:{own_id}"
        self._started = True
        self._parts.events.append(Started(id=own_id, model=chunk.model or self._model))

    def _end_choice(self, choice: Choice) -> None:
        """Record how a choice ended. If the upstream sends several choices instead of one, they are joined."""
        if choice.error:
            self._fail(failure(choice.error))
            return
        word = choice.finish_reason or ""
        reason = _REASONS.get(word.casefold())
        if reason is None:
            reason = StopReason.END_TURN
            self._note("unknown_finish_reason", f"unknown finish reason '{word}', treated as `stop`")
        sequence = choice.stop_reason
        if isinstance(sequence, str) and reason is StopReason.END_TURN and sequence not in _REASONS:
            reason, self._sequence = StopReason.STOP_SEQUENCE, sequence
        if self._reason in _OVERRIDABLE:
            self._reason = reason

    # ── Deltas ───────────────────────────────────────────────────────────────────────────────────

    def _delta(self, delta: Delta, choice: int) -> None:
        thinking = delta.reasoning_content or delta.reasoning
        if delta.reasoning_details or delta.thinking_blocks or delta.extra_content:
            thinking = self._keep_state(delta, thinking)
        if thinking:
            self._add_prose("thinking", thinking if isinstance(thinking, str) else self._listed(thinking))
        content = delta.content
        if content:
            if not isinstance(content, str):
                self._items(content)
            elif self._kind == "text":
                self._parts.add(self._key, content)
            else:
                self._add_prose("text", content)
        self._annotations += delta.annotations or ()
        if delta.refusal:
            self._add_prose("refusal", delta.refusal)
        if delta.tool_calls:
            for position, call_delta in enumerate(delta.tool_calls):
                self._is_exact = self._is_exact and self._calls.is_regular(call_delta, position)
                self._calls.add(call_delta, (choice, position))
            self._is_exact = self._is_exact and not self._calls.is_changed
        if delta.function_call is not None:
            self._is_exact = False
            self._calls.add(CallDelta(index=_LEGACY_INDEX, function=delta.function_call), (choice, 0))

    def _keep_state(self, delta: Delta, thinking: str | list[Raw] | dict[str, Raw] | None) -> str:
        """Collect the provider state in a delta. Return the thinking text: from `thinking`, or else from the state."""
        self._is_exact = False  # the writer adds the state at the end, and it must not be written twice
        self._state = self._state or StateReader()
        self._state.add(delta)
        if isinstance(thinking, str) and thinking:
            return thinking
        return thoughts_in(delta.reasoning_details) or thoughts_in(delta.thinking_blocks) or self._listed(thinking)

    def _listed(self, thinking: list[Raw] | dict[str, Raw] | str | None) -> str:
        return thoughts_in(Raw(encode(thinking))) if isinstance(thinking, list) else ""

    def _items(self, items: Sequence[Raw]) -> None:
        """Add content that the upstream sent as a list of text and thinking items."""
        for raw in items:
            mistyped: list[str] = []
            item = read(_ITEM, bytes(raw), mistyped)
            self._note_mistyped([f"content.{path}" for path in mistyped])
            if isinstance(item, str):
                self._add_prose("text", item)
            elif item.thinking:
                self._add_prose(
                    "thinking", item.thinking if isinstance(item.thinking, str) else self._listed(item.thinking)
                )
            elif item.text:
                self._add_prose("text", item.text)

    def _add_prose(self, kind: str, text: str) -> None:
        if self._kind == kind:
            self._parts.add(self._key, text)
            return
        if self._blank and self._blank_kind == kind:
            text = self._blank + text
        self._blank, self._blank_kind = text, kind
        if text and not text.isspace():
            self._start_prose(kind, text)

    def _start_prose(self, kind: str, text: str) -> None:
        self._end_prose()
        self._calls.close_complete()
        self._is_exact = self._is_exact and not self._calls.is_changed
        self._kind = kind
        self._parts.start(self._key, _PROSE[kind])
        self._parts.add(self._key, text)

    def _end_prose(self) -> None:
        self._blank = ""
        if self._kind is not None:
            if self._annotations and self._kind == "text":
                annotations, self._annotations = encode(self._annotations).decode(), []
                self._parts.revise(self._key, Text(meta={PROTOCOL: {"annotations": annotations}}))
            self._parts.end(self._key)
            self._frame.forget(self._key)
            self._kind = None
            # PartsWriter may still hold the part under this key, so the next part needs another key.
            self._key += 1

    # ── Endings ──────────────────────────────────────────────────────────────────────────────────

    def _finish(self, is_complete: bool, is_whole: bool = False) -> None:
        """End all parts and emit the ending.

        `is_complete` says whether the upstream marked the end of the answer, `is_whole` whether it sent the answer as
        one body, not as a stream.
        """
        reason = self._reason
        if reason is None:
            self._read_unframed()
            if self.ended:
                return
            reason = self._reason or self._inferred(is_complete, is_whole)
        if reason is None:
            self._fail(Failed(kind="upstream", message=self._missing(is_complete), status=502))
            return
        self._finish_parts(cut=reason in (StopReason.MAX_TOKENS, StopReason.REFUSAL))
        given_reason, reason = reason, reason_for(self._parts.calls, reason)
        self._is_exact = self._is_exact and reason is given_reason and not self._calls.is_changed
        self._emit_rest()
        sequence = self._sequence if reason is StopReason.STOP_SEQUENCE else None
        meta = NO_META if self._state is None else {STATE: self._state.take()}
        self._parts.events.append(Finished(reason=reason, sequence=sequence, meta=meta))
        self.ended = True

    def _finish_parts(self, cut: bool) -> None:
        if self._blank and self._blank_kind == "text" and not self._parts.calls:
            self._start_prose("text", self._blank)
        self._end_prose()
        self._calls.close(cut)

    def _inferred(self, is_complete: bool, is_whole: bool) -> StopReason | None:
        """Infer the stop reason of an answer without a finish reason. Return None if the answer cannot be complete."""
        if not is_complete or not self._has_choice or (self._calls.lacks_arguments and not is_whole):
            return None
        self._note("inferred_ending", "the upstream gave no finish reason, so it was inferred")
        return StopReason.MAX_TOKENS if self._calls.incomplete else StopReason.END_TURN

    def _missing(self, is_complete: bool) -> str:
        """Return the error message for an answer that has no ending, with the likely reason."""
        if not is_complete:
            return "the upstream's answer ended early"
        if self._has_choice:
            return "the upstream ended its answer in the middle of a tool call"
        return "the upstream's answer has no `choices`: is its address that of a Chat Completions API?"

    def _read_unframed(self) -> None:
        """Read an error or a whole answer that was sent as plain JSON, not as a server-sent event."""
        stray = self._sse.stray.strip()
        if stray.startswith(b"{"):
            try:
                self._chunk(stray)
            except Malformed as error:
                self._fail_unreadable(error)

    def _emit_rest(self) -> None:
        events = self._parts.events
        events += self._calls.notes
        if self._usage is not None:
            events.append(_usage(self._usage))

    def _note_mistyped(self, paths: list[str]) -> None:
        for path in paths:
            if path not in self._mistyped and len(self._mistyped) < MAX_MISTYPED:
                self._mistyped.add(path)
                self._note("odd_value", f"the upstream's `{path}` has the wrong type")

    def _note(self, kind: str, message: str) -> None:
        self._is_exact = False
        self._calls.notes.append(Note(kind=kind, message=message))

    def _fail(self, failed: Failed) -> None:
        if self._started and self._kind is None and not self._calls.open:
            self._emit_rest()
        super()._fail(failed)


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


def _no_choices(body: bytes) -> Failed:
    """Return the failure for an answer without choices. Its message names the fields that the upstream sent instead."""
    value = _loaded(body)
    kind = value.get("object") if isinstance(value, dict) else None
    found = f"an object of the kind {kind[:60]!r}" if isinstance(kind, str) else "a reply"
    has = f" with the fields {', '.join([*value][:12])}" if isinstance(value, dict) else ""
    message = f"the upstream sent {found} without any `choices`{has}: is its address that of a Chat Completions API?"
    return Failed(kind="upstream", message=message, status=502)


def _loaded(data: bytes) -> object:
    try:
        value: object = decode_any(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")[:300]
    return value


def _usage(shape: UsageShape) -> Usage:
    prompt = shape.prompt_tokens or 0
    details = shape.prompt_tokens_details
    cache_read = (details.cached_tokens if details is not None else 0) or shape.prompt_cache_hit_tokens or 0
    cache_write = (details.cache_write_tokens if details is not None else 0) or 0
    completion = shape.completion_tokens_details
    return Usage(
        input=max(0, prompt - cache_read - cache_write),
        output=shape.completion_tokens or 0,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=(completion.reasoning_tokens if completion is not None else 0) or 0,
    )


def _plain_chunk(chunk: Chunk, field: str, text: str) -> Chunk:
    """Return a chunk with the id, model and index of `chunk`, whose only content is `text` in the field `field`."""
    choices = chunk.choices or []
    choice = Choice(index=choices[0].index, delta=msgspec.convert({field: text}, Delta))
    return Chunk(id=chunk.id, model=chunk.model, object=chunk.object, choices=[choice])
