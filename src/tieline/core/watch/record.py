"""A leg as it is written down: batches put on a list while it runs, cut down to what is kept when it is over."""

from collections.abc import Iterable
from typing import Literal

from msgspec.structs import replace

from tieline.core.watch.truncate import EACH, Budget, joined, weight, weight_of
from tieline.model.content import Part, Text, ToolCall, Value
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

MOST_OF_ONE = 256 * 1024
"""Characters of a request that are kept, and as many of what came."""
MOST_EVENTS = 4096
"""After so many events of one leg its deltas are not kept any more: the end of their part has the whole text."""
FEW_EVENTS = 512
"""So many are kept one by one."""
MOST_NOTES = 200
TITLE = 80
LONGEST_NAME = 60
LOOKED_AT = 4096
"""So much of the user's words is looked at for a title."""

Status = Literal["running", "ok", "failed", "cancelled", "parked"]


class LegSummary(Value, omit_defaults=False):
    """A leg in short; times in seconds, `at` since 1970."""

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
    """What the client knows the request by: from the upstream, or from us if the leg failed."""


class Moment(Value, omit_defaults=False):
    """An event and when it came, in milliseconds since the leg began."""

    at: int
    event: Event


class LegDetail(Value, omit_defaults=False):
    """Both sides of a leg: what was asked, what the upstream said, and what we made of it if that is not the same."""

    leg: LegSummary
    request: Request
    events: tuple[Moment, ...] = ()
    notes: tuple[Note, ...] = ()
    shown: tuple[Event, ...] | None = None


class Record:
    """One leg as it is written down."""

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
        "given",
        "has_activities",
        "is_kept",
        "is_parked",
        "is_resumed",
        "notes",
        "number",
        "repairs",
        "request",
        "request_id",
        "size",
        "title",
        "usage",
    )

    def __init__(self, number: int, at: float, request: Request, frontend: str, client: str, is_kept: bool) -> None:
        self.number = number
        self.at = at
        self.request = request
        self.frontend = frontend
        self.client = client
        self.is_kept = is_kept
        self.backend = ""
        self.is_resumed = False
        self.is_parked = False
        self.has_activities = False
        """Whether something was done without the client."""
        self.first_byte: float | None = None
        self.duration: float | None = None
        self.ending: Finished | Failed | None = None
        self.usage: Usage | None = None
        self.notes: tuple[Note, ...] = ()
        self.repairs = 0
        self.count = 0
        self.size = 0
        self.request_id = ""
        """The id that a client was given with an error."""
        self.title: str | None = None
        self._events: list[tuple[float, Batch]] = []
        self.given: list[Batch] | None = None
        """What the client was given, from the first difference to what the upstream said on."""

    def upstream_id(self) -> str:
        """The upstream's id of the request, if it has told one."""
        first = self._events[0][1] if self._events else ()
        return id_in(first[0].headers) if first and type(first[0]) is Started else ""

    @property
    def id(self) -> str:
        """Its number, for those who look."""
        return str(self.number)

    def saw(self, batch: Batch, elapsed: float) -> None:
        """The upstream said something."""
        if not self.is_kept:
            return
        events, more = self._events, len(batch)
        if more == 1 and type(batch[0]) is Activity and events and _goes_on(events[-1][1], batch[0]):
            events[-1] = (elapsed, batch)
        else:
            self.count = count = self.count + more
            events.append((elapsed, batch if count <= MOST_EVENTS else _without_deltas(batch)))

    def gave(self, seen: Batch, batch: Batch) -> None:
        """The client was given this for what the upstream said just now; it is kept from the first difference on."""
        if not self.is_kept:
            return
        if self.given is None:
            if batch is seen or list(batch) == list(seen):
                return
            self.given = [said for _, said in self._events[:-1]]
        self.given.append(batch if self.count <= MOST_EVENTS else _without_deltas(batch))

    def noted(self, note: Note) -> None:
        """A person looking into this leg should know of something."""
        self.repairs += note.kind == "repair"
        if len(self.notes) < MOST_NOTES:
            self.notes += (note if len(note.message) <= LOOKED_AT else replace(note, message=note.message[:LOOKED_AT]),)

    def close(self, asked: int, parts: Iterable[Part]) -> None:
        """The leg is over: keep what is worth it. Most legs are small, and kept as they are: that costs least.

        `asked` is about how large the request is, or 0 if that is not known; `parts` are those of a plain answer.
        """
        size = asked or weight_of(self.request)
        if size > MOST_OF_ONE:
            self.title = self.titled()
            budget = Budget(MOST_OF_ONE)
            self.request = budget.request(self.request)
            size = budget.spent
        # The deltas are as much as their parts, and their pieces once more. What ended badly is looked at closely.
        is_plain = type(self.ending) is Finished and not self.has_activities and self.given is None
        said = 3 * weight(parts) + EACH * self.count if is_plain else MOST_OF_ONE + 1
        if said > MOST_OF_ONE or self.count > FEW_EVENTS:
            said = self._cut_down()
        self.size = size + said

    def _cut_down(self) -> int:
        events, shown = Budget(MOST_OF_ONE), Budget(MOST_OF_ONE)
        self._events = [(at, [events.event(event) for event in joined(batch)]) for at, batch in self._events]
        if self.given is not None:
            self.given = [[shown.event(event) for event in joined(batch)] for batch in self.given]
        return events.spent + shown.spent

    def calls(self) -> tuple[str, ...]:
        """The tools that were used, as far as they are kept."""
        names: list[str] = []
        used: set[str] = set()
        for _, batch in self._events:
            for event in batch:
                if type(event) is PartEnd and type(event.part) is ToolCall:
                    names.append(event.part.name[:LONGEST_NAME])
                elif type(event) is Activity and event.id not in used:
                    used.add(event.id)
                    names.append(event.title[:LONGEST_NAME].partition(" ")[0])
        return tuple(names[:MOST_NOTES])

    def titled(self) -> str:
        """The last words of the user."""
        return self.title if self.title is not None else title_of(self.request)

    def moments(self) -> tuple[Moment, ...]:
        """What the upstream said, and when."""
        budget = Budget(MOST_OF_ONE)
        return tuple(
            Moment(at=round(at * 1000), event=budget.event(event))
            for at, batch in self._events
            for event in joined(batch)
        )

    def shown(self) -> tuple[Event, ...] | None:
        """What the client was given, if that is something else."""
        if self.given is None:
            return None
        budget = Budget(MOST_OF_ONE)
        return tuple(budget.event(event) for batch in self.given for event in joined(batch))

    @property
    def status(self) -> Status:
        """How it stands."""
        if self.duration is None:
            return "running"
        match self.ending:
            case Failed(kind="cancelled") | Finished(reason=StopReason.CANCELLED) | None:
                return "cancelled"
            case Failed():
                return "failed"
            case Finished():
                return "parked" if self.is_parked else "ok"


def _goes_on(before: Batch, activity: Activity) -> bool:
    """Whether this only tells more of what was told last: then it stands in its place."""
    last = before[0] if len(before) == 1 else None
    return isinstance(last, Activity) and (last.id, last.status) == (activity.id, activity.status)


def _without_deltas(batch: Batch) -> list[Event]:
    return [event for event in batch if type(event) is not PartDelta]


def title_of(request: Request) -> str:
    """The last words of the user, for a person to tell legs and conversations apart."""
    for message in reversed(request.messages):
        if message.role == "user":
            for part in reversed(message.parts):
                if type(part) is Text and part.text[:LOOKED_AT].strip():
                    return " ".join(part.text[:LOOKED_AT].split())[:TITLE]
    return ""
