"""Everyone who watches: the legs of the gateway as they happen and for a while after, and news of what changes.

A record is written while its leg runs by putting its batches on a list, which costs next to nothing; when the leg is
over it is cut down to what is kept. Memory is bounded by how many legs there are, by what each may keep, and by what
all may keep together; the oldest are forgotten first.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from tieline.core.capping import Budget, joined
from tieline.core.secrets import Secrets, hide_likely
from tieline.model.content import Text, ToolCall, Value
from tieline.model.errors import GatewayError
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    StopReason,
    Usage,
)
from tieline.model.request import Request
from tieline.model.session import Summary, Turn

MOST_LEGS = 500
MOST_OF_ONE = 256 * 1024
"""Characters of a request that are kept, and as many of what came."""
MOST_OF_ALL = 64 * 1024 * 1024
MOST_EVENTS = 4096
"""After so many events of one leg its deltas are not kept any more: the end of their part has the whole text."""
MOST_NOTES = 200
PAGE = 100
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
        "_shown",
        "at",
        "backend",
        "calls",
        "client",
        "count",
        "duration",
        "ending",
        "first_byte",
        "frontend",
        "id",
        "is_kept",
        "is_parked",
        "is_resumed",
        "notes",
        "repairs",
        "request",
        "size",
        "title",
        "usage",
    )

    def __init__(self, record_id: str, at: float, request: Request, frontend: str, client: str) -> None:
        self.id = record_id
        self.at = at
        self.request = request
        self.frontend = frontend
        self.client = client
        self.backend = ""
        self.is_kept = True
        self.is_resumed = False
        self.is_parked = False
        self.first_byte: float | None = None
        self.duration: float | None = None
        self.ending: Finished | Failed | None = None
        self.usage: Usage | None = None
        self.calls: list[str] = []
        self.notes: list[Note] = []
        self.repairs = 0
        self.count = 0
        self.size = 0
        self.title: str | None = None
        self._events: list[tuple[float, Batch]] = []
        self._shown: list[Batch] | None = None

    def saw(self, batch: Batch, elapsed: float) -> None:
        """The upstream said something."""
        if self.is_kept:
            self.count += len(batch)
            self._events.append((elapsed, batch if self.count <= MOST_EVENTS else _without_deltas(batch)))

    def gave(self, seen: Batch, batch: Batch) -> None:
        """The client was given this for what the upstream said just now; it is kept from the first difference on."""
        if not self.is_kept:
            return
        if self._shown is None:
            if batch is seen or list(batch) == list(seen):
                return
            self._shown = [said for _, said in self._events[:-1]]
        self._shown.append(batch if self.count <= MOST_EVENTS else _without_deltas(batch))

    def noted(self, note: Note) -> None:
        """A person looking into this leg should know of something."""
        self.repairs += note.kind == "repair"
        if len(self.notes) < MOST_NOTES:
            self.notes.append(note)

    def close(self) -> None:
        """The leg is over: keep what is worth it."""
        if not self.is_kept:
            return
        self.title = self.titled()
        request, events, shown = Budget(MOST_OF_ONE), Budget(MOST_OF_ONE), Budget(MOST_OF_ONE)
        self.request = request.request(self.request)
        self._events = [(at, [events.event(event) for event in joined(batch)]) for at, batch in self._events]
        self.calls = [*_tools_used(event for _, batch in self._events for event in batch).values()][:MOST_NOTES]
        if self._shown is not None:
            self._shown = [[shown.event(event) for event in joined(batch)] for batch in self._shown]
        self.size = request.spent + events.spent + shown.spent

    def titled(self) -> str:
        """The last words of the user."""
        return self.title if self.title is not None else _title(self.request)

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
        if self._shown is None:
            return None
        budget = Budget(MOST_OF_ONE)
        return tuple(budget.event(event) for batch in self._shown for event in joined(batch))

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


# ── News ─────────────────────────────────────────────────────────────────────────────────────────


class LegNews(NamedTuple):
    """A leg began, said its first word, or ended."""

    record: Record


class Said(NamedTuple):
    """More of a message of a session."""

    session: str
    message: str
    events: Batch


class TurnNews(NamedTuple):
    """A message of a session is complete."""

    session: str
    turn: Turn


class SessionNews(NamedTuple):
    """A session is new, or something about it is."""

    summary: Summary


class Gone(NamedTuple):
    """A session was deleted."""

    session: str


class StateNews(NamedTuple):
    """There are other models or backends than before."""


News = LegNews | Said | TurnNews | SessionNews | Gone | StateNews
Watcher = Callable[[News], None]


class Bus:
    """The records of legs, and those who want to hear of everything."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        secrets: Secrets | None = None,
        most_legs: int = MOST_LEGS,
        most_of_all: int = MOST_OF_ALL,
    ) -> None:
        self._clock = clock
        self._secrets = secrets or Secrets()
        self._most_legs = most_legs
        self._most_of_all = most_of_all
        self._numbers = itertools.count(1)
        self._records: dict[str, Record] = {}
        self._size = 0
        self._watchers: list[Watcher] = []

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell somebody of all news until the function that is given back is called."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def tell(self, news: News) -> None:
        """Something is new."""
        for watcher in self._watchers:
            watcher(news)

    # ── Legs ─────────────────────────────────────────────────────────────────────────────────────

    def begin(self, request: Request, frontend: str, client: str) -> Record:
        """A leg begins."""
        record = Record(str(next(self._numbers)), self._clock(), request, frontend, client)
        record.is_kept = self._most_legs > 0
        if record.is_kept:
            self._records[record.id] = record
            if len(self._records) > self._most_legs:
                self._forget()
        return record

    def changed(self, record: Record) -> None:
        """A leg has come further."""
        if self._watchers and record.is_kept:
            self.tell(LegNews(record))

    def end(self, record: Record, elapsed: float) -> None:
        """A leg is over."""
        record.duration = elapsed
        record.close()
        if record.id in self._records:
            self._size += record.size
            while self._size > self._most_of_all and len(self._records) > 1:
                self._forget()
        self.changed(record)

    def legs(self, before: str | None = None, query: str = "") -> list[LegSummary]:
        """The newest legs, or those before one, that have all words of a query in them."""
        words = query.lower().split()
        limit = int(before) if before is not None and before.isdecimal() else None
        found: list[LegSummary] = []
        for record in reversed(self._records.values()):
            if limit is not None and int(record.id) >= limit:
                continue
            summary = self.summary(record)
            if all(word in _searched(summary) for word in words):
                found.append(summary)
                if len(found) == PAGE:
                    break
        return found

    def detail(self, leg_id: str) -> LegDetail:
        """Everything about a leg; raises GatewayError if it is forgotten."""
        record = self._records.get(leg_id)
        if record is None:
            raise GatewayError("not_found", "This leg is not kept any more.")
        return LegDetail(
            leg=self.summary(record),
            request=Budget(MOST_OF_ONE).request(record.request),
            events=record.moments(),
            notes=tuple(record.notes),
            shown=record.shown(),
        )

    def summary(self, record: Record) -> LegSummary:
        """A leg in short."""
        failed = record.ending if isinstance(record.ending, Failed) else None
        return LegSummary(
            id=record.id,
            at=record.at,
            client=record.client,
            frontend=record.frontend,
            backend=record.backend,
            model=record.request.model,
            status=record.status,
            kind=failed.kind if failed else None,
            message=failed.message if failed else None,
            first_byte=record.first_byte,
            duration=record.duration,
            usage=record.usage,
            calls=tuple(record.calls),
            title=self.hide(record.titled()),
            repairs=record.repairs,
            resumed=record.is_resumed,
        )

    def hide(self, text: str) -> str:
        """A text without the secrets that are known, and without what looks like one."""
        return hide_likely(self._secrets.hide(text))

    def _forget(self) -> None:
        oldest = self._records.pop(next(iter(self._records)))
        self._size -= oldest.size


def _tools_used(events: Iterable[Event]) -> dict[str, str]:
    """The tools that were called, or used by an agent itself, by the id of the call."""
    used: dict[str, str] = {}
    for event in events:
        if type(event) is PartEnd and type(event.part) is ToolCall:
            used[event.part.id] = event.part.name
        elif type(event) is Activity:
            used.setdefault(event.id, event.title[:LONGEST_NAME].partition(" ")[0])
    return used


def _without_deltas(batch: Batch) -> list[Event]:
    return [event for event in batch if type(event) is not PartDelta]


def _searched(leg: LegSummary) -> str:
    said = (leg.client, leg.frontend, leg.backend, leg.model, leg.status, leg.kind, leg.message, leg.title, *leg.calls)
    return "\n".join(filter(None, said)).lower()


def _title(request: Request) -> str:
    """The last words of the user, for a person to tell legs apart."""
    for message in reversed(request.messages):
        if message.role == "user":
            for part in reversed(message.parts):
                if type(part) is Text and part.text[:LOOKED_AT].strip():
                    return " ".join(part.text[:LOOKED_AT].split())[:TITLE]
    return ""
