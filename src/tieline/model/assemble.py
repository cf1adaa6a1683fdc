"""From deltas to events, and from events to a whole reply.

`PartsWriter` is shared by all readers. Upstreams interleave: two calls may grow in turns, text may come while a call
is open. Clients cannot take that, so only the oldest unfinished part (the *head*) is live; what comes for the others
is held, and given out in one piece when their turn comes. Text is gathered in lists and joined once, at the end;
arguments are never parsed while they stream.
"""

import re
from collections import deque
from collections.abc import Hashable, Iterable

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
)
from tieline.model.source import AnswerSource

_NO_TEXT = Text()
# A member of an enum is found through its class slowly: these are asked for in every leg.
_TOOL_USE = StopReason.TOOL_USE
_CALLS_MAY_FOLLOW = (StopReason.END_TURN, StopReason.STOP_SEQUENCE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Slot(Struct):
    """One part under way."""

    part: Part
    chunks: list[str] = []
    ended: bool = False
    half: str = ""

    def mend(self, text: str) -> str:
        """Join a character that was cut in two (a UTF-16 pair split over fragments); a lone half is kept back."""
        if not self.half and not _SURROGATE.search(text):
            return text
        text = self.half + text
        self.half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        text = text[: len(text) - len(self.half)]
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PartsWriter:
    """Turns starts, deltas and ends in any order into parts that never overlap, written to `events`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.calls = 0
        """How many tool calls have been started."""
        self._under_way: dict[Hashable, _Slot] = {}
        self._head: _Slot | None = None
        self._waiting: deque[_Slot] = deque()
        """The parts behind the head, in the order they began."""
        self._index = 0

    def take(self) -> list[Event]:
        """The events since the last time."""
        events, self.events = self.events, []
        return events

    @property
    def is_holding(self) -> bool:
        """Whether parts wait for the head to end, so that events are behind what was read."""
        return bool(self._waiting)

    def has(self, key: Hashable) -> bool:
        """Whether a part of this key is under way."""
        return key in self._under_way

    def start(self, key: Hashable, part: Part) -> None:
        """Begin a part; a part of the same key that is still under way is complete."""
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
        """More text of a part under way; empty text is nothing."""
        if not text:
            return
        slot = self._under_way[key]
        if slot.half or not text.isascii():
            text = slot.mend(text)
            if not text:
                return
        slot.chunks.append(text)
        if slot is self._head:
            self.events.append(PartDelta(self._index, text))

    def add_all(self, key: Hashable, texts: Iterable[str]) -> None:
        """Add several deltas to a part under way."""
        for text in texts:
            self.add(key, text)

    def text_of(self, key: Hashable) -> str:
        """What a part under way holds so far."""
        return "".join(self._under_way[key].chunks)

    def revise(self, key: Hashable, part: Part) -> None:
        """Replace what is known of a part beside its text: a signature, citations, the whole of a foreign part."""
        self._under_way[key].part = part

    def end(self, key: Hashable) -> None:
        """A part is complete."""
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
        """Every part under way is complete."""
        for key in list(self._under_way):
            self.end(key)

    def whole(self, part: Part, text: str = "") -> None:
        """A part that came in one piece: `part` without its text, and the text."""
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

    def _end_head(self, head: _Slot) -> None:
        self.events.append(PartEnd(index=self._index, part=_filled(head.part, "".join(head.chunks))))
        self._index += 1
        self._head = None

    def _advance(self) -> None:
        """Bring up those that waited, up to the first that is not complete."""
        while self._waiting:
            slot = self._head = self._waiting.popleft()
            self.events.append(PartStart(index=self._index, part=_empty(slot.part)))
            if slot.chunks:
                self.events.append(PartDelta(index=self._index, text="".join(slot.chunks)))
            if not slot.ended:
                return
            self._end_head(slot)


def part_events(index: int, part: Part, text: str) -> tuple[Event, ...]:
    """The events of a part that came in one piece, in whole characters."""
    begun, whole = PartStart(index=index, part=_empty(part)), PartEnd(index=index, part=_filled(part, text))
    return (begun, PartDelta(index, text), whole) if text else (begun, whole)


def _empty(part: Part) -> Part:
    """A part as PartStart shows it, the same whether it is live from the first or waited until more was known."""
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
    """Return a whole leg as one reply; raise LegFailed for a leg that failed."""
    started = Started(id="", model="")
    parts: list[Part] = []
    usage = Usage()
    finished: Finished | None = None
    for event in events:
        # By `type` and the frequent ones first: a class pattern that does not match costs as much as all of this.
        kind = type(event)
        if kind is PartDelta or kind is PartStart:
            continue
        if type(event) is PartEnd:
            parts.append(event.part)
        elif type(event) is Usage:
            usage = event
        elif type(event) is Started:
            started = event
        elif type(event) is Finished:
            finished = event
        elif type(event) is Failed:
            raise LegFailed(event)
    if finished is None:
        raise LegFailed(Failed(kind="internal", message="the answer stopped without an ending", status=500))
    return Reply(
        id=started.id,
        model=started.model,
        parts=tuple(parts),
        usage=usage,
        finished=finished,
        headers=started.headers,
        source=source,
    )


def unfold(reply: Reply) -> list[Event]:
    """A whole reply as the events of a leg: the inverse of `fold`."""
    parts = PartsWriter()
    for part in reply.parts:
        match part:
            case Text() | Thinking(redacted=False):
                parts.whole(replace(part, text=""), part.text)
            case ToolCall():
                parts.whole(replace(part, arguments=""), part.arguments)
            case _:
                parts.whole(part)
    started = Started(id=reply.id, model=reply.model, headers=reply.headers)
    return [started, *parts.take(), reply.usage, reply.finished]


def reason_for(calls: int, reason: StopReason) -> StopReason:
    """The reason a client can act on: calls that were made must be run, whatever an upstream says of its ending.

    Being cut or refused wins: a call that is cut short must not look complete.
    """
    if calls and reason in _CALLS_MAY_FOLLOW:
        return _TOOL_USE
    if not calls and reason is _TOOL_USE:
        return StopReason.END_TURN
    return reason
