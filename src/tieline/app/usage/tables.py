"""The tables of the usage ledger: inserts entries, each of them once, and answers questions about sums."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tieline.app.database.engine import Database, Statement
from tieline.core.usage.limits import Amount, day_of, month_of
from tieline.core.usage.meter import UsageEntry

Group = Literal["key", "model", "client", "day"]

ROWS_PER_STATEMENT = (100, 10, 1)
"""Rows of one INSERT. A few fixed numbers, so that databases can reuse what they prepared."""
ENTRY_DAYS = 35
"""Days for which single entries are kept. Entries older than that are not imported: they might be counted twice."""
MAX_OWNERS = 500
"""Number of keys in one query."""

_ENTRY_COLUMNS = (
    "id, batch, at, owner, backend, model, client, day, status, input, output, cache_read, cache_write, reasoning, "
    "cost, estimated"
)
_SUMS = "requests, failed, cancelled, input, output, cache_read, cache_write, reasoning, cost, unpriced, estimated"
_COUNT = """
INSERT INTO usage (owner, day, backend, model, client, requests, failed, cancelled, input, output, cache_read,
    cache_write, reasoning, cost, unpriced, estimated)
SELECT owner, day, backend, model, client, count(*), sum(CASE WHEN status = 'failed' THEN 1 ELSE 0 END),
    sum(CASE WHEN status = 'cancelled' THEN 1 ELSE 0 END), sum(input), sum(output), sum(cache_read), sum(cache_write),
    sum(reasoning), coalesce(sum(cost), 0), sum(CASE WHEN cost IS NULL THEN 1 ELSE 0 END), sum(estimated)
FROM usage_entry WHERE id >= ? AND id <= ? AND batch = ?
GROUP BY owner, day, backend, model, client ORDER BY owner, day, backend, model, client
ON CONFLICT (owner, day, backend, model, client) DO UPDATE SET
    requests = usage.requests + excluded.requests, failed = usage.failed + excluded.failed,
    cancelled = usage.cancelled + excluded.cancelled, input = usage.input + excluded.input,
    output = usage.output + excluded.output, cache_read = usage.cache_read + excluded.cache_read,
    cache_write = usage.cache_write + excluded.cache_write, reasoning = usage.reasoning + excluded.reasoning,
    cost = usage.cost + excluded.cost, unpriced = usage.unpriced + excluded.unpriced,
    estimated = usage.estimated + excluded.estimated
"""
_COUNT_TOTAL = """
INSERT INTO usage_total (owner, day, requests, tokens, cost)
SELECT owner, day, count(*), sum(input + output + cache_read + cache_write), coalesce(sum(cost), 0)
FROM usage_entry WHERE id >= ? AND id <= ? AND batch = ?
GROUP BY owner, day ORDER BY owner, day
ON CONFLICT (owner, day) DO UPDATE SET requests = usage_total.requests + excluded.requests,
    tokens = usage_total.tokens + excluded.tokens, cost = usage_total.cost + excluded.cost
"""
_TOTALS = "SELECT owner, day, tokens, cost, requests FROM usage_total WHERE day >= ? AND owner IN ({})"
_GROUPS: Mapping[Group, str] = {
    "key": "owner",
    "model": "backend || '/' || model",
    "client": "client",
    "day": "day",
}


class UsageRow(NamedTuple):
    """Sums of usage. `cost` is what is known, in billionths; `unpriced` requests have an unknown cost."""

    groups: tuple[str, ...]
    requests: int
    failed: int
    cancelled: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    cost: int
    unpriced: int
    estimated: int

    @property
    def known_cost(self) -> int | None:
        """The cost in billionths; None if the cost of no request is known."""
        return None if self.requests and self.unpriced == self.requests else self.cost


class UsageTables:
    """The ledger in the database. Every method may raise DatabaseFailed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def insert(self, entries: Sequence[UsageEntry]) -> None:
        """Insert entries and add them to the sums, in one transaction. Entries that were inserted before are ignored.

        The entries that this transaction inserts have its number as `batch`; only these are added. So the method may be
        called again if it is not known whether the transaction succeeded. The entries of one call are selected by the
        range of their ids: those of one process have a common prefix.
        """
        if not entries:
            return
        batch = secrets.token_hex(8)
        ordered = sorted(entries, key=lambda entry: entry.id)
        rows = [_row(entry, batch) for entry in ordered]
        chosen = (ordered[0].id, ordered[-1].id, batch)
        await self._database.run([*_inserts(rows), (_COUNT, chosen), (_COUNT_TOTAL, chosen)])

    async def totals(self, owners: Sequence[str], now: float) -> dict[str, dict[str, Amount]]:
        """Return what keys have used in the current month, by key and day."""
        first = f"{month_of(day_of(now))}-01"
        found: dict[str, dict[str, Amount]] = {owner: {} for owner in owners}
        for begin in range(0, len(owners), MAX_OWNERS):
            some = owners[begin : begin + MAX_OWNERS]
            statement = _TOTALS.format(", ".join("?" * len(some)))
            for owner, day, tokens, cost, requests in await self._database.fetch(statement, (first, *some)):
                found[owner][day] = Amount(int(tokens), int(cost), int(requests))
        return found

    async def report(
        self, by: Sequence[Group], *, since: str = "", until: str = "", owner: str | None = None
    ) -> list[UsageRow]:
        """Return sums by the given groups, for the days from `since` to `until`, of one key or of all."""
        columns = [_GROUPS[group] for group in by]
        sums = ", ".join(f"sum({name})" for name in _SUMS.split(", "))
        conditions, parameters = ["day >= ?"], [since]
        if until:
            conditions.append("day <= ?")
            parameters.append(until)
        if owner is not None:
            conditions.append("owner = ?")
            parameters.append(owner)
        grouping = f" GROUP BY {', '.join(columns)} ORDER BY {', '.join(columns)}" if columns else ""
        statement = f"SELECT {', '.join([*columns, sums])} FROM usage WHERE {' AND '.join(conditions)}{grouping}"  # noqa: S608 - only constants
        rows = await self._database.fetch(statement, parameters)
        return [
            UsageRow(tuple(row[: len(by)]), *(int(value) for value in row[len(by) :]))
            for row in rows
            if row[len(by)] is not None
        ]

    async def prune(self, now: float, keep_days: int) -> None:
        """Delete entries and sums that are too old."""
        day = 24 * 3600
        oldest = day_of(now - keep_days * day)
        await self._database.run(
            [
                ("DELETE FROM usage_entry WHERE at < ?", (int(now - (ENTRY_DAYS + 1) * day),)),
                ("DELETE FROM usage WHERE day < ?", (oldest,)),
                ("DELETE FROM usage_total WHERE day < ?", (oldest,)),
            ]
        )


def _inserts(rows: Sequence[tuple[Any, ...]]) -> Iterable[Statement]:
    width = len(_ENTRY_COLUMNS.split(","))
    one = f"({', '.join('?' * width)})"
    begin = 0
    for size in ROWS_PER_STATEMENT:
        while len(rows) - begin >= size:
            values = ", ".join([one] * size)
            statement = f"INSERT INTO usage_entry ({_ENTRY_COLUMNS}) VALUES {values} ON CONFLICT (id) DO NOTHING"  # noqa: S608 - only constants
            yield statement, [value for row in rows[begin : begin + size] for value in row]
            begin += size


def _row(entry: UsageEntry, batch: str) -> tuple[Any, ...]:
    return (
        entry.id,
        batch,
        entry.at,
        entry.owner,
        entry.backend,
        entry.model,
        entry.client,
        day_of(entry.at),
        entry.status,
        entry.input,
        entry.output,
        entry.cache_read,
        entry.cache_write,
        entry.reasoning,
        entry.cost,
        int(entry.is_estimated),
    )
