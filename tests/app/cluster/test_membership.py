"""Tests for the knowledge of one replica about the others. The database is SQLite, without messages."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tieline.app.cluster.membership import FORGET_AFTER, Membership, Timing
from tieline.app.database.engine import DatabaseUnavailable, Row
from tieline.app.database.schema.cluster import CLUSTER
from tieline.app.database.sqlite import SqliteDatabase
from tieline.tasks import Tasks

TIMING = Timing(heartbeat=2.0, dead_after=10.0)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Unreliable(SqliteDatabase):
    """A database that can be cut off."""

    is_cut = False

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        if self.is_cut:
            raise DatabaseUnavailable("cut off")
        return await super().fetch(statement, parameters)

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        if self.is_cut:
            raise DatabaseUnavailable("cut off")
        return await super().execute(statement, parameters)


class Stand:
    """Replicas on one database and one clock."""

    def __init__(self, database: Unreliable) -> None:
        self.database = database
        self.clock = Clock()
        self.tasks = Tasks()
        self.dead: list[str] = []

    async def join(self, tag: str, **options: Any) -> Membership:
        """A replica that has joined. Its heart beats only when the test says so."""
        membership = Membership(
            self.database,
            tag,
            has_agents=bool(options.get("agents")),
            timing=TIMING,
            clock=self.clock,
            tasks=self.tasks,
            on_dead=self.dead.append,
        )
        await membership.join(f"http://127.0.0.1:{len(tag)}{ord(tag[0])}")
        return membership

    async def beat(self, *replicas: Membership, after: float = TIMING.heartbeat) -> None:
        """Some seconds later, let replicas send a heartbeat and read the rows of the others."""
        self.clock.now += after
        for replica in replicas:
            await replica._update()


@asynccontextmanager
async def stand() -> AsyncGenerator[Stand, None]:
    database = Unreliable(None, [one._replace(shared_only=False) for one in CLUSTER])
    made = Stand(database)
    try:
        yield made
    finally:
        await made.tasks.aclose()
        await database.aclose()


def tags(membership: Membership) -> set[str]:
    return {replica.tag for replica in membership.alive()}


async def test_replicas_find_one_another() -> None:
    async with stand() as made:
        first, second = await made.join("aaaa"), await made.join("bbbb", agents=True)
        await made.beat(first, second)
        assert (tags(first), tags(second)) == ({"bbbb"}, {"aaaa"})
        found = first.find("bbbb")
        assert found is not None
        assert (found.origin.authority, found.has_agents, found.is_draining) == ("127.0.0.1:498", True, False)
        assert first.find("aaaa") is None, "a replica is not its own peer"
        assert first.find("cccc") is None


async def test_a_replica_without_a_heartbeat_is_dead_after_ten_seconds_and_later_forgotten() -> None:
    async with stand() as made:
        first, second = await made.join("aaaa"), await made.join("bbbb")
        await made.beat(first, second)
        await made.beat(first, after=9.0)
        assert (tags(first), made.dead) == ({"bbbb"}, [])
        await made.beat(first, after=4.0)
        assert (tags(first), made.dead) == (set(), ["bbbb"])
        await made.beat(first, after=FORGET_AFTER * TIMING.dead_after)
        assert await made.database.fetch("SELECT tag FROM replica") == [("aaaa",)]


async def test_a_forgotten_replica_that_is_alive_joins_again() -> None:
    async with stand() as made:
        first, second = await made.join("aaaa"), await made.join("bbbb")
        await made.beat(first, after=TIMING.dead_after * (FORGET_AFTER + 1))
        await made.beat(first, after=TIMING.dead_after * (FORGET_AFTER + 1))
        assert tags(first) == set()
        await made.beat(second, first)
        assert tags(first) == {"bbbb"}


async def test_a_refused_connection_counts_as_death_until_the_next_heartbeat() -> None:
    async with stand() as made:
        first, second = await made.join("aaaa"), await made.join("bbbb")
        await made.beat(first, second)
        first.refused("bbbb")
        assert tags(first) == set()
        await made.beat(first)
        assert tags(first) == set()
        await made.beat(second, first)
        assert tags(first) == {"bbbb"}


async def test_a_replica_that_leaves_is_gone_and_one_that_drains_is_not() -> None:
    async with stand() as made:
        first, second = await made.join("aaaa"), await made.join("bbbb")
        await second.drain()
        await made.beat(first)
        found = first.find("bbbb")
        assert found is not None
        assert found.is_draining
        await second.leave()
        await made.beat(first)
        assert tags(first) == set()


async def test_without_the_database_the_known_replicas_count_as_alive() -> None:
    async with stand() as made:
        first, second = await made.join("aaaa"), await made.join("bbbb")
        await made.beat(first, second)
        made.database.is_cut = True
        await made.beat(first, second, after=100.0)
        assert first.is_cut_off
        assert tags(first) == {"bbbb"}
        first.refused("bbbb")
        assert tags(first) == set(), "a refused connection is a sign without the database as well"
        made.database.is_cut = False
        await made.beat(first, after=100.0)
        assert (first.is_cut_off, tags(first), made.dead) == (False, {"bbbb"}, [])


async def test_a_replica_that_starts_without_the_database_joins_later() -> None:
    async with stand() as made:
        first = await made.join("aaaa")
        made.database.is_cut = True
        second = await made.join("bbbb")
        assert second.is_cut_off
        made.database.is_cut = False
        await made.beat(second, first)
        assert (tags(first), tags(second)) == ({"bbbb"}, {"aaaa"})
