"""Translate the answer from a Responses upstream into the events of a leg.

A stream consists of response.created, the events of the output items, and response.completed, .incomplete or .failed.
`item_assembly` turns the items into parts. The last event lists all items again; those that were not streamed are taken
from it. Unknown events and fields are ignored.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from tieline.model.assemble import reason_for
from tieline.model.content import Checkpoint
from tieline.model.events import Event, Failed, Finished, Started, StopReason, Usage
from tieline.wire.framing.stream_reader import TRIAL, StreamReader
from tieline.wire.openai_responses.errors import failure
from tieline.wire.openai_responses.item_assembly import ItemAssembler, ItemPlace
from tieline.wire.openai_responses.output_items import Section
from tieline.wire.openai_responses.schema import (
    ABSENT,
    PROTOCOL,
    ItemShape,
    PartShape,
    ResponseShape,
    StreamEvent,
    UsageShape,
)
from tieline.wire.shared.json import Malformed, decode_any, encode, read
from tieline.wire.shared.spelling import NO_TOOL_NAMES, ToolNames

_EVENT = msgspec.json.Decoder(StreamEvent)
_RESPONSE = msgspec.json.Decoder(ResponseShape)
_ITEM = msgspec.json.Decoder(ItemShape)
_PART = msgspec.json.Decoder(PartShape)

T = TypeVar("T")

MAX_MISTYPED = 20
"""Maximum number of notes about values of the wrong type in one answer."""

_DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning.delta": "reasoning",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "arguments",
}
"""The types of events with a delta, and the kind of section that the delta belongs to."""
_TEXTS = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.reasoning_summary_text.done": "summary",
    "response.reasoning_text.done": "reasoning",
    "response.reasoning.done": "reasoning",
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "arguments",
}
"""The types of events that repeat the whole text of a section, and the kind of that section."""
_BEGINNINGS = frozenset(("response.created", "response.queued", "response.in_progress"))
_ENDINGS = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""The types of events that end a stream, and the status to assume if their response has none."""
_INCOMPLETE = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "max_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}


class ResponseReader(StreamReader):
    """Translates one answer into the events of one leg, with exactly one ending.

    `fallback_id` and `model` are used if the answer itself has no id or no model name. If `issuer` is not empty, it
    identifies the upstream, and the ending of a stored answer has a checkpoint.
    """

    protocol = PROTOCOL

    def __init__(
        self,
        tool_names: ToolNames = NO_TOOL_NAMES,
        *,
        fallback_id: str = "",
        model: str = "",
        keep_source: bool = False,
        issuer: str = "",
    ) -> None:
        super().__init__(keep_source)
        self._items = ItemAssembler(self._parts, tool_names)
        self._fallback_id = fallback_id
        self._model = model
        self._issuer = issuer
        self._started = False
        self._mistyped: dict[str, None] = {}
        """The paths of values with the wrong type, in order of occurrence."""

    def read_whole(self, body: bytes) -> list[Event]:
        """Return the events of a non-streaming answer."""
        self._items.is_whole = True
        try:
            response = self._decode(_RESPONSE, body)
            if response.output is None:
                self._fail(_no_output(response, body))
            else:
                self._read_response(response, response.output, body)
        except (Malformed, UnicodeDecodeError) as error:
            self._fail_unreadable(error)
        return self._whole(body)

    def _read_response(self, response: ResponseShape, output: list[Raw], body: bytes) -> None:
        self._start(response, body)
        for index, raw in enumerate(output):
            shape = self._decode(_ITEM, bytes(raw))
            self._items.start(shape, raw, index)
            self._items.finish(shape, raw, index)
        self._end(response, response.status or "completed")

    # ── Events of the stream ─────────────────────────────────────────────────────────────────────

    def _receive(self, block: bytes) -> None:
        name, data = self._sse.event(block) or (b"", b"")
        if not data or data.isspace() or data.startswith(b"[DONE]"):
            return
        event = self._decode(_EVENT, data)
        kind = event.type or name.decode("utf-8", "replace")
        delta = _DELTAS.get(kind)
        if delta is not None:
            if isinstance(event.delta, str):
                self._add_delta(event, _section(delta, event), event.delta, block)
        elif kind in _ENDINGS:
            self._end_stream(event.response or ResponseShape(), _ENDINGS[kind], block)
        elif kind == "error" or event.error:
            self._fail(failure(_loaded(data)))
        else:
            self._receive_other(kind, event, block)
        # Clients need the sequence numbers, which some upstreams omit.
        self._is_exact = self._is_exact and self._items.is_regular and event.sequence_number is not None

    def _add_delta(self, event: StreamEvent, section: Section, text: str, block: bytes) -> None:
        item = self._items.add(self._place(event), section, text)
        if text and self._frame.key != (item, section):
            same = msgspec.structs.replace(event, delta=TRIAL)
            self._frame.learn((item, section), block, "delta", text, partial(self._means, same), "sequence_number")

    def _means(self, expected: StreamEvent, block: bytes) -> bool:
        event = self._sse.event(block)
        return event is not None and _EVENT.decode(event[1]) == expected

    def _add_deltas(self, key: Any, texts: Sequence[str]) -> None:
        item, section = key
        item.add_all(section, texts)

    def _receive_other(self, kind: str, event: StreamEvent, block: bytes) -> None:
        if kind in _BEGINNINGS:
            self._start(event.response or ResponseShape(), block)
        elif kind in _TEXTS:
            self._items.fill(self._place(event), _section(_TEXTS[kind], event), _whole_text(event), event.name)
        elif kind in ("response.content_part.added", "response.content_part.done"):
            if bytes(event.part).startswith(b"{"):
                part = self._decode(_PART, bytes(event.part))
                self._items.fill_part(self._place(event), event.content_index or 0, part)
        elif kind in ("response.output_item.added", "response.output_item.done") and event.item is not ABSENT:
            self._infer_start()
            shape = self._decode(_ITEM, bytes(event.item))
            if kind.endswith("added"):
                self._items.start(shape, event.item, event.output_index)
            else:
                self._items.finish(shape, event.item, event.output_index)

    def _place(self, event: StreamEvent) -> ItemPlace:
        if not self._started:
            self._infer_start()
        return ItemPlace(event.output_index, event.item_id, event.call_id)

    def _decode(self, decoder: msgspec.json.Decoder[T], data: bytes) -> T:
        """Decode JSON from the upstream. Tolerate values of the wrong type, and record their paths in `_mistyped`."""
        try:
            return decoder.decode(data)
        except (ValueError, RecursionError):
            mistyped: list[str] = []
            value = read(decoder, data, mistyped)
        self._is_exact = False
        self._mistyped.update(dict.fromkeys(mistyped[:MAX_MISTYPED]))
        return value

    def _start(self, response: ResponseShape, text: bytes) -> None:
        if self._started:
            return
        self._started = True
        own_id = response.id or self._fallback_id
        self._find_model(response.model, text)
        self._is_exact = self._is_exact and own_id == response.id
        self._items.seed = f"{self._fallback_id}:{own_id}"
        self._parts.events.append(Started(id=own_id, model=response.model or self._model))

    def _infer_start(self) -> None:
        if not self._started:
            self._start(ResponseShape(), b"")
            self._items.note("inferred_start", "the answer started without response.created")

    # ── Endings ──────────────────────────────────────────────────────────────────────────────────

    def _end_stream(self, response: ResponseShape, status: str, block: bytes) -> None:
        self._start(response, block)
        self._is_exact = self._is_exact and response.usage is not None
        if response.status in _ENDINGS.values():
            status = response.status or status
        if status in ("completed", "incomplete"):
            self._items.finish_all([(self._decode(_ITEM, bytes(raw)), raw) for raw in response.output or ()])
        self._end(response, status)

    def _end(self, response: ResponseShape, status: str) -> None:
        match status:
            case "completed":
                self._finish(StopReason.END_TURN, response.usage, self._checkpoint(response))
            case "incomplete":
                self._finish(self._incomplete_reason(response), response.usage)
            case "failed":
                self._fail(failure({"error": response.error} if response.error else {}))
            case "cancelled":
                self._fail(Failed(kind="cancelled", message="the upstream cancelled its answer", status=499))
            case _:
                message = f"the upstream's answer has the status '{status[:60]}', expected 'completed'"
                self._fail(Failed(kind="upstream", message=message, status=502))

    def _incomplete_reason(self, response: ResponseShape) -> StopReason:
        word = (response.incomplete_details.reason if response.incomplete_details is not None else None) or ""
        reason = _INCOMPLETE.get(word)
        if reason is None:
            self._items.note("unknown_finish_reason", f"unknown reason '{word}', treated as `max_output_tokens`")
        return reason or StopReason.MAX_TOKENS

    def _checkpoint(self, response: ResponseShape) -> Checkpoint | None:
        """Return the checkpoint of a complete answer; None if the upstream has not stored the answer."""
        if not self._issuer or not response.id or response.store is False:
            return None
        return Checkpoint(upstream=self._issuer, model=self._model, state=response.id)

    def _finish(self, given_reason: StopReason, usage: UsageShape | None, checkpoint: Checkpoint | None = None) -> None:
        self._items.cut()
        reason = reason_for(self._parts.calls, given_reason)
        for path in [*self._mistyped][:MAX_MISTYPED]:
            self._items.note("odd_value", f"the upstream's `{path}` has the wrong type")
        events = self._parts.events
        events += self._items.notes
        if usage is not None:
            events.append(_usage(usage))
        events.append(Finished(reason=reason, checkpoint=checkpoint))
        self._is_exact = self._is_exact and self._items.is_regular
        self.ended = True

    def _end_of_stream(self) -> None:
        stray = self._sse.stray.strip()
        if not stray.startswith(b"{"):
            self._fail(Failed(kind="upstream", message="the upstream's answer ended early", status=502))
            return
        # An error, or a whole answer, that was sent without framing.
        response = self._decode(_RESPONSE, stray)
        if response.output is None or self._started:
            self._fail(failure(_loaded(stray)))
        else:
            self._read_response(response, response.output, stray)


def read_reply(
    body: bytes,
    tool_names: ToolNames = NO_TOOL_NAMES,
    *,
    fallback_id: str = "",
    model: str = "",
    keep_source: bool = False,
    issuer: str = "",
) -> list[Event]:
    """Return the events of a non-streaming answer; see `ResponseReader`."""
    reader = ResponseReader(tool_names, fallback_id=fallback_id, model=model, keep_source=keep_source, issuer=issuer)
    return reader.read_whole(body)


def _section(kind: str, event: StreamEvent) -> Section:
    if kind == "arguments":
        return Section(kind)
    return Section(kind, (event.summary_index if kind == "summary" else event.content_index) or 0)


def _whole_text(event: StreamEvent) -> str:
    """Return the whole text that an event repeats, whichever field contains it."""
    if isinstance(event.arguments, dict | list):
        return encode(event.arguments).decode()
    return event.text or event.refusal or event.arguments or event.input or ""


def _no_output(response: ResponseShape, body: bytes) -> Failed:
    """Return the failure for an answer without output. Its message names the fields that the upstream sent instead."""
    if response.error:
        return failure({"error": response.error})
    value = _loaded(body)
    kind = value.get("object") if isinstance(value, dict) else None
    found = f"an object of the kind {kind[:60]!r}" if isinstance(kind, str) else "a reply"
    has = f" with the fields {', '.join([*value][:12])}" if isinstance(value, dict) else ""
    message = f"the upstream sent {found} without `output`{has}: is its address that of a Responses API?"
    return Failed(kind="upstream", message=message, status=502)


def _loaded(data: bytes) -> object:
    try:
        value: object = decode_any(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")[:300]
    return value


def _usage(shape: UsageShape) -> Usage:
    details, output = shape.input_tokens_details, shape.output_tokens_details
    cache_read = (details.cached_tokens if details is not None else 0) or 0
    cache_write = (details.cache_write_tokens if details is not None else 0) or 0
    return Usage(
        input=max(0, (shape.input_tokens or 0) - cache_read - cache_write),
        output=shape.output_tokens or 0,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=(output.reasoning_tokens if output is not None else 0) or 0,
    )
