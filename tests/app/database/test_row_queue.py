"""Rows that are written in the background: in batches, from any thread, and only as many as there is room for."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tieline.app.database.migrations import Migration
from tieline.app.database.row_queue import RowQueue
from tieline.app.database.sqlite import SqliteDatabase

TABLE = Migration(1, ("CREATE TABLE entry (id {integer} PRIMARY KEY CHECK (id <> 13), text {text} NOT NULL)",))
ADD = "INSERT INTO entry (id, text) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "rows.sqlite3", [TABLE])
    yield database
    await database.aclose()


async def ids(database: SqliteDatabase) -> list[int]:
    return [number for (number,) in await database.fetch("SELECT id FROM entry ORDER BY id")]


async def test_rows_from_all_threads_are_written(database: SqliteDatabase) -> None:
    queue = RowQueue(database, ADD, "entries", max_size=1 << 20)
    queue.add((0, "before the start"), 1)
    queue.start()
    threads = [threading.Thread(target=queue.add, args=((number, "x"), 1)) for number in range(100, 400)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await queue.aclose()
    assert await ids(database) == [0, *range(100, 400)]


async def test_a_row_that_exists_is_ignored_and_a_wrong_one_costs_no_other(database: SqliteDatabase) -> None:
    said: list[str] = []
    queue = RowQueue(database, ADD, "entries", max_size=1 << 20, warn=said.append)
    queue.start()
    for number in (1, 1, 13, 2):
        queue.add((number, "x"), 1)
    await queue.aclose()
    assert await ids(database) == [1, 2]
    assert len(said) == 1
    assert "one of the entries could not be stored" in said[0]


async def test_a_full_queue_drops_rows_and_says_so_once(database: SqliteDatabase) -> None:
    said: list[str] = []
    queue = RowQueue(database, ADD, "entries", max_size=10, warn=said.append)
    for number in range(20):
        queue.add((number, "x"), 1)
    queue.start()
    await queue.aclose()
    assert len(await ids(database)) < 20
    assert len(said) == 1
    assert "entries are not being stored" in said[0]
