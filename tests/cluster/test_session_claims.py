"""Tests for the claims on page sessions: none remains that is not needed any more."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from tests.cluster.support import PATIENCE, until
from tests.postgres_server import PostgresServer
from tieline.app.cluster.session_claims import DatabaseClaims
from tieline.app.database.documents import DocumentStore
from tieline.app.database.postgres import PostgresDatabase, PostgresLimits
from tieline.core.sessions.claims import HeldClaims
from tieline.core.sessions.stored_session import SHELF
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

INTERVAL = 0.05


class Replica:
    """The claims and the store of one replica."""

    def __init__(self, url: str, tasks: Tasks) -> None:
        self.database = PostgresDatabase(url, limits=PostgresLimits(retry=0.1))
        self.claims = DatabaseClaims(self.database, "one", tasks, is_alive=lambda _: True, interval=INTERVAL)
        self.held = HeldClaims(self.claims, tasks)
        self.store = DocumentStore(self.database)
        self.orphans: list[str] = []

    def listen(self, is_stored: Callable[[str], bool]) -> None:
        self.claims.listen(lambda _: None, self._on_orphan, is_stored)

    async def _on_orphan(self, session_id: str) -> None:
        self.orphans.append(session_id)


@asynccontextmanager
async def one_replica(url: str) -> AsyncGenerator[Replica, None]:
    tasks = Tasks()
    replica = Replica(url, tasks)
    try:
        yield replica
    finally:
        await tasks.aclose()
        await replica.store.aclose()
        await replica.database.aclose()


async def nothing() -> None:
    pass


async def failing() -> None:
    raise ValueError("the session cannot be read")


def claimed(server: PostgresServer, url: str) -> str:
    return server.query(url, "SELECT session FROM session_claim ORDER BY session")


async def test_a_claim_is_released_after_an_outage_of_the_database(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with one_replica(postgres_url) as replica:
        replica.listen(lambda _: True)
        for session in ("again", "idle"):
            await replica.held.hold(session, nothing)
        postgres_server.stop()
        try:
            for session in ("again", "idle"):
                await replica.held.let_go(session)
        finally:
            postgres_server.start()
        async with asyncio.timeout(PATIENCE):
            while "again" not in replica.held:
                try:
                    await replica.held.hold("again", nothing)
                except GatewayError:  # the database is not connected yet
                    await asyncio.sleep(0.01)
        await until(lambda: claimed(postgres_server, postgres_url) == "again")
        await replica.held.let_go("again")
        assert claimed(postgres_server, postgres_url) == ""
        assert replica.orphans == []


async def test_a_claim_is_kept_until_the_changes_of_the_session_are_written(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with one_replica(postgres_url) as replica:
        stored_at_release: list[str] = []

        def is_stored(session_id: str) -> bool:
            if not replica.store.is_written(SHELF, session_id):
                return False
            stored_at_release.append(postgres_server.query(postgres_url, "SELECT key FROM document"))
            return True

        replica.listen(is_stored)
        await replica.held.hold("changed", nothing)
        postgres_server.stop()
        try:
            await replica.store.write(SHELF, "changed", b"new")
            assert not replica.store.is_written(SHELF, "changed")
            assert not replica.store.is_written(SHELF)
            assert replica.store.is_written(SHELF, "other")
            await replica.held.let_go("changed")
        finally:
            postgres_server.start()
        await until(lambda: claimed(postgres_server, postgres_url) == "")
        assert set(stored_at_release) == {"changed"}


async def test_a_claim_is_released_if_the_session_cannot_be_read_again(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with one_replica(postgres_url) as replica:
        with pytest.raises(ValueError, match="cannot be read"):
            await replica.held.hold("failed", failing)
        assert claimed(postgres_server, postgres_url) == ""
        assert "failed" not in replica.held


async def test_a_claim_is_released_if_the_request_is_cancelled(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    reading = asyncio.Event()

    async def endless() -> None:
        reading.set()
        await asyncio.Event().wait()

    async with one_replica(postgres_url) as replica:
        request = asyncio.create_task(replica.held.hold("cancelled", endless))
        await reading.wait()
        assert claimed(postgres_server, postgres_url) == "cancelled"
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert claimed(postgres_server, postgres_url) == ""
