"""Assemble parts from interleaved deltas, and convert between the events of a leg and a complete reply.

All readers use `PartsWriter`. Upstreams interleave parts: two calls may grow alternately, or text may arrive while a
call is open. The grammar of a leg does not allow that. Therefore only the oldest unfinished part (the *head*) is
emitted as it grows, and the text of every later part is held back until all parts before it have ended. The chunks
of a text are collected in a list and joined once, at the end.
"""

import re
from collections import deque
from collections.abc import Hashable, Iterable
from itertools import repeat
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall
from tieline.model.errors import LegFailed
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
    of_kind,
)
from tieline.model.source import AnswerSource

_PART = attrgetter("part")
_NO_TEXT = Text()
_NO_START = Started(id="", model="")
_NO_USAGE = Usage()
# Cached: enum attribute lookup is slow on CPython 3.11.
_TOOL_USE = StopReason.TOOL_USE
_CALLS_MAY_FOLLOW = (StopReason.END_TURN, StopReason.STOP_SEQUENCE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Slot(Struct):
    """A part that has been started but not yet emitted completely."""

    part: Part
    chunks: list[str] = []
    ended: bool = False
    half: str = ""
    """The first half of a surrogate pair whose second half has not arrived yet."""

    def join_surrogates(self, text: str) -> str:
        """Return the text with split surrogate pairs joined.

        A pair may be split between two chunks of a part. Therefore, if `text` ends with the first half of a pair, this
        half is kept for the next call.
        """
        if not self.half and not _SURROGATE.search(text):
            return text
        text = self.half + text
        self.half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        text = text[: len(text) - len(self.half)]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PartsWriter:
    """Converts interleaved parts to events in which parts do not overlap.

    The caller starts, extends and ends parts in any order, each under a key of its choice. The resulting events are
    appended to `events`.
    """

    calls = 0
    """The number of tool calls that have been started."""
    _head: _Slot | None = None
    _index = 0

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._under_way: dict[Hashable, _Slot] = {}
        self._waiting: deque[_Slot] = deque()
        """The parts after the head, in the order in which they were started."""

    def take(self) -> list[Event]:
        """Return the events collected since the last call to this method, and clear the list."""
        events, self.events = self.events, []
        return events

    @property
    def is_holding(self) -> bool:
        """Whether any parts are held back until an earlier part ends."""
        return bool(self._waiting)

    def has(self, key: Hashable) -> bool:
        """Return whether there is an unfinished part with this key."""
        return key in self._under_way

    def start(self, key: Hashable, part: Part) -> None:
        """Start a part, after ending any unfinished part with the same key."""
        if key in self._under_way:
            self.end(key)
        slot = self._under_way[key] = _Slot(part)
        if type(part) is ToolCall:
            self.calls += 1
        if self._head is None:
            self._head = slot
            self.events.append(PartStart(index=self._index, part=_empty(part)))
        else:
            self._waiting.append(slot)

    def add(self, key: Hashable, text: str) -> None:
        """Append text to the unfinished part with this key."""
        if not text:
            return
        slot = self._under_way[key]
        if slot.half or not text.isascii():
            text = slot.join_surrogates(text)
            if not text:
                return
        slot.chunks.append(text)
        if slot is self._head:
            self.events.append(PartDelta(self._index, text))

    def add_all(self, key: Hashable, texts: Iterable[str]) -> None:
        """Append several texts to the unfinished part with this key. They must not contain surrogates."""
        slot = self._under_way[key]
        if slot is not self._head or slot.half:
            for text in texts:
                self.add(key, text)
            return
        added = [*filter(None, texts)]
        slot.chunks += added
        self.events += map(PartDelta, repeat(self._index), added)

    def text_of(self, key: Hashable) -> str:
        """Return the text that has been added to the unfinished part with this key."""
        return "".join(self._under_way[key].chunks)

    def revise(self, key: Hashable, part: Part) -> None:
        """Replace the fields of an unfinished part, such as its signature, with those of `part`. Its text remains."""
        self._under_way[key].part = part

    def end(self, key: Hashable) -> None:
        """End the unfinished part with this key."""
        slot = self._under_way[key]
        if slot.half:
            slot.half = ""
            self.add(key, "\ufffd")
        del self._under_way[key]
        if slot is self._head:
            self._end_head(slot)
            if self._waiting:
                self._advance()
        else:
            slot.ended = True

    def end_all(self) -> None:
        """End all unfinished parts."""
        for key in list(self._under_way):
            self.end(key)

    def whole(self, part: Part, text: str = "") -> None:
        """Add a complete part. `part` contains all fields except the text, which is passed separately as `text`."""
        if self._head is not None or (not text.isascii() and _SURROGATE.search(text)):
            key = object()
            self.start(key, part)
            self.add(key, text)
            self.end(key)
            return
        if type(part) is ToolCall:
            self.calls += 1
        index = self._index
        self._index += 1
        self.events += part_events(index, part, text)

    def complete(self, part: Part) -> None:
        """Add a complete part that contains its text."""
        match part:
            case Text() | Thinking(redacted=False):
                self.whole(replace(part, text=""), part.text)
            case ToolCall():
                self.whole(replace(part, arguments=""), part.arguments)
            case _:
                self.whole(part)

    def _end_head(self, head: _Slot) -> None:
        self.events.append(PartEnd(index=self._index, part=_filled(head.part, "".join(head.chunks))))
        self._index += 1
        self._head = None

    def _advance(self) -> None:
        """Emit the waiting parts up to and including the first unfinished one, which becomes the head."""
        while self._waiting:
            slot = self._head = self._waiting.popleft()
            self.events.append(PartStart(index=self._index, part=_empty(slot.part)))
            if slot.chunks:
                self.events.append(PartDelta(index=self._index, text="".join(slot.chunks)))
            if not slot.ended:
                return
            self._end_head(slot)


def part_events(index: int, part: Part, text: str) -> tuple[Event, ...]:
    """Return the events of a complete part that has this index and text. The text must not contain surrogates."""
    begun, whole = PartStart(index=index, part=_empty(part)), PartEnd(index=index, part=_filled(part, text))
    return (begun, PartDelta(index, text), whole) if text else (begun, whole)


def _empty(part: Part) -> Part:
    """Return the part without its text, for PartStart.

    Fields that may arrive later, such as a signature, are removed too, so that PartStart is the same whether the part
    is emitted at once or held back.
    """
    if type(part) is Text:
        return Text(refusal=True) if part.refusal else _NO_TEXT
    if type(part) is Thinking and not part.redacted:
        return Thinking()
    if type(part) is Foreign:
        return replace(part, json="")
    return part


def _filled(part: Part, text: str) -> Part:
    if type(part) is Text:
        return Text(text=text, refusal=part.refusal, meta=part.meta)
    if type(part) is ToolCall:
        return replace(part, arguments=text)
    if type(part) is Thinking:
        return replace(part, text=text)
    return part


def fold(events: Iterable[Event], source: AnswerSource | None = None) -> Reply:
    """Combine the events of a complete leg into one reply. Raise LegFailed if the leg failed."""
    batch = tuple(events)
    last: dict[type, Any] = dict(zip(map(type, batch), batch, strict=True))
    """The last event of each type."""
    if Failed in last:
        raise LegFailed(last[Failed])
    if Finished not in last:
        raise LegFailed(Failed(kind="internal", message="the answer stopped without an ending", status=500))
    started = last.get(Started, _NO_START)
    return Reply(
        id=started.id,
        model=started.model,
        parts=tuple(map(_PART, of_kind(batch, PartEnd))),
        usage=last.get(Usage, _NO_USAGE),
        finished=last[Finished],
        headers=started.headers,
        source=source,
    )


def unfold(reply: Reply) -> list[Event]:
    """Return the events of a leg that yields this reply. This is the inverse of `fold`."""
    parts = PartsWriter()
    for part in reply.parts:
        parts.complete(part)
    started = Started(id=reply.id, model=reply.model, headers=reply.headers)
    return [started, *parts.take(), reply.usage, reply.finished]


def reason_for(calls: int, reason: StopReason) -> StopReason:
    """Return the upstream's stop reason, corrected for an answer with this number of tool calls.

    Clients run calls only if the reason is TOOL_USE, but some upstreams report END_TURN after calls. A truncated or
    refused answer keeps its reason, because its last call may be incomplete.
    """
    if calls and reason in _CALLS_MAY_FOLLOW:
        return _TOOL_USE
    if not calls and reason is _TOOL_USE:
        return StopReason.END_TURN
    return reason
