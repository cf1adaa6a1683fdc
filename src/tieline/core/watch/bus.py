"""The event bus for observers: records of running and recent legs, and notifications about changes.

Memory is bounded by the number of records, the size of each, and their total size; the oldest are dropped first.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tieline.core.watch.record import MAX_RECORD_SIZE, LegDetail, LegRecord, LegSummary
from tieline.core.watch.secrets import Secrets, hide_likely
from tieline.core.watch.truncate import Budget
from tieline.model.content import Part
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Failed
from tieline.model.request import Request
from tieline.model.session import Summary, Turn

MAX_LEGS = 500
MAX_TOTAL_SIZE = 64 * 1024 * 1024
PAGE_SIZE = 100
MAX_CLIENT = 200
MAX_MODEL = 256


class LegChanged(NamedTuple):
    """A leg started, sent its first event, or ended."""

    record: LegRecord


class MessageEvents(NamedTuple):
    """New events of a session's message."""

    session: str
    message: str
    events: Batch


class TurnCompleted(NamedTuple):
    """A session's message is complete."""

    session: str
    turn: Turn


class SessionChanged(NamedTuple):
    """A session was created or its summary changed."""

    summary: Summary


class SessionDeleted(NamedTuple):
    """A session was deleted."""

    session: str


class ModelsChanged(NamedTuple):
    """The available models or backends changed."""


BusEvent = LegChanged | MessageEvents | TurnCompleted | SessionChanged | SessionDeleted | ModelsChanged
Watcher = Callable[[BusEvent], None]


class Bus:
    """Holds the records of legs and publishes events to watchers."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        mint: Callable[[], str] = lambda: "",
        secrets: Secrets | None = None,
        max_legs: int = MAX_LEGS,
        max_total_size: int = MAX_TOTAL_SIZE,
    ) -> None:
        self._clock = clock
        self.mint = mint
        """Returns ids for requests without an id from an upstream."""
        self._secrets = secrets or Secrets()
        self._max_legs = max_legs
        self._max_total_size = max_total_size
        self._started = 0
        self._dropped = 0
        """The number of the last record that was dropped."""
        self._records: deque[LegRecord] = deque()
        """Oldest first, with consecutive numbers."""
        self._size = 0
        self.watchers: list[Watcher] = []
        """The subscribed watchers. Callers may skip `publish` while the list is empty."""

    def subscribe(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with every event; return a function that ends the subscription."""
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def publish(self, event: BusEvent) -> None:
        """Send an event to all watchers."""
        for watcher in self.watchers:
            watcher(event)

    # ── Legs ─────────────────────────────────────────────────────────────────────────────────────

    def begin(self, request: Request, frontend: str, client: str) -> LegRecord:
        """Start the record of a leg."""
        self._started = number = self._started + 1
        most = self._max_legs
        record = LegRecord(number, self._clock(), request, frontend, client[:MAX_CLIENT], most > 0)
        if most > 0:
            self._records.append(record)
            if number - self._dropped > most:
                self._drop_oldest()
        return record

    def changed(self, record: LegRecord) -> None:
        """Notify the watchers about a leg."""
        if self.watchers and record.is_kept:
            self.publish(LegChanged(record))

    def end(self, record: LegRecord, elapsed: float, asked: int, parts: Iterable[Part]) -> None:
        """End the record of a leg; see `LegRecord.close` for the parameters."""
        record.duration = elapsed
        if record.is_kept:
            record.close(asked, parts)
            if record.number > self._dropped:
                self._size += record.size
                while self._size > self._max_total_size and len(self._records) > 1:
                    self._drop_oldest()
        if self.watchers:
            self.changed(record)

    def legs(self, before: str | None = None, query: str = "") -> list[LegSummary]:
        """Return the newest legs, or those before leg `before`, that contain all words of the query."""
        words = query.lower().split()
        limit = int(before) if before is not None and before.isdecimal() else None
        found: list[LegSummary] = []
        for record in reversed(self._records):
            if limit is not None and record.number >= limit:
                continue
            summary = self.summary(record)
            if all(word in _searchable_text(summary) for word in words):
                found.append(summary)
                if len(found) == PAGE_SIZE:
                    break
        return found

    def detail(self, leg_id: str) -> LegDetail:
        """Return everything recorded about a leg. Raise GatewayError if the record was dropped."""
        record = next((record for record in self._records if record.id == leg_id), None)
        if record is None:
            raise GatewayError("not_found", "This leg is no longer recorded; only the most recent legs are.")
        return LegDetail(
            leg=self.summary(record),
            request=Budget(MAX_RECORD_SIZE).request(record.request),
            events=record.timed_events(),
            notes=record.notes,
            shown=record.shown(),
        )

    def summary(self, record: LegRecord) -> LegSummary:
        """Return the metadata of a leg, without secrets."""
        failed = record.ending if isinstance(record.ending, Failed) else None
        return LegSummary(
            id=record.id,
            at=record.at,
            client=self.hide(record.client),
            frontend=record.frontend,
            backend=record.backend,
            model=self.hide(record.request.model[:MAX_MODEL]),
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
        """Replace known secrets and text that looks like a secret."""
        return hide_likely(self._secrets.hide(text))

    def _drop_oldest(self) -> None:
        record = self._records.popleft()
        self._dropped = record.number
        self._size -= record.size


def _searchable_text(leg: LegSummary) -> str:
    texts = (
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
    return "\n".join(filter(None, texts)).lower()
