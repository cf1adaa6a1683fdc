"""Tests of keys and usage on PostgreSQL, which several gateways share."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.postgres_server import PostgresServer
from tieline.app.config import KeyRules
from tieline.app.database.postgres import PostgresDatabase
from tieline.app.keys.stored import StoredKeys
from tieline.app.keys.table import KeyTable
from tieline.app.usage.tables import UsageTables
from tieline.core.usage.accounts import Accounts
from tieline.core.usage.limits import Amount
from tieline.core.usage.sums import UsageEntry, UsageSums
from tieline.frontends.keys import digest_of
from tieline.tasks import Tasks

NOW = 1_794_960_000


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url)
    try:
        yield database
    finally:
        await database.aclose()


@asynccontextmanager
async def gateway(url: str) -> AsyncIterator[StoredKeys]:
    tasks = Tasks()
    accounts = Accounts(time.monotonic, time.time)
    async with opened(url) as database:
        keys = StoredKeys(lambda: database, tasks, accounts, clock=time.monotonic, now=time.time)
        await keys.refresh()
        try:
            yield keys
        finally:
            keys.close()
            await tasks.aclose()


async def become_true(is_so: Callable[[], object], seconds: float) -> float:
    """Wait until a condition is true. Return how long that took."""
    began = time.monotonic()
    while not is_so():
        await asyncio.sleep(0.005)
        assert time.monotonic() - began < seconds
    return time.monotonic() - began


def is_revoked(keys: StoredKeys, name: str) -> bool:
    key = keys.named(name)
    return key is not None and key.is_revoked


async def test_a_revoked_key_is_rejected_by_every_gateway_within_a_second(postgres_url: str) -> None:
    async with opened(postgres_url) as database, gateway(postgres_url) as first, gateway(postgres_url) as second:
        table = KeyTable(database, time.time)
        new = await table.create("alice", KeyRules(models=("demo/*",)))
        for keys in (first, second):
            await become_true(lambda keys=keys: keys.find(digest_of(new.value)), 1.0)  # type: ignore[misc] # bound early
        await table.revoke("alice")
        for keys in (first, second):
            await become_true(lambda keys=keys: is_revoked(keys, "alice"), 1.0)  # type: ignore[misc] # bound early


async def test_keys_survive_an_outage_and_follow_the_database_afterwards(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with opened(postgres_url) as database, gateway(postgres_url) as keys:
        table = KeyTable(database, time.time)
        new = await table.create("alice", KeyRules())
        await become_true(lambda: keys.find(digest_of(new.value)), 1.0)
        await asyncio.to_thread(postgres_server.stop)
        try:
            await asyncio.sleep(1)
            assert keys.find(digest_of(new.value)) is not None
        finally:
            await asyncio.to_thread(postgres_server.start)
        for _ in range(100):
            try:
                await table.revoke("alice")
                break
            except Exception:  # noqa: BLE001 - it is not connected yet
                await asyncio.sleep(0.1)
        await become_true(lambda: is_revoked(keys, "alice"), 5.0)


async def test_a_batch_that_is_added_several_times_at_once_is_counted_once(postgres_url: str) -> None:
    batches = []
    for begin in (0, 50, 100):
        sums = UsageSums(
            UsageEntry(NOW, f"key{number % 3}", "up", f"m{number % 5}\0", "tests", "ok", 1, cost=None)
            for number in range(begin, begin + 50)
        )
        batches.append((f"batch{begin}", sums))
    async with opened(postgres_url) as first, opened(postgres_url) as second:
        await asyncio.gather(
            *(
                UsageTables(database).add(name, sums, NOW)
                for database in (first, second, first)
                for name, sums in batches
            )
        )
        tables = UsageTables(first)
        assert [row.requests for row in await tables.report([])] == [150]
        (row, *_) = await tables.report(["key", "model"], since="2026-11-18", owner="key0")
        assert (row.groups, row.requests, row.known_cost) == (("key0", "up/m0"), 10, None)
        totals = await tables.totals(["key0", "key1", "key2", "key3"], NOW)
        assert totals["key1"] == {"2026-11-18": Amount(50, 0, 50)}
        assert totals["key3"] == {}
        await tables.prune(NOW + 1000 * 24 * 3600, 400)
        assert await tables.report([]) == []
