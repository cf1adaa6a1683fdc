"""The event bus, which informs watchers such as the web page of changes and gives access to the records of legs."""

from collections.abc import Callable
from typing import NamedTuple

from tieline.core.watch.record import (
    MAX_LEGS,
    MAX_MODEL,
    MAX_RECORD_SIZE,
    MAX_TOTAL_SIZE,
    LegDetail,
    LegRecord,
    LegRecords,
    LegSummary,
)
from tieline.core.watch.secrets import Secrets, hide_likely
from tieline.core.watch.truncate import Budget
from tieline.model.errors import GatewayError
from tieline.model.events import Batch, Failed
from tieline.model.scope import EVERYTHING, NOWHERE, Place, Scope
from tieline.model.session import Summary, Turn

PAGE_SIZE = 100


class LegChanged(NamedTuple):
    """A leg was routed to a backend, sent its first event, or ended."""

    record: LegRecord


class MessageEvents(NamedTuple):
    """New events of the message that is being generated in a session."""

    session: str
    message: str
    events: Batch
    place: Place = NOWHERE


class TurnCompleted(NamedTuple):
    """A message of a session is complete: the user sent it, or the model finished it."""

    session: str
    turn: Turn
    place: Place = NOWHERE


class SessionChanged(NamedTuple):
    """A session was created or its summary changed."""

    summary: Summary


class SessionDeleted(NamedTuple):
    """A session was deleted."""

    session: str
    place: Place = NOWHERE


class ModelsChanged(NamedTuple):
    """The available models or backends changed, or the autonomy of a workspace."""


BusEvent = LegChanged | MessageEvents | TurnCompleted | SessionChanged | SessionDeleted | ModelsChanged
Watcher = Callable[[BusEvent], None]


class Bus:
    """Publishes events to watchers, and returns summaries and details of recorded legs."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        mint: Callable[[], str] = lambda: "",
        secrets: Secrets | None = None,
        max_legs: int = MAX_LEGS,
        max_total_size: int = MAX_TOTAL_SIZE,
        prefix: str = "",
    ) -> None:
        self.records = LegRecords(clock, max_legs=max_legs, max_total_size=max_total_size, prefix=prefix)
        self.mint = mint
        """Returns a new request id, for a request to which the upstream has not given one."""
        self._secrets = secrets or Secrets()
        self._watchers: list[Watcher] = []

    def subscribe(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` with every event. Return a function that ends the subscription."""
        self._watchers.append(watcher)
        self.records.notify = self._leg_changed
        return lambda: self._unsubscribe(watcher)

    def publish(self, event: BusEvent) -> None:
        """Send an event to all watchers."""
        for watcher in self._watchers:
            watcher(event)

    def _leg_changed(self, record: LegRecord) -> None:
        self.publish(LegChanged(record))

    def _unsubscribe(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)
        if not self._watchers:
            self.records.notify = None

    # ── Legs ─────────────────────────────────────────────────────────────────────────────────────

    def legs(self, before: str | None = None, query: str = "", scope: Scope = EVERYTHING) -> list[LegSummary]:
        """Return the newest legs (at most PAGE_SIZE) in a scope whose summaries contain all words of the query.

        If `before` is given, return only legs that are older than the leg with this id.
        """
        words = query.lower().split()
        number = "" if before is None else before.removeprefix(self.records.prefix)
        limit = int(number) if number.isdecimal() else None
        found: list[LegSummary] = []
        for record in reversed(self.records.kept):
            if (limit is not None and record.number >= limit) or not scope.covers(*record.place):
                continue
            summary = self.summary(record)
            if all(word in searchable_text(summary) for word in words):
                found.append(summary)
                if len(found) == PAGE_SIZE:
                    break
        return found

    def detail(self, leg_id: str, scope: Scope = EVERYTHING) -> LegDetail:
        """Return everything that is recorded about a leg. Raise GatewayError if the scope has no such record."""
        record = next((record for record in self.records.kept if record.id == leg_id), None)
        if record is None or not scope.covers(*record.place):
            raise GatewayError("not_found", "This leg is no longer recorded; only the most recent legs are.")
        return self.detail_of(record)

    def detail_of(self, record: LegRecord) -> LegDetail:
        """Return everything that is recorded about a leg."""
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
            owner=record.place.owner,
            workspace=record.place.workspace,
        )

    def hide(self, text: str) -> str:
        """Replace all known secrets, and everything that looks like a secret, in a text."""
        return hide_likely(self._secrets.hide(text))


def searchable_text(leg: LegSummary) -> str:
    """Return the text that is searched for the words of a query, in lower case."""
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
