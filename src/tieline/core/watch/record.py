"""Records of legs, which show people what happened, and histograms of leg durations.

While a leg runs, its batches are appended to its record. When it ends, the record is truncated to a size limit. The
number of records and their total size are limited as well: the oldest records are dropped first.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec.structs import replace

from tieline.core.watch.truncate import VALUE_OVERHEAD, Budget, join_deltas
from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall, ToolResult, Value
from tieline.model.errors import id_in
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    Started,
    StopReason,
    Usage,
)
from tieline.model.request import Request
from tieline.model.scope import NOWHERE, Place

MAX_LEGS = 500
MAX_TOTAL_SIZE = 12 * 1024 * 1024
"""Maximum size of all records in characters."""
MAX_RECORD_SIZE = 256 * 1024
"""Maximum size of the request in a record, in characters. The events have the same limit."""
MAX_EVENTS = 4096
"""Number of events after which deltas are no longer recorded. No text is lost: PartEnd contains the whole text."""
MAX_SEPARATE_EVENTS = 512
"""If a record has more events than this, consecutive deltas are joined and long content is truncated."""
MAX_NOTES = 200
MAX_TITLE = 80
MAX_CALL_NAME = 60
MAX_TITLE_SOURCE = 4096
"""Number of characters of the user's message that are examined for a title."""
MAX_NOTE = 4096
MAX_CLIENT = 200
MAX_MODEL = 256

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds of the buckets of a histogram in seconds."""

Status = Literal["running", "ok", "failed", "cancelled", "parked"]


class LegSummary(Value, omit_defaults=False):
    """A leg's metadata. `at` is its start as a Unix timestamp; `first_byte` and `duration` are seconds since then."""

    id: str
    at: float
    client: str
    frontend: str
    backend: str
    model: str
    status: Status
    kind: str | None = None
    message: str | None = None
    first_byte: float | None = None
    duration: float | None = None
    usage: Usage | None = None
    calls: tuple[str, ...] = ()
    title: str = ""
    repairs: int = 0
    resumed: bool = False
    request_id: str | None = None
    """The request id sent to the client: the upstream's id or, if the leg failed without one, a new id."""
    owner: str = ""
    workspace: str = ""


class TimedEvent(Value, omit_defaults=False):
    """An event and its time in milliseconds since the start of the leg."""

    at: int
    event: Event


class LegDetail(Value, omit_defaults=False):
    """Both sides of a leg: the request, the upstream's events, and the events sent to the client if they differ."""

    leg: LegSummary
    request: Request
    events: tuple[TimedEvent, ...] = ()
    notes: tuple[Note, ...] = ()
    shown: tuple[Event, ...] | None = None


class LegRecord:
    """The record of one leg."""

    __slots__ = (
        "_events",
        "at",
        "backend",
        "client",
        "count",
        "duration",
        "ending",
        "first_byte",
        "frontend",
        "has_activities",
        "is_kept",
        "is_parked",
        "is_resumed",
        "notes",
        "number",
        "place",
        "prefix",
        "repairs",
        "request",
        "request_id",
        "sent",
        "size",
        "title",
        "usage",
    )

    def __init__(
        self,
        number: int,
        at: float,
        request: Request,
        frontend: str,
        client: str,
        is_kept: bool,
        place: Place = NOWHERE,
        prefix: str = "",
    ) -> None:
        self.number = number
        self.prefix = prefix
        """The beginning of the id, which distinguishes the legs of replicas."""
        self.at = at
        self.request = request
        self.frontend = frontend
        self.client = client
        self.is_kept = is_kept
        self.place = place
        """The owner and the workspace of the leg."""
        self.backend = ""
        self.is_resumed = False
        self.is_parked = False
        self.has_activities = False
        """Whether the leg contains activities or plans."""
        self.first_byte: float | None = None
        self.duration: float | None = None
        self.ending: Finished | Failed | None = None
        self.usage: Usage | None = None
        self.notes: tuple[Note, ...] = ()
        self.repairs = 0
        self.count = 0
        self.size = 0
        self.request_id = ""
        """The request id that the client received with an error; empty if there was no error."""
        self.title: str | None = None
        self._events: list[tuple[float, Batch]] = []
        self.sent: list[Batch] | None = None
        """The batches sent to the client; None as long as they equal the batches received from the upstream."""

    def upstream_id(self) -> str:
        """Return the upstream's request id, or an empty string if it sent none."""
        first = self._events[0][1] if self._events else ()
        return id_in(first[0].headers) if first and type(first[0]) is Started else ""

    @property
    def id(self) -> str:
        """The number of the leg as text, after the prefix."""
        return f"{self.prefix}{self.number}"

    def add_received(self, batch: Batch, elapsed: float) -> None:
        """Record a batch that the upstream sent `elapsed` seconds after the leg began."""
        if not self.is_kept:
            return
        events, more = self._events, len(batch)
        if more == 1 and type(batch[0]) is Activity and events and _is_update(events[-1][1], batch[0]):
            events[-1] = (elapsed, batch)
        else:
            self.count = count = self.count + more
            events.append((elapsed, batch if count <= MAX_EVENTS else _without_deltas(batch)))

    def add_sent(self, received: Batch, batch: Batch) -> None:
        """Record the batch sent to the client for the batch `received`. Nothing is stored until the two differ."""
        if not self.is_kept:
            return
        if self.sent is None:
            if batch is received or list(batch) == list(received):
                return
            self.sent = [earlier for _, earlier in self._events[:-1]]
        self.sent.append(batch if self.count <= MAX_EVENTS else _without_deltas(batch))

    def noted(self, note: Note) -> None:
        """Record a note."""
        self.repairs += note.kind == "repair"
        if len(self.notes) < MAX_NOTES:
            is_short = len(note.message) <= MAX_NOTE
            self.notes += (note if is_short else replace(note, message=note.message[:MAX_NOTE]),)

    def close(self, request_size: int, parts: Iterable[Part]) -> None:
        """End the record and truncate it if it is too large.

        `request_size` is the approximate size of the request, or 0 if unknown. `parts` are the parts of the answer.
        They are used to estimate the size of the events, which is faster than measuring all events.
        """
        size = request_size or _request_size(self.request)
        if size > MAX_RECORD_SIZE:
            self.title = self.titled()
            budget = Budget(MAX_RECORD_SIZE)
            self.request = budget.request(self.request)
            size = budget.spent
        # This estimate is generous: the text is both in the deltas and in the parts. Legs that failed, were changed or
        # have activities are measured exactly.
        is_plain = type(self.ending) is Finished and not self.has_activities and self.sent is None
        events_size = 3 * _parts_size(parts) + VALUE_OVERHEAD * self.count if is_plain else MAX_RECORD_SIZE + 1
        if events_size > MAX_RECORD_SIZE or self.count > MAX_SEPARATE_EVENTS:
            events_size = self._truncate()
        self.size = size + events_size

    def _truncate(self) -> int:
        received, sent = Budget(MAX_RECORD_SIZE), Budget(MAX_RECORD_SIZE)
        self._events = [(at, [received.event(event) for event in join_deltas(batch)]) for at, batch in self._events]
        if self.sent is not None:
            self.sent = [[sent.event(event) for event in join_deltas(batch)] for batch in self.sent]
        return received.spent + sent.spent

    def calls(self) -> tuple[str, ...]:
        """Return the tool name of each recorded call, and the first word of the title of each activity.

        For activities of the gateway's own tools, this word is the name of the tool.
        """
        names: list[str] = []
        used: set[str] = set()
        for _, batch in self._events:
            for event in batch:
                if type(event) is PartEnd and type(event.part) is ToolCall:
                    names.append(event.part.name[:MAX_CALL_NAME])
                elif type(event) is Activity and event.id not in used:
                    used.add(event.id)
                    names.append(event.title[:MAX_CALL_NAME].partition(" ")[0])
        return tuple(names[:MAX_NOTES])

    def titled(self) -> str:
        """Return the title of the leg: `title` if it is set, otherwise the beginning of the user's last text."""
        return self.title if self.title is not None else title_of(self.request)

    def timed_events(self) -> tuple[TimedEvent, ...]:
        """Return the upstream's events with their times. Consecutive deltas are joined and long texts truncated."""
        budget = Budget(MAX_RECORD_SIZE)
        return tuple(
            TimedEvent(at=round(at * 1000), event=budget.event(event))
            for at, batch in self._events
            for event in join_deltas(batch)
        )

    def shown(self) -> tuple[Event, ...] | None:
        """Return the events sent to the client if they differ from the upstream's events, otherwise None."""
        if self.sent is None:
            return None
        budget = Budget(MAX_RECORD_SIZE)
        return tuple(budget.event(event) for batch in self.sent for event in join_deltas(batch))

    @property
    def status(self) -> Status:
        """Whether the leg is still running, or how it ended."""
        if self.duration is None:
            return "running"
        match self.ending:
            case Failed(kind="cancelled") | Finished(reason=StopReason.CANCELLED) | None:
                return "cancelled"
            case Failed():
                return "failed"
            case Finished():
                return "parked" if self.is_parked else "ok"


class Histogram:
    """A histogram of durations in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        """Add a duration to the histogram."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds


class LegRecords:
    """The records of running and recent legs. If `max_legs` is 0, no records are kept; only durations are measured."""

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        max_legs: int = MAX_LEGS,
        max_total_size: int = MAX_TOTAL_SIZE,
        prefix: str = "",
    ) -> None:
        self.prefix = prefix
        """The beginning of all ids."""
        self.notify: Callable[[LegRecord], None] | None = None
        """Called with a leg's record when the leg is routed, sends its first event or ends; None without watchers."""
        self.on_end: Callable[[LegRecord], None] | None = None
        """Called with a leg's record when the leg ends; None if ended legs are not stored."""
        self.kept: deque[LegRecord] = deque()
        """The records, oldest first, with consecutive numbers."""
        self.first_byte = Histogram()
        self.duration = Histogram()
        self._clock = clock
        self._max_legs = max_legs
        self._max_total_size = max_total_size
        self._started = 0
        self._dropped = 0
        """The number of the last record that was dropped."""
        self._size = 0

    def begin(self, request: Request, frontend: str, client: str, place: Place = NOWHERE) -> LegRecord:
        """Create the record for a leg that is beginning."""
        self._started = number = self._started + 1
        most = self._max_legs
        record = LegRecord(number, self._clock(), request, frontend, client[:MAX_CLIENT], most > 0, place, self.prefix)
        if most > 0:
            self.kept.append(record)
            if number - self._dropped > most:
                self._drop_oldest()
        return record

    def routed(self, record: LegRecord, backend: str) -> None:
        """Record the backend that a leg was routed to."""
        record.backend = backend
        self._changed(record)

    def answered(self, record: LegRecord, elapsed: float) -> None:
        """Record that the first event of a leg arrived `elapsed` seconds after its start."""
        record.first_byte = elapsed
        self.first_byte.observe(elapsed)
        self._changed(record)

    def end(self, record: LegRecord, elapsed: float, request_size: int, parts: Iterable[Part]) -> None:
        """End the record of a leg that took `elapsed` seconds. See `LegRecord.close` for the other parameters."""
        record.duration = elapsed
        self.duration.observe(elapsed)
        if record.is_kept:
            record.close(request_size, parts)
            if record.number > self._dropped:
                self._size += record.size
                while self._size > self._max_total_size and len(self.kept) > 1:
                    self._drop_oldest()
            if self.on_end is not None:
                self.on_end(record)
        self._changed(record)

    def _changed(self, record: LegRecord) -> None:
        if self.notify is not None and record.is_kept:
            self.notify(record)

    def _drop_oldest(self) -> None:
        record = self.kept.popleft()
        self._dropped = record.number
        self._size -= record.size


def _is_update(before: Batch, activity: Activity) -> bool:
    """Return whether `activity` can replace the activity in `before`, because both have the same id and status."""
    last = before[0] if len(before) == 1 else None
    return isinstance(last, Activity) and (last.id, last.status) == (activity.id, activity.status)


def _without_deltas(batch: Batch) -> list[Event]:
    return [event for event in batch if type(event) is not PartDelta]


def title_of(request: Request) -> str:
    """Return the beginning of the user's last text, as a title for lists of legs."""
    for message in reversed(request.messages):
        if message.role == "user":
            for part in reversed(message.parts):
                if type(part) is Text and part.text[:MAX_TITLE_SOURCE].strip():
                    return " ".join(part.text[:MAX_TITLE_SOURCE].split())[:MAX_TITLE]
    return ""


def _parts_size(parts: Iterable[Part]) -> int:
    """Return the approximate size of parts in characters."""
    total = 0
    # Comparing types is faster than `match`.
    for part in parts:
        kind = type(part)
        if kind is Text or kind is Thinking:
            total += len(part.text) + VALUE_OVERHEAD  # type: ignore[union-attr] # mypy does not narrow by `kind`
        elif kind is ToolCall:
            total += len(part.arguments) + VALUE_OVERHEAD  # type: ignore[union-attr] # mypy does not narrow by `kind`
        elif kind is ToolResult:
            total += _parts_size(part.content) + VALUE_OVERHEAD  # type: ignore[union-attr] # mypy does not narrow by `kind`
        elif kind is Foreign:
            total += len(part.json) + VALUE_OVERHEAD  # type: ignore[union-attr] # mypy does not narrow by `kind`
        else:
            total += len(part.data or part.url or "") + VALUE_OVERHEAD  # type: ignore[union-attr] # an image or a file
    return total


def _request_size(request: Request) -> int:
    """Return the approximate size of a request in characters."""
    tools = sum(len(tool.schema) + len(tool.description) + VALUE_OVERHEAD for tool in request.tools)
    more = sum(len(bytes(raw)) for raw in request.extra.values())
    return tools + more + sum(_parts_size(message.parts) for message in request.messages)
