"""The SQLite engine and the stores in its files: private, never in the way, and as in earlier releases."""

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.app.database.contract import DatabaseContract, OpenDatabase, StoreContract
from tieline.app.database.documents import DocumentStore, MemoryStore, open_store
from tieline.app.database.engine import Database
from tieline.app.database.migrations import Migration
from tieline.app.database.schema import ALL
from tieline.app.database.sqlite import FILE_NAME, SqliteDatabase
from tieline.model.ports import Store

SCHEMA_0 = Path(__file__).with_name("schema_0.sql").read_text()


class TestSqliteDatabase(DatabaseContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return str(tmp_path / "state" / FILE_NAME)

    @pytest.fixture
    def racers(self) -> str:
        return """
from pathlib import Path
from tieline.app.database.sqlite import SqliteDatabase
def open_database(path): return SqliteDatabase(Path(path))
"""

    @pytest.fixture
    def open_database(self, address: str) -> OpenDatabase:
        def opened(migrations: Sequence[Migration] = ALL, *, limit: float = 10.0) -> Database:
            return SqliteDatabase(Path(address), migrations, warn=lambda _: None, limit=limit)

        return opened


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        store = open_store(tmp_path / "state", warn=lambda _: None)
        yield store
        await store.aclose()


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestStoreInAMemoryDatabase(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = DocumentStore(SqliteDatabase(None), owns_database=True, warn=lambda _: None)
        yield store
        await store.aclose()


async def test_a_file_of_the_first_release_opens_with_its_documents(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with sqlite3.connect(path) as before:
        before.executescript(SCHEMA_0)
    before.close()
    database = SqliteDatabase(path)
    store = DocumentStore(database, owns_database=True)
    assert list((await store.read("sessions")).items()) == [("b", '{"heaé":1}'.encode()), ("a", b"{}")]
    assert await store.read("turns/b") == {"t1": b"\x00\x01\xff"}
    await store.write("sessions", "c", b"new")
    assert list(await store.read("sessions")) == ["b", "a", "c"]
    assert await database.versions() == {step.number for step in ALL if not step.shared_only}
    await store.aclose()


async def test_a_first_release_can_still_use_the_file(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / FILE_NAME)
    await DocumentStore(database, owns_database=True).write("sessions", "a", b"1")
    await database.aclose()
    with sqlite3.connect(tmp_path / FILE_NAME) as earlier:
        earlier.execute("INSERT INTO document (shelf, key, data) VALUES ('sessions', 'b', X'00')")
    earlier.close()
    assert list(await DocumentStore(database).read("sessions")) == ["a", "b"]
    await database.aclose()


async def test_questions_about_a_missing_file_are_answered_without_creating_it(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "state" / FILE_NAME)
    assert await database.fetch("SELECT count(*) FROM document") == [(0,)]
    assert await database.execute("UPDATE document SET data = ?", (b"",)) == 0
    assert await database.execute("DELETE FROM document") == 0
    assert not (tmp_path / "state").exists()
    other = SqliteDatabase(tmp_path / "state" / FILE_NAME)
    await DocumentStore(other, owns_database=True).write("shelf", "a", b"1")
    assert await database.fetch("SELECT key FROM document") == [("a",)]
    await database.aclose()
    await other.aclose()


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir())


async def test_a_restart_finds_everything(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    await first.write("shelf", "a", b"1")
    await first.aclose()
    second = open_store(tmp_path)
    assert await second.read("shelf") == {"a": b"1"}
    await second.aclose()


async def test_two_gateways_can_have_the_same_file(tmp_path: Path) -> None:
    one, two = open_store(tmp_path), open_store(tmp_path)
    await asyncio.gather(
        *(
            store.write("shelf", f"{name}{n}", b"x")
            for name, store in zip("ab", (one, two), strict=True)
            for n in range(50)
        )
    )
    assert len(await one.read("shelf")) == len(await two.read("shelf")) == 100
    await one.aclose()
    await two.aclose()


async def test_nothing_is_made_before_something_is_written(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    assert await store.read("shelf") == {}
    await store.remove("shelf")
    await store.aclose()
    assert not (tmp_path / "state").exists()


async def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "state")
    await store.write("shelf", "a", b"1")
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "state").iterdir()}
    assert modes == {0o600}
    await store.aclose()


async def test_what_was_deleted_is_not_in_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    await store.write("shelf", "a", b"private words " * 1000)
    await store.remove("shelf", "a")
    await store.aclose()
    assert b"private words" not in contents(tmp_path)


@pytest.mark.parametrize(
    "damage", [b"this is no database, but long enough to be looked at" * 40, b"SQLite format 3\0" + b"\xff" * 5000]
)
async def test_a_damaged_file_is_put_aside(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(damage)
    said: list[str] = []
    store = open_store(tmp_path, warn=said.append)
    assert await store.read("shelf") == {}
    await store.write("shelf", "a", b"1")
    assert await store.read("shelf") == {"a": b"1"}
    await store.aclose()
    assert (tmp_path / FILE_NAME).with_suffix(".broken").read_bytes() == damage
    assert len(said) == 1
    assert "damaged" in said[0]


async def test_a_disk_that_fails_is_told_once_and_costs_nothing_else(tmp_path: Path) -> None:
    tmp_path.joinpath("state").write_text("a file where a folder should be")
    said: list[str] = []
    store = open_store(tmp_path / "state", warn=said.append)
    await store.write("shelf", "a", b"1")
    await store.write("shelf", "b", b"1")
    assert await store.read("shelf") == {}
    assert len(said) == 1
    await store.aclose()


async def test_a_write_that_nobody_waits_for_is_done(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    busy = [asyncio.create_task(store.write("shelf", str(number), b"x" * 1000)) for number in range(50)]
    await asyncio.sleep(0)
    for task in busy:
        task.cancel()
    await asyncio.gather(*busy, return_exceptions=True)
    await store.aclose()
    with sqlite3.connect(tmp_path / FILE_NAME) as database:
        assert database.execute("SELECT count(*) FROM document").fetchone() == (50,)
    database.close()
