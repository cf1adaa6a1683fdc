"""Retained traffic: the legs of all replicas, in the shared database.

A leg is encoded and stored in the background after it has ended, so that no request waits. Encoding takes at most a
small share of one core; under sustained full load, only a sample of the legs is retained. A leg that is still running
is known only to its own replica.
"""

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Sequence

import msgspec

from tieline.app.database.engine import Database, DatabaseFailed, Row
from tieline.app.database.row_queue import RowQueue
from tieline.core.watch.bus import PAGE_SIZE, Bus, searchable_text
from tieline.core.watch.record import LegRecord, LegSummary
from tieline.model.errors import GatewayError
from tieline.model.scope import Scope
from tieline.tasks import Tasks
from tieline.web.traffic import RecordedTraffic, detail_json

log = logging.getLogger("tieline")

MAX_UNENCODED = 500
"""Maximum number of legs that wait to be encoded. Further legs are not retained."""
SHARE = 0.02
"""The part of one core that encoding may take. This suffices for tens of legs per second."""
SLICE = 0.002
"""Seconds for which a thread encodes legs before it pauses. A thread per leg would double the cost of a small leg."""
MAX_WORDS = 8
"""Maximum number of words in a query. Further words are ignored."""

ADD_LEG = """
INSERT INTO leg (id, at, owner, workspace, words, size, summary, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING
"""
_LEGS = "SELECT summary FROM leg WHERE at < ?"
_ORDER = " ORDER BY at DESC, number DESC LIMIT ?"
_DETAIL = "SELECT detail FROM leg WHERE id = ?"
_AT = "SELECT at FROM leg WHERE id = ?"


class RetainedTraffic:
    """Stores the legs that end in this process, and returns those of all replicas."""

    def __init__(self, database: Database, queue: RowQueue, bus: Bus, tasks: Tasks) -> None:
        self._database = database
        self._queue = queue
        self._bus = bus
        self._tasks = tasks
        self._recorded = RecordedTraffic(bus)
        self._ended: deque[LegRecord] = deque()
        self._encoder: asyncio.Task[None] | None = None
        self._is_full = False

    def start(self) -> None:
        """Begin to store legs. Call this in the event loop."""
        self._bus.records.on_end = self._on_end

    async def legs(self, before: str | None, query: str, scope: Scope) -> Sequence[LegSummary | msgspec.Raw]:
        """Return the summaries of the newest legs of all replicas.

        During an outage, return only those of this replica. If `before` is given, return only legs that are older than
        the leg with this id.
        """
        recorded = self._bus.legs(None, query, scope)
        try:
            until = None if before is None else await self._time_of(before)
            statement, parameters = _page(until, query, scope)
            rows = await self._database.fetch(statement, parameters)
        except DatabaseFailed:
            return await self._recorded.legs(before, query, scope)
        stored = {summary.id: summary for (data,) in rows for summary in [msgspec.json.decode(data, type=LegSummary)]}
        newer = {leg.id: leg for leg in recorded if until is None or leg.at < until}
        found = sorted((stored | newer).values(), key=lambda leg: leg.at, reverse=True)
        return found[:PAGE_SIZE]

    async def detail(self, leg_id: str, scope: Scope) -> bytes:
        """Return everything that is recorded about a leg of any replica, as JSON.

        Raise GatewayError if there is no such record.
        """
        try:
            return await self._recorded.detail(leg_id, scope)
        except GatewayError:
            statement, parameters = _within(scope, _DETAIL, [leg_id])
            try:
                rows = await self._database.fetch(statement, parameters)
            except DatabaseFailed:
                rows = []
            if not rows:
                raise
            return bytes(rows[0][0])

    async def _time_of(self, leg_id: str) -> float | None:
        """Return the time of a leg of any replica, or None if it is not known."""
        recorded = next((record.at for record in self._bus.records.kept if record.id == leg_id), None)
        if recorded is not None:
            return recorded
        rows = await self._database.fetch(_AT, (leg_id,))
        return float(rows[0][0]) if rows else None

    # ── Storing ──────────────────────────────────────────────────────────────────────────────────

    def _on_end(self, record: LegRecord) -> None:
        if len(self._ended) < MAX_UNENCODED:
            self._ended.append(record)
        elif not self._is_full:
            self._is_full = True
            log.warning("requests end faster than their records are stored: the retained traffic is incomplete")
        if self._encoder is None or self._encoder.done():
            self._encoder = self._tasks.start(self._encode_all(), "retained traffic")

    async def _encode_all(self) -> None:
        while self._ended:
            spent = await asyncio.to_thread(self._store_some)
            await asyncio.sleep(spent / SHARE)
        self._is_full = False

    def _store_some(self) -> float:
        """Put legs into the queue for the database, for a short time. Return the processor time that this took."""
        began = time.thread_time()
        spent = 0.0
        while self._ended and spent < SLICE:
            record = self._ended.popleft()
            try:
                self._queue.add(*self._encoded(record))
            except (GatewayError, ValueError, RecursionError) as error:
                log.debug("leg %s is not retained: %s", record.id, error)
            spent = time.thread_time() - began
        return spent

    def _encoded(self, record: LegRecord) -> tuple[Row, int]:
        """Return the row for a leg, and its size."""
        detail = self._bus.detail_of(record)
        summary, encoded = msgspec.json.encode(detail.leg), detail_json(self._bus, detail)
        words = searchable_text(detail.leg).replace("\0", " ").encode("utf-8", "replace").decode()
        size = len(summary) + len(encoded) + len(words)
        return (record.id, record.at, *record.place, words, size, summary, encoded), size


def _page(until: float | None, query: str, scope: Scope) -> tuple[str, list[object]]:
    """Return the query for a page of legs that are older than `until` and contain all words of the query."""
    statement, parameters = _within(scope, _LEGS, [float("inf") if until is None else until])
    for word in query.lower().split()[:MAX_WORDS]:
        statement += " AND words LIKE ? ESCAPE '!'"
        parameters.append("%" + re.sub("([%_!])", r"!\1", word) + "%")
    return statement + _ORDER, [*parameters, PAGE_SIZE]


def _within(scope: Scope, statement: str, parameters: list[object]) -> tuple[str, list[object]]:
    """Return a query whose result is restricted to a scope."""
    for column, value in zip(("owner", "workspace"), scope, strict=True):
        if value is not None:
            statement += f" AND {column} = ?"
            parameters.append(value)
    return statement, parameters
