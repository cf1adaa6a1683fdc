"""Everyone who watches: the legs of the gateway as they happen and for a while after, and news of what changes.

Memory is bounded by how many legs there are, by what each may keep, and by what all may keep together; the oldest are
forgotten first.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tieline.core.capping import Budget
from tieline.core.record import MOST_OF_ONE, LegDetail, LegSummary, Record
from tieline.core.secrets import Secrets, hide_likely
from tieline.model.content import Part
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Failed
from tieline.model.request import Request
from tieline.model.session import Summary, Turn

MOST_LEGS = 500
MOST_OF_ALL = 64 * 1024 * 1024
PAGE = 100


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

    def end(self, record: Record, elapsed: float, asked: int, parts: Iterable[Part]) -> None:
        """A leg is over; `asked` is about how large its request was, `parts` are those of its answer."""
        record.duration = elapsed
        record.close(asked, parts)
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
            calls=record.calls(),
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


def _searched(leg: LegSummary) -> str:
    said = (leg.client, leg.frontend, leg.backend, leg.model, leg.status, leg.kind, leg.message, leg.title, *leg.calls)
    return "\n".join(filter(None, said)).lower()
