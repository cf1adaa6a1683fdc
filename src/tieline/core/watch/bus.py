"""Everyone who watches: the legs of the gateway as they happen and for a while after, and news of what changes.

Memory is bounded by how many legs there are, by what each may keep, and by what all may keep together; the oldest are
forgotten first.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tieline.core.watch.record import MOST_OF_ONE, LegDetail, LegSummary, Record
from tieline.core.watch.secrets import Secrets, hide_likely
from tieline.core.watch.truncate import Budget
from tieline.model.content import Part
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Failed
from tieline.model.request import Request
from tieline.model.session import Summary, Turn

MOST_LEGS = 500
MOST_OF_ALL = 64 * 1024 * 1024
PAGE = 100
LONGEST_CLIENT = 200
LONGEST_MODEL = 256


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
        mint: Callable[[], str] = lambda: "",
        secrets: Secrets | None = None,
        most_legs: int = MOST_LEGS,
        most_of_all: int = MOST_OF_ALL,
    ) -> None:
        self._clock = clock
        self.mint = mint
        """Gives ids for requests that have none from an upstream."""
        self._secrets = secrets or Secrets()
        self._most_legs = most_legs
        self._most_of_all = most_of_all
        self._begun = 0
        self._forgotten = 0
        """The number of the last record that is not kept any more."""
        self._records: deque[Record] = deque()
        """Oldest first; by their numbers none is missing in between."""
        self._size = 0
        self.watchers: list[Watcher] = []
        """Where it is empty nobody need be told anything."""

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Tell somebody of all news until the function that is given back is called."""
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def tell(self, news: News) -> None:
        """Something is new."""
        for watcher in self.watchers:
            watcher(news)

    # ── Legs ─────────────────────────────────────────────────────────────────────────────────────

    def begin(self, request: Request, frontend: str, client: str) -> Record:
        """A leg begins."""
        self._begun = number = self._begun + 1
        most = self._most_legs
        record = Record(number, self._clock(), request, frontend, client[:LONGEST_CLIENT], most > 0)
        if most > 0:
            self._records.append(record)
            if number - self._forgotten > most:
                self._forget()
        return record

    def changed(self, record: Record) -> None:
        """A leg has come further."""
        if self.watchers and record.is_kept:
            self.tell(LegNews(record))

    def end(self, record: Record, elapsed: float, asked: int, parts: Iterable[Part]) -> None:
        """A leg is over; `asked` is about how large its request was, `parts` are those of its answer."""
        record.duration = elapsed
        if record.is_kept:
            record.close(asked, parts)
            if record.number > self._forgotten:
                self._size += record.size
                while self._size > self._most_of_all and len(self._records) > 1:
                    self._forget()
        if self.watchers:
            self.changed(record)

    def legs(self, before: str | None = None, query: str = "") -> list[LegSummary]:
        """The newest legs, or those before one, that have all words of a query in them."""
        words = query.lower().split()
        limit = int(before) if before is not None and before.isdecimal() else None
        found: list[LegSummary] = []
        for record in reversed(self._records):
            if limit is not None and record.number >= limit:
                continue
            summary = self.summary(record)
            if all(word in _searched(summary) for word in words):
                found.append(summary)
                if len(found) == PAGE:
                    break
        return found

    def detail(self, leg_id: str) -> LegDetail:
        """Everything about a leg; raises GatewayError if it is forgotten."""
        record = next((record for record in self._records if record.id == leg_id), None)
        if record is None:
            raise GatewayError("not_found", "This leg is not kept any more.")
        return LegDetail(
            leg=self.summary(record),
            request=Budget(MOST_OF_ONE).request(record.request),
            events=record.moments(),
            notes=record.notes,
            shown=record.shown(),
        )

    def summary(self, record: Record) -> LegSummary:
        """A leg in short."""
        failed = record.ending if isinstance(record.ending, Failed) else None
        return LegSummary(
            id=record.id,
            at=record.at,
            client=self.hide(record.client),
            frontend=record.frontend,
            backend=record.backend,
            model=self.hide(record.request.model[:LONGEST_MODEL]),
            status=record.status,
            kind=failed.kind if failed else None,
            message=self.hide(failed.message) if failed else None,
            first_byte=record.first_byte,
            duration=record.duration,
            usage=record.usage,
            calls=record.calls(),
            title=self.hide(record.titled()),
            repairs=record.repairs,
            resumed=record.is_resumed,
            request_id=record.request_id or record.upstream_id() or None,
        )

    def hide(self, text: str) -> str:
        """A text without the secrets that are known, and without what looks like one."""
        return hide_likely(self._secrets.hide(text))

    def _forget(self) -> None:
        record = self._records.popleft()
        self._forgotten = record.number
        self._size -= record.size


def _searched(leg: LegSummary) -> str:
    said = (
        leg.client,
        leg.frontend,
        leg.backend,
        leg.model,
        leg.status,
        leg.kind,
        leg.message,
        leg.title,
        leg.request_id,
        *leg.calls,
    )
    return "\n".join(filter(None, said)).lower()
