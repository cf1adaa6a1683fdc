"""The PostgreSQL engine: the same behaviour as SQLite, and outages that are reported once and cost nothing else."""

import asyncio
import logging
import signal
import traceback
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import uvloop

from tests.app.database.contract import PATIENCE, DatabaseContract, OpenDatabase, StoreContract, closing
from tests.postgres_server import PASSWORD, PostgresServer
from tieline.app.database.documents import DocumentStore
from tieline.app.database.engine import Database, DatabaseFailed, DatabaseUnavailable
from tieline.app.database.migrations import Migration
from tieline.app.database.postgres import PostgresDatabase, PostgresLimits
from tieline.app.database.schema import ALL
from tieline.app.database.unwritten import MAX_UNWRITTEN
from tieline.model.ports import Store

QUICK = PostgresLimits(connections=3, statement=2.0, connect=2.0, retry=0.1, quiet=0.2)

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
"""All connections to the database except the one that asks."""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(0.01)


class TestPostgresDatabase(DatabaseContract):
    @pytest.fixture
    def address(self, postgres_url: str) -> str:
        return postgres_url

    @pytest.fixture
    def racers(self) -> str:
        return "from tieline.app.database.postgres import PostgresDatabase as open_database"

    @pytest.fixture
    def open_database(self, postgres_url: str) -> OpenDatabase:
        def opened(migrations: Sequence[Migration] = ALL, *, limit: float = 10.0) -> Database:
            limits = PostgresLimits(connections=4, statement=limit)
            return PostgresDatabase(postgres_url, migrations, limits=limits, warn=lambda _: None)

        return opened


class TestPostgresStore(StoreContract):
    @pytest.fixture
    async def store(self, postgres_url: str) -> AsyncIterator[Store]:
        store = DocumentStore(PostgresDatabase(postgres_url), owns_database=True, warn=lambda _: None)
        yield store
        await store.aclose()


class Outages:
    """A database whose warnings are recorded."""

    def __init__(self, url: str) -> None:
        self.said: list[str] = []
        self.database = PostgresDatabase(url, limits=QUICK, warn=self.said.append)
        self.store = DocumentStore(self.database, warn=self.said.append)


@pytest.fixture
async def outages(postgres_url: str) -> AsyncIterator[Outages]:
    made = Outages(postgres_url)
    async with closing(made.database):
        yield made


async def test_an_outage_is_reported_once_and_ends_by_itself(outages: Outages, postgres_server: PostgresServer) -> None:
    database, store, said = outages.database, outages.store, outages.said
    for how in (signal.SIGINT, signal.SIGQUIT):
        said.clear()
        await store.write("shelf", "a", b"1")
        assert database.is_available
        postgres_server.stop(how)
        assert await store.read("shelf") == {}
        assert await store.get("shelf", "a") is None
        assert await store.sizes("shelf") == {}
        assert not database.is_available
        with pytest.raises(DatabaseUnavailable):
            await database.fetch("SELECT 1")
        postgres_server.start()
        await until(lambda: database.is_available)
        assert await store.read("shelf") == {"a": b"1"}
        assert len(said) == 2
        assert "cannot be used" in said[0]
        assert "can be used again" in said[1]


async def test_documents_that_change_during_an_outage_are_written_afterwards(
    outages: Outages, postgres_server: PostgresServer, postgres_url: str
) -> None:
    store = outages.store
    for key in ("a", "b"):
        await store.write("shelf", key, b"before")
        await store.write("cleared", key, b"before")
    postgres_server.stop()
    await store.write("shelf", "a", b"1")
    await store.write("shelf", "a", b"22")
    await store.remove("shelf", "b")
    await store.remove("cleared")
    await store.write("cleared", "c", b"3")
    assert await store.read("shelf") == {"a": b"22"}
    assert await store.get("shelf", "b") is None
    assert await store.sizes("cleared") == {"c": 1}
    postgres_server.start()
    other = DocumentStore(PostgresDatabase(postgres_url), owns_database=True)
    async with asyncio.timeout(PATIENCE):
        while await other.read("cleared") != {"c": b"3"}:  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(0.01)
    assert await other.read("shelf") == await store.read("shelf") == {"a": b"22"}
    await other.aclose()


async def test_a_change_without_room_costs_no_earlier_change(
    outages: Outages, postgres_server: PostgresServer, postgres_url: str
) -> None:
    store = outages.store
    await store.write("shelf", "removed", b"before")
    postgres_server.stop()
    await store.write("shelf", "a", b"1")
    await store.remove("shelf", "removed")
    for key in ("a", "removed"):
        await store.write("shelf", key, bytes(MAX_UNWRITTEN))
        assert "a change to a document is lost" in outages.said[-1]
    assert await store.read("shelf") == {"a": b"1"}
    postgres_server.start()
    other = DocumentStore(PostgresDatabase(postgres_url), owns_database=True)
    await until(lambda: store.is_written("shelf"))
    assert await other.read("shelf") == {"a": b"1"}
    await other.aclose()


async def test_what_an_outage_leaves_unwritten_is_reported_at_the_end(
    outages: Outages, postgres_server: PostgresServer
) -> None:
    await outages.store.write("shelf", "a", b"1")
    postgres_server.stop()
    await outages.store.write("shelf", "b", b"2")
    await outages.store.aclose()
    postgres_server.start()
    assert "1 changes to documents are lost" in outages.said[-1]


async def test_the_last_of_several_concurrent_changes_wins(outages: Outages) -> None:
    for _ in range(5):
        await asyncio.gather(*(outages.store.write("shelf", "a", str(n).encode()) for n in range(50)))
        assert await outages.database.fetch("SELECT data FROM document") == [(b"49",)]


async def test_an_outage_is_noticed_without_any_operation(outages: Outages, postgres_server: PostgresServer) -> None:
    await outages.database.fetch("SELECT 1")
    postgres_server.stop()
    await until(lambda: not outages.database.is_available)
    postgres_server.start()
    await until(lambda: outages.database.is_available)


async def test_a_restart_between_two_operations_costs_none_of_them(
    outages: Outages, postgres_server: PostgresServer
) -> None:
    await outages.store.write("shelf", "a", b"1")
    postgres_server.stop()
    postgres_server.start()
    await outages.store.write("shelf", "b", b"2")
    assert await outages.store.read("shelf") == {"a": b"1", "b": b"2"}
    assert outages.said == []


async def test_a_gateway_that_starts_during_an_outage_connects_later(
    outages: Outages, postgres_server: PostgresServer
) -> None:
    postgres_server.stop()
    heard: list[str] = []
    outages.database.listen("keys", heard.append)
    assert await outages.store.read("shelf") == {}
    assert heard == []
    postgres_server.start()
    await until(lambda: heard == [""])
    await outages.store.write("shelf", "a", b"1")
    assert await outages.store.read("shelf") == {"a": b"1"}


async def test_a_server_that_hangs_is_an_outage(outages: Outages, postgres_server: PostgresServer) -> None:
    await outages.database.fetch("SELECT 1")
    postgres_server.freeze()
    try:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(DatabaseUnavailable):
                await outages.database.fetch("SELECT 1")
        await until(lambda: not outages.database.is_available)
    finally:
        postgres_server.thaw()
    await until(lambda: outages.database.is_available)
    assert await outages.database.fetch("SELECT 1") == [(1,)]


async def test_connections_are_limited(outages: Outages, postgres_server: PostgresServer, postgres_url: str) -> None:
    slow = [outages.database.fetch("SELECT 1 FROM pg_sleep(0.02)") for _ in range(40)]
    assert await asyncio.gather(*slow) == [[(1,)]] * 40
    assert int(postgres_server.query(postgres_url, f"SELECT count(*) {OTHERS}")) <= QUICK.connections + 1


async def test_messages_reach_all_gateways_in_order(postgres_url: str) -> None:
    one, two = PostgresDatabase(postgres_url, limits=QUICK), PostgresDatabase(postgres_url, limits=QUICK)
    heard: dict[str, list[str]] = {"one": [], "two": [], "other": []}
    async with closing(one, two):
        stop = one.listen("keys", heard["one"].append)
        two.listen("keys", heard["two"].append)
        two.listen("other", heard["other"].append)
        await until(lambda: all(heard.values()))
        for payload in ("a", "b ünïcødé '", "c" * 7000):
            await one.notify("keys", payload)
        await until(lambda: len(heard["two"]) == 4 and len(heard["one"]) == 4)
        assert heard["one"] == heard["two"] == ["", "a", "b ünïcødé '", "c" * 7000]
        stop()
        await two.notify("keys", "d")
        await until(lambda: len(heard["two"]) == 5)
        assert len(heard["one"]) == 4
        assert heard["other"] == [""]


async def test_a_listener_catches_up_after_a_lost_connection(
    outages: Outages, postgres_server: PostgresServer, postgres_url: str
) -> None:
    heard: list[str] = []
    outages.database.listen("keys", heard.append)
    await until(lambda: heard == [""])
    postgres_server.query(postgres_url, f"SELECT pg_terminate_backend(pid) {OTHERS}")
    await until(lambda: heard == ["", ""])
    await outages.database.notify("keys", "later")
    await until(lambda: heard == ["", "", "later"])
    assert outages.said == []


async def test_a_listener_that_fails_does_not_stop_the_others(
    outages: Outages, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail(payload: str) -> None:
        raise RuntimeError("deliberate")

    outages.database.listen("keys", fail)
    outages.database.listen("keys", heard.append)
    await until(lambda: heard == [""])
    await outages.database.notify("keys", "x")
    await until(lambda: heard == ["", "x"])
    assert "deliberate" in caplog.text


@pytest.mark.parametrize("change", ["wrong password", "no such database", "no such server", "no such host"])
async def test_the_password_is_neither_in_errors_nor_in_the_log(
    postgres_url: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    base, _, name = postgres_url.rpartition("/")
    secret = PASSWORD
    match change:
        case "wrong password":
            secret = "quite-another-secret"
            url = postgres_url.replace(PASSWORD, secret)
        case "no such database":
            url = f"{base}/missing"
        case "no such server":
            url = f"{base.rpartition(':')[0]}:1/{name}"
        case _:
            url = postgres_url.replace("127.0.0.1", "host.invalid")
    database = PostgresDatabase(url, limits=QUICK)
    async with closing(database):
        with pytest.raises(DatabaseFailed) as failed:
            await database.fetch("SELECT 1")
        text = "".join(traceback.format_exception(failed.value))
        assert database.title in str(failed.value)
    assert secret not in text + caplog.text + database.title + repr(database)
    assert "cannot be used" in caplog.text


@pytest.mark.parametrize(
    "url", ["postgresql://u:hidden-secret@[h/d", "u:hidden-secret@h", "postgresql://u:hidden-secret@h/d?nonsense=1"]
)
def test_a_url_that_cannot_be_used_is_not_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="expected postgresql://user@host/database") as failed:
        PostgresDatabase(url)
    assert "hidden-secret" not in "".join(traceback.format_exception(failed.value))


def test_it_works_on_uvloop(postgres_url: str) -> None:
    async def use() -> None:
        database = PostgresDatabase(postgres_url, limits=QUICK)
        heard: list[str] = []
        async with closing(database):
            database.listen("keys", heard.append)
            store = DocumentStore(database)
            await asyncio.gather(*(store.write("shelf", str(n), b"x") for n in range(50)))
            assert len(await store.read("shelf")) == 50
            await database.notify("keys", "x")
            await until(lambda: heard == ["", "x"])

    uvloop.run(use())


async def test_a_user_without_the_right_to_create_tables_gets_a_clear_error(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    postgres_server.query(postgres_url, f"CREATE ROLE reader_{name} LOGIN PASSWORD '{PASSWORD}'")
    database = PostgresDatabase(postgres_url.replace("//tieline:", f"//reader_{name}:"), limits=QUICK)
    async with closing(database):
        with pytest.raises(DatabaseUnavailable, match="permission denied for schema public"):
            await database.fetch("SELECT 1")
