"""The tables of the usage ledger: adds entries to sums, each of them once, and answers questions about the sums."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from tieline.app.database.engine import Database, DatabaseUnavailable, Statement, StatementFailed
from tieline.core.usage.limits import DAY, Amount, day_of, month_of
from tieline.core.usage.sums import COLUMNS, UsageSums

Group = Literal["key", "model", "client", "day"]

BATCH_DAYS = 35
"""Days for which the ids of batches are kept. Older batches are not added: they might be counted twice."""
MAX_OWNERS = 500
"""Number of keys in one query."""

_ADD_BATCH = "INSERT INTO usage_batch (id, at) VALUES (?, ?)"
_HAS_BATCH = "SELECT 1 FROM usage_batch WHERE id = ?"
_ADD = f"""
INSERT INTO usage (owner, day, backend, model, client, {", ".join(COLUMNS)})
VALUES (?, ?, ?, ?, ?{", ?" * len(COLUMNS)})
ON CONFLICT (owner, day, backend, model, client) DO UPDATE SET
    {", ".join(f"{name} = usage.{name} + excluded.{name}" for name in COLUMNS)}
"""  # noqa: S608 - only constants
_ADD_TOTAL = """
INSERT INTO usage_total (owner, day, requests, tokens, cost) VALUES (?, ?, ?, ?, ?)
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
    """Sums of usage. `cost` is the sum of known costs, in billionths; `unpriced` counts requests of unknown cost."""

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
        """The known cost in billionths; None if there are requests, but none with a known cost."""
        return None if self.requests and self.unpriced == self.requests else self.cost


class UsageTables:
    """The ledger in the database. Every method may raise DatabaseFailed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, batch: str, sums: UsageSums, now: float) -> None:
        """Add the sums of a batch to those in the database, unless this was done before. `batch` is its id.

        If it is not known whether this succeeded, it may be called again with the same sums: the id is unique, and is
        inserted in the same transaction.
        """
        try:
            await self._database.run([(_ADD_BATCH, (batch, int(now))), *_statements(sums)])
        except DatabaseUnavailable:
            raise
        except StatementFailed:
            if not await self._database.fetch(_HAS_BATCH, (batch,)):
                raise

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
        sums = ", ".join(f"sum({name})" for name in COLUMNS)
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
        """Delete the ids of batches, and sums, that are too old."""
        oldest = day_of(now - keep_days * DAY)
        await self._database.run(
            [
                ("DELETE FROM usage_batch WHERE at < ?", (int(now - (BATCH_DAYS + 1) * DAY),)),
                ("DELETE FROM usage WHERE day < ?", (oldest,)),
                ("DELETE FROM usage_total WHERE day < ?", (oldest,)),
            ]
        )


def _statements(sums: UsageSums) -> Iterable[Statement]:
    """Yield the statements that add sums to the tables, always in the same order to avoid deadlocks."""
    totals: dict[tuple[str, str], list[int]] = {}
    for (owner, number, *names), row in sorted(sums.rows.items()):
        day = day_of(number * DAY)
        yield _ADD, (_text(owner), day, *map(_text, names), *row)
        total = totals.setdefault((_text(owner), day), [0, 0, 0])
        total[0] += row[0]
        total[1] += sum(row[3:7])
        total[2] += row[8]
    for place, total in sorted(totals.items()):
        yield _ADD_TOTAL, (*place, *total)


def _text(text: str) -> str:
    return text.replace("\0", "")  # PostgreSQL cannot store it
