"""What survives a restart: in order, readable by its owner only, and never in the way."""

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tieline.app.database.documents import MemoryStore, open_store
from tieline.app.database.sqlite import FILE_NAME
from tieline.model.ports import Store


@pytest.fixture(params=["disk", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store = open_store(tmp_path / "state") if request.param == "disk" else MemoryStore()
    yield made
    await made.aclose()


async def test_what_is_written_can_be_read_in_its_order(store: Store) -> None:
    for key in ("b", "a", "c"):
        await store.write("shelf", key, key.encode() * 3)
    await store.write("other", "x", b"\x00\xff")
    await store.write("shelf", "a", b"again")
    assert list((await store.read("shelf")).items()) == [("b", b"bbb"), ("a", b"again"), ("c", b"ccc")]
    assert await store.read("other") == {"x": b"\x00\xff"}
    assert await store.read("nothing") == {}


async def test_what_is_removed_is_gone(store: Store) -> None:
    for key in ("a", "b"):
        await store.write("shelf", key, b"1")
    await store.write("other", "a", b"2")
    await store.remove("shelf", "a")
    assert await store.read("shelf") == {"b": b"1"}
    await store.remove("shelf")
    await store.remove("never", "there")
    assert await store.read("shelf") == {}
    assert await store.read("other") == {"a": b"2"}


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


async def test_one_document_and_the_sizes_of_all_can_be_read(store: Store) -> None:
    assert await store.get("shelf", "a") is None
    assert await store.sizes("shelf") == {}
    await store.write("shelf", "b", b"four")
    await store.write("shelf", "a", b"\x00\xff")
    assert await store.get("shelf", "a") == b"\x00\xff"
    assert await store.get("other", "a") is None
    assert list((await store.sizes("shelf")).items()) == [("b", 4), ("a", 2)]
