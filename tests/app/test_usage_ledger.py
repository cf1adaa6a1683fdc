"""Tests of the usage ledger: every entry is counted once, whatever fails between the spool and the database."""

import asyncio
import errno
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.app.database.engine import Database, DatabaseUnavailable, Statement
from tieline.app.database.sqlite import SqliteDatabase
from tieline.app.usage.ledger import UsageLedger
from tieline.app.usage.metrics import MAX_SERIES
from tieline.app.usage.report import groups_of, row_json, to_csv
from tieline.app.usage.spool import Spool, leftovers
from tieline.app.usage.tables import BATCH_DAYS, UsageTables
from tieline.core.usage.accounts import Accounts
from tieline.core.usage.limits import Amount, KeyLimits
from tieline.core.usage.sums import MAX_ROWS, UsageEntry, UsageSums
from tieline.tasks import Tasks

NOW = 1_794_960_000
DAY = 24 * 3600


def entry(owner: str = "alice", *, at: int = NOW, cost: int | None = 5, **fields: Any) -> UsageEntry:
    values = {"input": 10, "output": 2, "status": "ok", "model": "m", "client": "tests", **fields}
    return UsageEntry(at, owner, "up", cost=cost, **values)


class Faulty(SqliteDatabase):
    """A database whose transactions fail as planned: before they begin, or after they have succeeded."""

    def __init__(self, path: Path, plan: Iterator[str]) -> None:
        super().__init__(path)
        self._plan = plan

    async def run(self, statements: Sequence[Statement]) -> None:
        fault = next(self._plan, "")
        if fault == "before":
            raise DatabaseUnavailable("it cannot be reached")
        await super().run(statements)
        if fault == "after":
            raise DatabaseUnavailable("the connection was lost while it answered")


class Stand:
    """A state folder, and the ledger of one process after another."""

    def __init__(self, folder: Path, plan: Sequence[str] = ()) -> None:
        self.folder = folder
        self.database: Database = Faulty(folder / "ledger.sqlite3", iter(plan))
        self.tasks = Tasks()
        self.accounts = Accounts(lambda: 0.0, lambda: float(NOW))
        self.ledger = self.begin()

    def begin(self) -> UsageLedger:
        return UsageLedger(
            lambda: self.database,
            self.folder / "usage",
            self.tasks,
            self.accounts,
            now=lambda: float(NOW),
            keep_days=400,
            interval=0.01,
        )

    async def kill(self) -> None:
        """End the process without any warning: its tasks end, and its files are closed and unlocked, but stay."""
        await self.tasks.aclose()
        self.tasks = Tasks()
        spool = self.ledger.spool
        segments = [segment for segment in (spool._current, spool._taken) if segment is not None]
        for file in (spool._spare, *(segment.file for segment in segments)):
            if file is not None:
                os.close(file._descriptor)
        self.ledger = self.begin()

    async def flush(self) -> bool:
        try:
            await self.ledger.import_leftovers()
            await self.ledger.flush()
        except DatabaseUnavailable:
            return False
        return True

    async def finish(self) -> None:
        """Insert everything, without the background task, which might hold a file of a dead process meanwhile."""
        await self.tasks.aclose()
        while not (await self.flush() and self.ledger.spool.is_empty):
            pass

    async def requests(self) -> Counter[str]:
        rows = await UsageTables(self.database).report(["key"])
        return Counter({row.groups[0]: row.requests for row in rows})

    async def aclose(self) -> None:
        await self.tasks.aclose()
        await self.ledger.aclose()
        await self.database.aclose()


STEPS = st.lists(
    st.one_of(
        st.sampled_from(["flush", "kill", "leave"]),
        st.tuples(st.sampled_from(["alice", "bob", ""]), st.integers(1, 20)),
    ),
    max_size=30,
)
FAULTS = st.lists(st.sampled_from(["", "before", "after"]), max_size=30)


@given(steps=STEPS, faults=FAULTS)
def test_the_ledger_equals_the_requests_whatever_fails(steps: list[Any], faults: list[str]) -> None:
    async def check(folder: Path) -> None:
        here = Stand(folder, faults)
        made: Counter[str] = Counter()
        tokens = 0
        for step in steps:
            match step:
                case "flush":
                    await here.flush()
                case "kill":
                    await here.kill()
                case "leave":
                    await here.ledger.aclose()
                    here.ledger = here.begin()
                case _:
                    owner, number = step
                    for _ in range(number):
                        here.ledger.spool.append(entry(owner))
                    made[owner] += number
                    tokens += 12 * number
        await here.finish()
        assert await here.requests() == made
        totals = await UsageTables(here.database).totals(["alice", "bob", ""], NOW)
        assert sum(amount.tokens for days in totals.values() for amount in days.values()) == tokens
        await here.aclose()
        assert list((folder / "usage").glob("*")) == []

    with TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder)))


async def test_entries_are_in_the_file_before_write_returns_and_in_the_database_soon(tmp_path: Path) -> None:
    here = Stand(tmp_path)
    here.ledger.write(entry())
    lines = [line for file in spool_files(tmp_path) for line in file.read_bytes().splitlines()]
    assert len(lines) == 2
    assert b'"segment"' in lines[0]
    assert b'"alice"' in lines[1]
    for _ in range(1000):
        if await here.requests() == Counter(alice=1):
            break
        await asyncio.sleep(0.01)
    assert await here.requests() == Counter(alice=1)
    await here.aclose()


def spool_files(folder: Path) -> list[Path]:
    return sorted((folder / "usage").glob("*.spool"))


async def test_sums_are_kept_by_key_model_client_and_day_with_unknown_costs_apart(tmp_path: Path) -> None:
    here = Stand(tmp_path)
    for one in (
        entry(cache_read=3, cache_write=4, reasoning=1),
        entry(cost=None, status="failed"),
        entry(model="n", client="curl", status="cancelled", is_estimated=True),
        entry("bob", at=NOW - DAY, cost=None),
    ):
        here.ledger.write(one)
    await here.finish()
    tables = UsageTables(here.database)
    by = groups_of(["key", "day", "model", "client"])
    rows = [row_json(by, row) for row in await tables.report(by)]
    shown = [(row["key"], row["day"], row["model"], row["client"], row["requests"], row["cost"]) for row in rows]
    assert shown == [
        ("alice", "2026-11-18", "up/m", "tests", 2, 5e-9),
        ("alice", "2026-11-18", "up/n", "curl", 1, 5e-9),
        ("bob", "2026-11-17", "up/m", "tests", 1, None),
    ]
    first = rows[0]
    assert {name: first[name] for name in ("input", "output", "cache_read", "cache_write", "reasoning")} == {
        "input": 20,
        "output": 4,
        "cache_read": 3,
        "cache_write": 4,
        "reasoning": 1,
    }
    assert (first["failed"], first["unpriced"], rows[1]["cancelled"], rows[1]["estimated"]) == (1, 1, 1, 1)
    (total,) = await tables.report([], since="2026-11-18", until="2026-11-18", owner="alice")
    assert (total.requests, total.groups) == (3, ())
    assert await tables.report(["key"], since="2026-11-19") == []
    csv = to_csv(("key",), await tables.report(["key"]))
    assert csv.splitlines()[0] == (
        "key,requests,failed,cancelled,input,output,cache_read,cache_write,reasoning,unpriced,estimated,cost"
    )
    assert csv.splitlines()[1:] == ["alice,3,1,1,30,6,3,4,1,1,1,0.00000001", "bob,1,0,0,10,2,0,0,0,1,0,"]
    await here.aclose()


async def test_a_name_in_a_csv_file_is_never_a_formula(tmp_path: Path) -> None:
    here = Stand(tmp_path)
    here.ledger.write(entry(client="=cmd"))
    await here.finish()
    assert "'=cmd,1" in to_csv(("client",), await UsageTables(here.database).report(["client"]))
    await here.aclose()


async def test_accounts_are_told_what_the_ledger_knows_after_each_insertion(tmp_path: Path) -> None:
    here = Stand(tmp_path)
    here.accounts.set_limits("alice", KeyLimits(tokens_per_day=100))
    account = here.accounts.get("alice")
    assert account is not None
    segment = here.ledger.write(entry())
    account.settle((0, 0), 12, 5, segment, NOW)
    await here.finish()
    await here.ledger.sync()
    assert account._known == {"2026-11-18": Amount(12, 5, 1)}
    assert account._unsynced == {}
    await here.aclose()


async def test_a_full_disk_is_reported_and_fails_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = Stand(tmp_path)
    here.ledger.spool.append(entry())

    def full(_: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr("tieline.app.usage.spool.os.write", full)
        for _ in range(3):
            here.ledger.spool.append(entry())
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "No space left on device" in caplog.text
    metrics = list(here.ledger.metric_lines())
    assert "tieline_usage_spool_errors_total 3" in metrics
    await here.finish()
    assert await here.requests() == Counter(alice=4)
    await here.aclose()


def test_a_spool_has_a_limit_and_a_short_write_leaves_no_half_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, lambda: NOW, max_bytes=300, warn=lambda _: None)
    spool.append(entry())
    write: Callable[[int, bytes], int] = os.write
    with monkeypatch.context() as patch:
        patch.setattr("tieline.app.usage.spool.os.write", lambda file, data: write(file, data[:20]))
        spool.append(entry())
    for _ in range(5):
        spool.append(entry())
    assert spool.size < 300 + 100
    assert spool.size == sum(file.stat().st_size for file in tmp_path.iterdir())
    taken = spool.take()
    assert taken is not None
    assert taken.sums.count == 7
    assert taken.file is not None
    in_file = taken.file.read()
    assert in_file is not None
    assert in_file.head is not None
    assert in_file.head.begun == NOW
    assert 0 < in_file.sums.count < 6
    spool.close()


def test_only_files_of_dead_processes_are_imported_and_a_torn_line_is_left_out(tmp_path: Path) -> None:
    alive = Spool(tmp_path, lambda: NOW)
    alive.append(entry())
    head = b'{"segment":"s1","begun":1}\n'
    (tmp_path / "dead.spool").write_bytes(head + b'[1,"bob","up","m","c","ok",1]\n[2,"bob","up"')
    (tmp_path / "torn.spool").write_bytes(head[:10])
    found = list(leftovers(tmp_path))
    assert [file.path.name for file in found] == ["dead.spool", "torn.spool"]
    first, second = [file.read() for file in found]
    assert first is not None
    assert first.head is not None
    assert (first.head.segment, first.sums.count) == ("s1", 1)
    assert second is None
    for file in found:
        file.close(remove=True)
    alive.close()


async def test_a_segment_that_might_have_been_forgotten_is_not_counted_again(tmp_path: Path) -> None:
    here = Stand(tmp_path)
    folder = tmp_path / "usage"
    folder.mkdir()
    for name, days in (("old", BATCH_DAYS + 1), ("new", BATCH_DAYS - 1)):
        head = f'{{"segment":"{name}","begun":{NOW - days * DAY}}}\n[{NOW},"{name}","up","m","c","ok",1]\n'
        (folder / f"{name}.spool").write_text(head)
    await here.finish()
    assert await here.requests() == Counter(new=1)
    assert [file.name for file in folder.iterdir()] == ["old.rejected"]
    assert "tieline_usage_lost_total 1" in list(here.ledger.metric_lines())
    await UsageTables(here.database).prune(NOW + 500 * DAY, 400)
    assert await here.requests() == Counter()
    await here.aclose()


async def test_entries_that_the_database_rejects_are_kept_in_a_file_and_block_no_others(tmp_path: Path) -> None:
    here = Stand(tmp_path)
    here.ledger.write(entry(input=1 << 70))
    await here.finish()
    here.ledger.write(entry("bob"))
    await here.finish()
    assert await here.requests() == Counter(bob=1)
    (kept,) = (tmp_path / "usage").glob("*.rejected")
    assert str(1 << 70) in kept.read_text()
    await here.aclose()


async def test_metrics_count_every_entry_once_before_and_after_its_insertion(tmp_path: Path) -> None:
    here = Stand(tmp_path, ["before"])
    for number in range(MAX_SERIES + 200):
        here.ledger.write(entry("", model=f"model-{number}"))
    assert not await here.flush()
    for _ in range(2):
        here.ledger.write(entry(cost=2_500_000_000, cache_read=7))
        metrics = list(here.ledger.metric_lines())
        assert sum(line.startswith("tieline_usage_requests_total{") for line in metrics) == MAX_SERIES + 1
        await here.finish()
    assert 'tieline_usage_requests_total{key="other",model="other"} 202' in list(here.ledger.metric_lines())
    assert 'tieline_usage_requests_total{key="",model="up/model-0"} 1' in list(here.ledger.metric_lines())
    assert 'tieline_usage_cost_total{key="other",model="other"} 5.000001000' in list(here.ledger.metric_lines())
    await here.aclose()


def test_sums_take_bounded_memory_and_lose_nothing() -> None:
    sums = UsageSums(entry(client=f"client-{number}") for number in range(MAX_ROWS + 100))
    assert len(sums.rows) == MAX_ROWS + 1
    assert sum(row[0] for row in sums.rows.values()) == sums.count == MAX_ROWS + 100
    assert sums.rows["alice", NOW // DAY, "up", "other", "other"][0] == 100
