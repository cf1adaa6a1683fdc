"""Tests for the archive in a database that replicas share."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.postgres_server import PostgresServer
from tieline.app.build.responses import build_archives
from tieline.app.build.storage import Storage
from tieline.app.config import ResponsesSettings, StoreSettings
from tieline.app.database import shared_archive
from tieline.app.database.postgres import PostgresDatabase, PostgresLimits
from tieline.app.database.shared_archive import SharedArchive
from tieline.core.archive.archive import ArchiveLimits
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

PATIENCE = 30.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def archive(url: str, clock: Clock, **limits: int) -> AsyncGenerator[SharedArchive, None]:
    tasks, database = Tasks(), PostgresDatabase(url, limits=PostgresLimits(retry=0.1))
    shared = SharedArchive(database, "responses", tasks, clock, ArchiveLimits(**limits))
    try:
        yield shared
    finally:
        await tasks.aclose()
        await shared.aclose()
        await database.aclose()


async def eventually(archive: SharedArchive, document_id: str, data: bytes | None) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                if await archive.get("ann", document_id) == data:
                    return
            except GatewayError:
                pass
            await asyncio.sleep(0.01)


async def test_a_document_can_be_read_at_once_and_soon_by_other_replicas(postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock) as first, archive(postgres_url, clock) as second:
        assert await second.get("ann", "resp_1") is None
        assert first.put("ann", "resp_1", b"one")
        assert await first.get("ann", "resp_1") == b"one"
        assert await first.holds("ann", ["resp_1"])
        await eventually(second, "resp_1", b"one")
        assert await second.holds("ann", ["resp_1"])
        assert not await second.holds("ann", ["resp_1", "resp_2"])


async def test_a_document_that_another_replica_removed_is_gone(postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock) as first, archive(postgres_url, clock) as second:
        first.put("ann", "resp_1", b"one")
        await eventually(second, "resp_1", b"one")
        assert await second.remove("ann", "resp_1")
        assert not await second.remove("ann", "resp_1")
        assert not await second.holds("ann", ["resp_1"])
        await eventually(first, "resp_1", None)


async def test_an_owner_sees_only_its_own_documents(postgres_url: str) -> None:
    async with archive(postgres_url, Clock()) as shared:
        shared.put("ann", "resp_1", b"one")
        assert await shared.get("ben", "resp_1") is None
        assert not await shared.holds("ben", ["resp_1"])
        assert not await shared.remove("ben", "resp_1")
        assert await shared.get("ann", "resp_1") == b"one"


async def test_an_id_that_the_database_does_not_take_is_not_found(postgres_url: str) -> None:
    async with archive(postgres_url, Clock()) as shared:
        assert await shared.get("ann", "resp_\0") is None


async def test_old_documents_expire(postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock, age=100) as shared:
        shared.put("ann", "old", b"old")
        clock.now += 99
        assert await shared.get("ann", "old") == b"old"
        await eventually(shared, "old", b"old")
        async with archive(postgres_url, clock, age=100) as other:
            await eventually(other, "old", b"old")
            clock.now += 2
            assert await other.get("ann", "old") is None
            assert not await other.holds("ann", ["old"])


async def test_a_full_archive_drops_the_oldest_documents_of_its_largest_owner(postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock, total=1000, each=400) as shared:
        assert not shared.put("ann", "huge", bytes(401))
        shared.put("ben", "small", bytes(100))
        for number in range(4):
            clock.now += 1
            shared.put("ann", f"large{number}", bytes(300))
        await eventually(shared, "large3", bytes(300))
        async with archive(postgres_url, clock, total=1000, each=400) as other:
            await eventually(other, "large3", bytes(300))
            await other.sweep()
            for removed in ("large0", "large1"):
                assert await other.get("ann", removed) is None
            for kept in ("large2", "large3"):
                assert await other.get("ann", kept) == bytes(300)
            assert await other.get("ben", "small") == bytes(100)


async def kept(archive: SharedArchive, owner: str) -> list[int]:
    """Return the numbers of the documents that are left of an owner."""
    return [number for number in range(20) if await archive.get(owner, f"resp_{number}") is not None]


async def test_an_owner_who_stores_a_lot_at_once_leaves_others_their_share(postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock, total=1000) as shared:
        for owner, count in (("ann", 8), ("bob", 12), ("eve", 1)):
            for number in range(count):
                clock.now += 1
                shared.put(owner, f"resp_{number}", bytes(91))
        shared.put("ann", "last", b"")
        await shared.aclose()  # writes everything
        await shared.sweep()
        assert [await kept(shared, owner) for owner in ("ann", "bob", "eve")] == [
            [4, 5, 6, 7],
            [8, 9, 10, 11],
            [0],
        ]


async def test_documents_are_bounded_in_number(postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock, documents=5) as shared:
        for owner, count in (("ann", 2), ("bob", 9)):
            for number in range(count):
                clock.now += 1
                shared.put(owner, f"resp_{number}", bytes(100 if owner == "ann" else 1))
        await shared.aclose()  # writes everything
        await shared.sweep()
        assert [await kept(shared, owner) for owner in ("ann", "bob")] == [[0, 1], [6, 7, 8]]


async def test_a_full_archive_keeps_the_documents_that_are_in_use(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    clock = Clock()
    async with archive(postgres_url, clock, documents=5) as shared:
        for name in ("read", "touched", "held", "held too", "unused"):
            clock.now += 1
            shared.put("ann", name, b"old")
        await shared.aclose()  # writes everything
        clock.now += 2 * 3600
        assert await shared.get("ann", "read") == b"old"
        assert await shared.holds("ann", ["held", "held too"])
        if not shared.touch("ann", "touched"):
            shared.put("ann", "touched", b"old")
        in_use = "SELECT count(*) FROM archive WHERE used > 7200"
        async with asyncio.timeout(PATIENCE):
            while postgres_server.query(postgres_url, in_use) != "4":  # noqa: ASYNC110 - a server
                await asyncio.sleep(0.01)
        shared.put("ann", "new", b"new")
        await shared.aclose()  # writes everything
        await shared.sweep()
        assert await shared.holds("ann", ["read", "touched", "held", "held too", "new"])
        assert await shared.get("ann", "unused") is None


async def test_a_document_that_would_take_the_space_of_others_is_refused(postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock, total=400) as shared, archive(postgres_url, clock, total=400) as other:
        shared.put("ann", "resp_1", bytes(100))
        shared.put("bob", "resp_2", bytes(100))
        await shared.aclose()  # writes everything
        await other.sweep()
        assert not other.put("bob", "resp_2", bytes(300))
        assert await other.get("bob", "resp_2") == bytes(100), "the earlier document"
        assert other.put("bob", "resp_2", bytes(200))
        await other.aclose()  # writes everything
        await shared.sweep()
        assert await shared.get("ann", "resp_1") == bytes(100)
        assert await shared.get("bob", "resp_2") == bytes(200)


async def test_expired_documents_are_removed_from_an_idle_database(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    clock = Clock()

    async def is_empty() -> None:
        async with asyncio.timeout(PATIENCE):
            while postgres_server.query(postgres_url, "SELECT count(*) FROM archive") != "0":  # noqa: ASYNC110 - a server
                await asyncio.sleep(0.01)

    async with archive(postgres_url, clock, age=100) as shared:
        shared.put("ann", "old", b"old")
        await shared.aclose()  # writes everything
        shared.start(interval=0.01)
        assert await shared.get("ann", "old") == b"old"
        clock.now += 101
        await is_empty()
        shared.put("ann", "old", b"old")
        await shared.aclose()  # writes everything
    tasks, storage = Tasks(), Storage(StoreSettings(url=postgres_url), {})
    archives, _ = build_archives(ResponsesSettings(), storage, tasks)
    storage.start()  # in a gateway, time is now
    await is_empty()
    await tasks.aclose()
    await archives.aclose()
    await storage.aclose()


async def test_documents_wait_for_the_database(postgres_server: PostgresServer, postgres_url: str) -> None:
    clock = Clock()
    async with archive(postgres_url, clock) as shared:
        shared.put("ann", "before", b"one")
        async with archive(postgres_url, clock) as other:
            await eventually(other, "before", b"one")
        postgres_server.stop(signal.SIGINT)
        try:
            shared.put("ann", "during", b"two")
            assert await shared.get("ann", "during") == b"two"
            with pytest.raises(GatewayError, match="cannot be reached"):
                await shared.get("ann", "before")
        finally:
            postgres_server.start()
        async with archive(postgres_url, clock) as other:
            await eventually(other, "during", b"two")


async def test_a_document_removed_during_an_outage_does_not_reappear(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_archive, "MAX_UNWRITTEN", 1000)
    monkeypatch.setattr(shared_archive, "REMOVE_LIMIT", 0.1)
    clock = Clock()
    async with archive(postgres_url, clock) as shared, archive(postgres_url, clock) as other:
        for name in ("removed", "replaced"):
            shared.put("ann", name, b"old")
            await eventually(other, name, b"old")
        postgres_server.stop(signal.SIGINT)
        try:
            for name in ("removed", "replaced"):
                shared.put("ann", name, b"new")
                with pytest.raises(GatewayError, match="has not confirmed that the document was removed"):
                    await shared.remove("ann", name)
                assert await shared.get("ann", name) is None
                assert not await shared.holds("ann", [name])
            with pytest.raises(GatewayError, match="has not confirmed"):
                await shared.remove("ann", "removed")
            assert shared.put("ann", "replaced", b"again")
            assert await shared.get("ann", "replaced") == b"again"
            for number in range(4):
                assert shared.put("ann", f"large{number}", bytes(400))
        finally:
            postgres_server.start()
        await eventually(other, "large3", bytes(400))
        assert [await other.get("ann", name) for name in ("removed", "replaced", "large0", "large1")] == 4 * [None]
        assert await other.get("ann", "large2") == bytes(400)


async def test_only_so_many_removals_wait_for_the_database(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_archive, "MAX_REMOVALS", 1)
    monkeypatch.setattr(shared_archive, "REMOVE_LIMIT", 0.1)
    async with archive(postgres_url, Clock()) as shared:
        assert await shared.get("ann", "first") is None
        postgres_server.stop(signal.SIGINT)
        try:
            for name in ("first", "second"):
                shared.put("ann", name, b"new")
                with pytest.raises(GatewayError, match="has not confirmed"):
                    await shared.remove("ann", name)
            assert await shared.get("ann", "second") == b"new", "it was not removed"
        finally:
            postgres_server.start()
        monkeypatch.setattr(shared_archive, "REMOVE_LIMIT", PATIENCE)
        for name in ("first", "second"):
            assert await shared.remove("ann", name)
            assert not await shared.remove("ann", name)
