"""Tests of the table of keys, and of the keys in memory that follow it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path

import pytest

from tests.each import each
from tieline.app.config import KeyRules
from tieline.app.database.engine import Database, DatabaseUnavailable
from tieline.app.database.sqlite import SqliteDatabase
from tieline.app.keys.stored import GRACE, StoredKeys
from tieline.app.keys.table import PREFIX, KeyTable
from tieline.core.usage.accounts import Accounts
from tieline.core.usage.limits import KeyLimits
from tieline.frontends.keys import digest_of
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Stand:
    """A database file, the table that the command line uses, and the keys of a running gateway."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.other: Database = SqliteDatabase(path)
        self.table = KeyTable(self.other, self.clock)
        self.tasks = Tasks()
        self.accounts = Accounts(self.clock, self.clock)
        self.database: Database = SqliteDatabase(path)
        self.keys = StoredKeys(
            lambda: self.database,
            self.tasks,
            self.accounts,
            clock=self.clock,
            now=self.clock,
            configured={"configured"},
        )

    async def settle(self, is_so: Callable[[], object]) -> None:
        """Wait until a condition is true."""
        for _ in range(1000):
            if is_so():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it did not become true")


@asynccontextmanager
async def stand(path: Path) -> AsyncIterator[Stand]:
    opened = Stand(path / "keys.sqlite3")
    try:
        yield opened
    finally:
        opened.keys.close()
        await opened.tasks.aclose()
        await opened.database.aclose()
        await opened.other.aclose()


def content_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir())


async def test_a_new_key_is_random_recognisable_and_stored_only_as_a_digest(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        first, second = [await here.table.create(name, KeyRules()) for name in ("alice", "bob")]
        assert first.value.startswith(PREFIX)
        assert len(first.value) == len(PREFIX) + 43
        assert first.value != second.value
        files = content_of(tmp_path)
        assert first.value.encode() not in files
        assert digest_of(first.value).encode() in files
        assert [record.name for record in await here.table.all()] == ["alice", "bob"]


@each("name", ["", "a b", "-x", "tunnel", "other", "a/b", "x" * 65, "é"])
async def test_a_name_that_cannot_be_used_is_refused(name: str) -> None:
    with pytest.raises(GatewayError) as caught:
        await KeyTable(SqliteDatabase(None), Clock()).create(name, KeyRules())
    assert (caught.value.status, caught.value.param) == (400, "name")


async def test_a_name_is_never_used_for_two_keys(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.table.create("alice", KeyRules())
        await here.table.revoke("alice")
        with pytest.raises(GatewayError) as caught:
            await here.table.create("alice", KeyRules())
        assert caught.value.status == 409
        for change in (here.table.revoke, here.table.rotate):
            for name, status in (("alice", 409), ("bob", 404)):
                with pytest.raises(GatewayError) as caught:
                    await change(name)
                assert caught.value.status == status


async def test_the_gateway_finds_a_key_by_its_digest_and_knows_its_rules(tmp_path: Path) -> None:
    rules = KeyRules(models=("demo/*",), page=True, expires=date(2027, 1, 31), tokens_per_day=5, cost_per_month=1.5)
    async with stand(tmp_path) as here:
        new = await here.table.create("alice", rules)
        await here.keys.refresh()
        key = here.keys.find(digest_of(new.value))
        assert key is not None
        assert key == here.keys.named("alice")
        assert (key.name, key.value, key.tools, key.is_admin) == ("alice", "", False, False)
        assert str(key.access) == "demo/*, but not acp/*"
        assert key.limits == KeyLimits(tokens_per_day=5, cost_per_month=1_500_000_000)
        assert here.accounts.get("alice") is not None
        assert key.expires == 1_801_440_000.0
        assert "/api/" in key.paths


async def test_changes_by_another_process_are_seen_while_keys_are_stored(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        first = await here.table.create("alice", KeyRules())
        await here.keys.refresh()
        second = await here.table.create("bob", KeyRules())
        await here.settle(lambda: here.keys.find(digest_of(second.value)))
        await here.table.revoke("alice")
        await here.settle(lambda: here.keys.named("alice").is_revoked)  # type: ignore[union-attr] # it is known
        key = here.keys.find(digest_of(first.value))
        assert key is not None
        with pytest.raises(GatewayError, match="revoked"):
            key.check_valid(here.clock())


async def test_after_a_rotation_the_old_key_stays_valid_for_the_grace_period(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        old = await here.table.create("alice", KeyRules())
        new = await here.table.rotate("alice", 60)
        await here.keys.refresh()
        assert here.keys.find(digest_of(old.value)) == here.keys.find(digest_of(new.value)) != None  # noqa: E711 - one chain
        here.clock.now += 60
        assert here.keys.find(digest_of(old.value)) is None
        newer = await here.table.rotate("alice")
        await here.keys.refresh()
        assert here.keys.find(digest_of(new.value)) is None
        assert here.keys.find(digest_of(newer.value)) is not None


async def test_a_key_in_the_configuration_takes_precedence_over_a_stored_one(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        new = await here.table.create("configured", KeyRules())
        await here.keys.refresh()
        assert here.keys.find(digest_of(new.value)) is None


async def test_no_database_file_is_created_to_find_out_that_there_are_no_keys(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        await here.keys.refresh()
        assert here.keys.find(digest_of("guess")) is None
        assert content_of(tmp_path) == b""


class BrokenDatabase(SqliteDatabase):
    """A database that cannot be reached."""

    async def fetch(self, statement: str, parameters: object = ()) -> list[tuple[object, ...]]:
        raise DatabaseUnavailable(f"gone: {statement} {parameters}")


async def test_without_the_database_keys_stay_valid_for_a_minute(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        new = await here.table.create("alice", KeyRules())
        await here.keys.refresh()
        here.keys.close()
        here.database = BrokenDatabase(None)
        here.clock.now += GRACE
        assert here.keys.find(digest_of(new.value)) is not None
        here.clock.now += 1
        with pytest.raises(GatewayError) as caught:
            here.keys.find(digest_of(new.value))
        assert (caught.value.status, caught.value.retry_after) == (503, 5)
        with pytest.raises(GatewayError) as caught:
            await here.keys.refresh()
        assert caught.value.status == 503


async def test_many_unknown_keys_cause_few_queries(tmp_path: Path) -> None:
    async with stand(tmp_path) as here:
        queries = 0

        class Counting(SqliteDatabase):
            async def fetch(self, statement: str, parameters: object = ()) -> list[tuple[object, ...]]:
                nonlocal queries
                queries += 1
                return await super().fetch(statement, parameters)  # type: ignore[arg-type] # passed on

        here.database = Counting(tmp_path / "keys.sqlite3")
        await asyncio.gather(*(here.keys.refresh() for _ in range(100)))
        assert queries <= 4
