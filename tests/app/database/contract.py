"""What both engines must do. `test_sqlite.py` and `test_postgres.py` run these tests with their engine."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest

from tieline.app.database.documents import DocumentStore
from tieline.app.database.engine import Database, DatabaseFailed, DatabaseUnavailable, StatementFailed
from tieline.app.database.migrations import Migration
from tieline.app.database.schema import ALL
from tieline.model.ports import Store

COUNTER = Migration(901, ("CREATE TABLE counter (name {text} PRIMARY KEY, n {integer}, x {real}, data {bytes})",))
"""A table for the tests."""
ADD = "INSERT INTO counter (name, n, x, data) VALUES (?, ?, ?, ?)"
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PATIENCE = 20.0

RACER = """
import asyncio, sys
{opening}
async def main():
    database = open_database(sys.argv[1])
    sys.stdin.readline()
    print(sorted(await database.versions()))
    await database.execute("INSERT INTO document (shelf, key, data) VALUES (?, ?, ?)", ("race", sys.argv[2], b"x"))
    await database.aclose()
asyncio.run(main())
"""


class OpenDatabase(Protocol):
    """Opens an engine on the test's database. The fixture closes it."""

    def __call__(self, migrations: Sequence[Migration] = ..., *, limit: float = ...) -> Database: ...


@asynccontextmanager
async def closing(*databases: Database) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for database in databases:
            await database.aclose()


class DatabaseContract:
    """Tests of the interface `Database`. A subclass has a fixture `open_database`."""

    @pytest.fixture
    async def database(self, open_database: OpenDatabase) -> AsyncIterator[Database]:
        database = open_database((*ALL, COUNTER))
        async with closing(database):
            yield database

    async def test_values_are_returned_as_they_were_stored(self, database: Database) -> None:
        rows: list[tuple[Any, ...]] = [
            ("plain", 1, 0.5, b"x"),
            ("ünïcødé 🦊 \u2028 'quoted' \"twice\" ? % %s", -(2**63), 1e300, bytes(range(256))),
            ("", 2**63 - 1, -0.0, b""),
            ("nothing", None, None, None),
        ]
        for row in rows:
            assert await database.execute(ADD, row) == 1
        assert await database.fetch("SELECT name, n, x, data FROM counter ORDER BY name") == sorted(rows)

    async def test_large_data_is_stored(self, database: Database) -> None:
        data = os.urandom(1 << 20) * 24
        await database.execute(ADD, ("large", 0, 0.0, data))
        assert await database.fetch("SELECT data FROM counter WHERE length(data) > ?", (1 << 20,)) == [(data,)]

    async def test_marks_in_quotes_are_no_parameters(self, database: Database) -> None:
        assert await database.fetch("SELECT '?%s', '100%', ? AS \"why?\"", ("a",)) == [("?%s", "100%", "a")]

    async def test_numbers_have_the_same_types_everywhere(self, database: Database) -> None:
        for name, n in (("a", 2), ("b", 3), ("c", True)):
            await database.execute(ADD, (name, n, 0.25, b""))
        (row,) = await database.fetch("SELECT sum(n), count(*), sum(x), avg(x), max(n) FROM counter")
        assert [(value, type(value)) for value in row] == [(6, int), (3, int), (0.75, float), (0.25, float), (3, int)]
        assert await database.fetch("SELECT coalesce(sum(n), 0) FROM counter WHERE n > 5") == [(0,)]

    async def test_text_is_sorted_by_code_points(self, database: Database) -> None:
        names = ["a", "B", "ä", "b", "A", "_", "Z", "é", "1"]
        await database.execute_many(ADD, [(name, 0, 0.0, b"") for name in names])
        assert [name for (name,) in await database.fetch("SELECT name FROM counter ORDER BY name")] == sorted(names)

    async def test_affected_rows_are_counted_and_can_be_returned(self, database: Database) -> None:
        await database.execute_many(ADD, [(str(n), n, 0.0, b"") for n in range(5)])
        assert await database.execute("UPDATE counter SET n = n + 10 WHERE n < ?", (3,)) == 3
        assert await database.execute("DELETE FROM counter WHERE n = ?", (99,)) == 0
        removed = await database.fetch("DELETE FROM counter WHERE n >= ? RETURNING name", (10,))
        assert sorted(removed) == [("0",), ("1",), ("2",)]
        statement = f"{ADD} ON CONFLICT (name) DO UPDATE SET n = counter.n + excluded.n RETURNING n"
        assert await database.fetch(statement, ("4", 7, 0.0, b"")) == [(11,)]

    async def test_a_transaction_is_done_completely_or_not_at_all(self, database: Database) -> None:
        await database.run([(ADD, ("a", 1, 0.0, b"")), ("UPDATE counter SET n = n + ?", (1,))])
        with pytest.raises(StatementFailed):
            await database.run([("UPDATE counter SET n = ?", (50,)), (ADD, ("a", 1, 0.0, b""))])
        with pytest.raises(StatementFailed):
            await database.execute_many(ADD, [("b", 1, 0.0, b""), ("a", 1, 0.0, b"")])
        assert await database.fetch("SELECT name, n FROM counter") == [("a", 2)]

    async def test_an_empty_batch_is_no_error(self, database: Database) -> None:
        await database.execute_many(ADD, [])
        await database.run([])
        assert await database.fetch("SELECT count(*) FROM counter") == [(0,)]

    async def test_a_wrong_statement_does_no_harm(self, database: Database) -> None:
        for statement, parameters in [
            ("SELECT nonsense", ()),
            ("NO STATEMENT AT ALL", ()),
            ("SELECT ?", ()),
            ("SELECT n FROM counter WHERE name = ?", ("\ud800",)),
            ("UPDATE counter SET n = ?", (2**64,)),
        ]:
            with pytest.raises(StatementFailed):
                await database.fetch(statement, parameters)
        assert database.is_available
        assert await database.fetch("SELECT count(*) FROM counter") == [(0,)]

    async def test_concurrent_changes_by_two_gateways_are_all_done(self, open_database: OpenDatabase) -> None:
        one, two = open_database((*ALL, COUNTER)), open_database((*ALL, COUNTER))
        async with closing(one, two):
            await one.execute(ADD, ("n", 0, 0.0, b""))
            change = ("UPDATE counter SET n = n + ? WHERE name = ?", (1, "n"))
            singles = [database.execute(*change) for database in (one, two) for _ in range(40)]
            batches = [database.run([change, change]) for database in (one, two) for _ in range(10)]
            await asyncio.gather(*singles, *batches)
            assert await one.fetch("SELECT n FROM counter") == await two.fetch("SELECT n FROM counter") == [(120,)]

    async def test_an_operation_whose_caller_is_cancelled_is_done(self, database: Database) -> None:
        await database.fetch("SELECT 1")
        calls = [asyncio.create_task(database.execute(ADD, (str(n), n, 0.0, b""))) for n in range(30)]
        await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await database.aclose()
        assert await database.fetch("SELECT count(*) FROM counter") == [(30,)]

    async def test_a_statement_that_takes_too_long_is_stopped(self, open_database: OpenDatabase) -> None:
        database = open_database(limit=0.2)
        async with closing(database), asyncio.timeout(PATIENCE):
            with pytest.raises(DatabaseUnavailable):
                await database.fetch(ENDLESS)
            assert await database.fetch("SELECT 1") == [(1,)]
            assert database.is_available

    # ── Migrations ───────────────────────────────────────────────────────────────────────────────

    async def test_every_earlier_schema_becomes_the_current_one(self, open_database: OpenDatabase) -> None:
        steps = sorted(ALL, key=lambda one: one.number)
        everything: frozenset[int] = frozenset()
        for known in range(1, len(steps) + 1):
            database = open_database(steps[:known])
            async with closing(database):
                await DocumentStore(database).write("shelf", str(known), b"x")
                assert await database.versions() >= everything
                everything = await database.versions()
        database = open_database()
        async with closing(database):
            wanted = {step.number for step in ALL if database.is_shared or not step.shared_only}
            assert await database.versions() == wanted
            kept = await DocumentStore(database).read("shelf")
            assert list(kept) == [str(known) for known in range(1, len(steps) + 1)]

    async def test_migrations_that_were_added_out_of_order_are_applied(self, open_database: OpenDatabase) -> None:
        first, second = (
            open_database((*ALL, COUNTER)),
            open_database((*ALL, Migration(900, ("CREATE TABLE b (x {integer})",)))),
        )
        async with closing(first, second):
            await first.execute(ADD, ("a", 1, 0.0, b""))
            await second.execute("INSERT INTO b (x) VALUES (?)", (1,))
            assert await first.versions() >= {900, 901}

    async def test_a_database_of_a_newer_release_can_be_used(self, open_database: OpenDatabase) -> None:
        newer, older = open_database((*ALL, COUNTER)), open_database()
        async with closing(newer, older):
            await newer.execute(ADD, ("a", 1, 0.0, b""))
            await DocumentStore(older).write("shelf", "a", b"x")
            assert await DocumentStore(newer).get("shelf", "a") == b"x"

    async def test_a_migration_that_fails_changes_nothing(self, open_database: OpenDatabase) -> None:
        bad = Migration(902, ("CREATE TABLE half (x {integer})", "CREATE NONSENSE"))
        failing, sound = open_database((*ALL, COUNTER, bad)), open_database((*ALL, COUNTER))
        async with closing(failing, sound):
            with pytest.raises(DatabaseFailed):
                await failing.execute(ADD, ("a", 1, 0.0, b""))
            assert 902 not in await sound.versions()
            with pytest.raises(StatementFailed):
                await sound.fetch("SELECT x FROM half")

    async def test_processes_that_migrate_at_the_same_time_agree(self, racers: str, address: str) -> None:
        script = RACER.format(opening=racers)
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", script, address, str(number)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            for number in range(3)
        ]
        outputs = await asyncio.wait_for(asyncio.gather(*(one.communicate(b"go\n") for one in processes)), PATIENCE)
        assert [one.returncode for one in processes] == [0, 0, 0]
        assert len({output for output, _ in outputs}) == 1


class StoreContract:
    """Tests of the interface `Store`. A subclass has a fixture `store`."""

    async def test_documents_are_returned_in_the_order_of_their_first_write(self, store: Store) -> None:
        for key in ("b", "a", "c"):
            await store.write("shelf", key, key.encode() * 3)
        await store.write("other", "x", b"\x00\xff")
        await store.write("shelf", "a", b"again")
        assert list((await store.read("shelf")).items()) == [("b", b"bbb"), ("a", b"again"), ("c", b"ccc")]
        assert await store.read("other") == {"x": b"\x00\xff"}
        assert await store.read("nothing") == {}

    async def test_removed_documents_are_gone(self, store: Store) -> None:
        for key in ("a", "b"):
            await store.write("shelf", key, b"1")
        await store.write("other", "a", b"2")
        await store.remove("shelf", "a")
        assert await store.read("shelf") == {"b": b"1"}
        await store.remove("shelf")
        await store.remove("never", "there")
        assert await store.read("shelf") == {}
        assert await store.read("other") == {"a": b"2"}

    async def test_one_document_and_the_sizes_of_all_can_be_read(self, store: Store) -> None:
        assert await store.get("shelf", "a") is None
        assert await store.sizes("shelf") == {}
        await store.write("shelf", "b", b"four")
        await store.write("shelf", "a", b"\x00\xff")
        assert await store.get("shelf", "a") == b"\x00\xff"
        assert await store.get("other", "a") is None
        assert list((await store.sizes("shelf")).items()) == [("b", 4), ("a", 2)]

    async def test_keys_and_data_may_contain_anything(self, store: Store) -> None:
        keys = ["", " ", "ünïcødé 🦊", "a'b\"c", "100% ?", "x" * 1000, "a\\b", "A", "a"]
        for number, key in enumerate(keys):
            await store.write("shelf %?", key, bytes([number, 0, 255]))
        assert list(await store.read("shelf %?")) == keys
        for number, key in enumerate(keys):
            assert await store.get("shelf %?", key) == bytes([number, 0, 255])

    async def test_a_key_that_cannot_be_stored_is_no_error(self, store: Store) -> None:
        for key in ("nul \0 byte", "surrogate \ud800"):
            await store.write("shelf", key, b"x")
            await store.get("shelf", key)
            await store.remove("shelf", key)
        assert await store.read("shelf") == {}

    async def test_a_large_document_is_stored(self, store: Store) -> None:
        data = os.urandom(1 << 20) * 20
        await store.write("shelf", "large", data)
        assert await store.get("shelf", "large") == data
        assert await store.sizes("shelf") == {"large": len(data)}

    async def test_concurrent_writers_lose_nothing(self, store: Store) -> None:
        await asyncio.gather(*(store.write("shelf", str(n % 50), bytes([n])) for n in range(100)))
        assert len(await store.read("shelf")) == 50
