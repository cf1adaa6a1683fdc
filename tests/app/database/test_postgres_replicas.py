"""Gateways that share a database: sessions, responses, grants, traffic and the audit log of one are those of all."""

import asyncio
import json
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.app.database.contract import PATIENCE
from tests.app.database.test_postgres import QUICK, until
from tests.postgres_server import PASSWORD, PostgresServer
from tests.web.serving import PageStand, serving
from tieline.app.build.application import build
from tieline.app.build.shared_records import pruning
from tieline.app.config import Config, StoreSettings, ToolSettings, WebSettings
from tieline.app.database.postgres import PostgresDatabase
from tieline.app.doctor.database import database_checks
from tieline.app.doctor.findings import Finding
from tieline.app.retained_traffic import ADD_LEG
from tieline.app.shared_grants import SharedGrants
from tieline.model.content import ToolCall
from tieline.model.rules import Rule

RULE = Rule(decision="allow", tool="write_file", path="notes.txt")
OTHER = Rule(decision="allow", tool="run_terminal", command="make test", exact=True)


async def soon(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(PATIENCE):
        while not await look():  # noqa: ASYNC110 - another process or replica
            await asyncio.sleep(0.02)


@pytest.fixture
async def replicas(tmp_path: Path, postgres_url: str) -> AsyncIterator[tuple[PageStand, PageStand]]:
    """Two gateways with folders of their own and one database."""
    async with AsyncExitStack() as stack:
        stands: list[PageStand] = []
        for name in ("one", "two"):
            (tmp_path / name / "work").mkdir(parents=True)
            tools = ToolSettings(enabled=True, workspace=str(tmp_path / name / "work"))
            config = Config(store=StoreSettings(url_env="STORE_URL"), tools=tools)
            env = {"STORE_URL": postgres_url, "PATH": "/usr/bin:/bin"}
            stands.append(await stack.enter_async_context(serving(tmp_path / name, config, env)))
        yield stands[0], stands[1]


async def test_a_stored_response_is_found_by_every_replica(replicas: tuple[PageStand, PageStand]) -> None:
    one, two = replicas
    asked = {"model": "demo/scripted", "input": "Remember the word heron."}
    first = (await one.http.post("/v1/responses", json=asked)).json()
    path = f"/v1/responses/{first['id']}"

    async def is_found() -> bool:
        return (await two.http.get(path)).status_code == 200

    await soon(is_found)
    asked = {"model": "demo/scripted", "input": "Which one?", "previous_response_id": first["id"]}
    assert (await two.http.post("/v1/responses", json=asked)).status_code == 200
    assert (await two.http.delete(path)).status_code == 200

    async def is_gone() -> bool:
        return (await one.http.get(path)).status_code == 404

    await soon(is_gone)


async def test_the_traffic_view_shows_the_requests_of_all_replicas(
    replicas: tuple[PageStand, PageStand], postgres_server: PostgresServer
) -> None:
    one, two = replicas
    for stand, text in ((one, "first fox"), (two, "second heron")):
        asked = {"model": "demo/scripted", "messages": [{"role": "user", "content": text}]}
        assert (await stand.http.post("/v1/chat/completions", json=asked)).status_code == 200

    async def legs(stand: PageStand, query: str = "", before: str = "") -> list[dict[str, Any]]:
        given = {"query": query, "before": before}
        found: list[dict[str, Any]] = (await stand.http.get("/api/traffic", params=given)).json()["legs"]
        return found

    async def are_shown() -> bool:
        return [leg["title"] for leg in await legs(one)] == [leg["title"] for leg in await legs(two)] != []

    await soon(are_shown)
    newest, oldest = await legs(one)
    assert (newest["title"], oldest["title"]) == ("second heron", "first fox")
    assert await legs(one, before=newest["id"]) == [oldest]
    assert [leg["title"] for leg in await legs(two, query="FOX")] == ["first fox"]
    assert await legs(two, query="100% _") == []
    detail = (await two.http.get(f"/api/traffic/{oldest['id']}")).json()
    assert detail["request"]["messages"][0]["parts"][0]["text"] == "first fox"
    assert (await two.http.get("/api/traffic/unknown.1")).status_code == 404
    postgres_server.stop()
    try:
        assert [leg["title"] for leg in await legs(two)] == ["second heron"]
    finally:
        postgres_server.start()


async def test_sessions_survive_their_replica(tmp_path: Path, postgres_url: str) -> None:
    config, env = Config(store=StoreSettings(url_env="STORE_URL")), {"STORE_URL": postgres_url}
    async with serving(tmp_path / "one", config, env) as one:
        session = await one.begin()
    async with serving(tmp_path / "two", config, env) as two:
        assert [known["id"] for known in (await two.state())["sessions"]] == [session]
    assert not (tmp_path / "one/.local/state/tieline/sessions.sqlite3").exists()


async def test_grants_are_shared_and_revoked_everywhere(postgres_url: str) -> None:
    databases = [PostgresDatabase(postgres_url, limits=QUICK) for _ in range(2)]
    one, two = (SharedGrants(database, "/work") for database in databases)
    elsewhere = SharedGrants(databases[1], "/elsewhere")
    for grants in (one, two, elsewhere):
        grants.start()
    await asyncio.gather(asyncio.to_thread(one.add, RULE), asyncio.to_thread(two.add, OTHER))
    await until(lambda: set(one.rules()) == set(two.rules()) == {RULE, OTHER})
    assert elsewhere.rules() == ()
    assert await asyncio.to_thread(two.remove, RULE.id)
    assert not await asyncio.to_thread(two.remove, RULE.id)
    await until(lambda: one.rules() == two.rules() == (OTHER,))
    for database in databases:
        await database.aclose()


async def test_a_shared_grant_that_no_longer_applies_is_logged_once(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = PostgresDatabase(postgres_url, limits=QUICK)
    old = Rule(decision="allow", tool="run_terminal", command="npm")
    for number, rule in enumerate((old, RULE)):
        add = "INSERT INTO document (shelf, key, data) VALUES (?, ?, ?)"
        await database.execute(add, ("grants//work", str(number), msgspec.json.encode(rule)))
    grants = SharedGrants(database, "/work")
    with caplog.at_level("WARNING", logger="tieline.tools"):
        await grants.refresh()
        await grants.refresh()
    (warning,) = [message for message in caplog.messages if "no longer honoured" in message]
    assert "its program can run or write anything with the right options" in warning
    await database.aclose()


async def test_a_grant_revoked_during_an_outage_stays_revoked(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    database, other = (PostgresDatabase(postgres_url, limits=QUICK, warn=lambda _: None) for _ in range(2))
    grants, elsewhere = SharedGrants(database, "/work"), SharedGrants(other, "/work")
    for shared in (grants, elsewhere):
        shared.start()
    await asyncio.to_thread(grants.add, RULE)
    await until(lambda: elsewhere.rules() == (RULE,))
    postgres_server.stop()
    with pytest.raises(OSError, match="has not saved it"):
        await asyncio.to_thread(grants.remove, RULE.id)
    assert grants.rules() == ()
    postgres_server.start()
    await until(lambda: elsewhere.rules() == ())
    assert grants.rules() == ()
    await database.aclose()
    await other.aclose()


async def test_the_audit_log_is_copied(
    replicas: tuple[PageStand, PageStand], postgres_server: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    for stand in replicas:
        assert stand.app.tools is not None
        await stand.app.tools.remember(RULE)
        call = ToolCall(id="1", name="write_file", arguments=json.dumps({"path": "notes.txt", "content": "x"}))
        stand.app.tools.report_decision(await stand.app.tools.judge(call))

    async def are_copied() -> bool:
        return postgres_server.query(postgres_url, "SELECT count(*) FROM audit") == "2"

    await soon(are_copied)
    lines = [(tmp_path / name / ".local/state/tieline/audit.jsonl").read_text() for name in ("one", "two")]
    records = postgres_server.query(postgres_url, "SELECT record FROM audit").splitlines()
    assert sorted(records) == sorted(line.rstrip("\n") for line in lines)
    one, two = postgres_server.query(postgres_url, "SELECT replica FROM audit").splitlines()
    assert one != two, "replicas on one host are told apart"
    assert {one.rpartition("/")[0], two.rpartition("/")[0]} == {platform.node()}


async def test_old_and_surplus_records_are_removed(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    rows = [(f"a.{n}", 1000.0 * n, "", "", "", 1 << 20, b"{}", b"{}") for n in range(1, 41)]
    await database.execute_many(ADD_LEG, rows)
    day = 24 * 3600.0

    async def left(settings: StoreSettings, now: float) -> int:
        for statement in pruning(settings, now):
            await database.execute(*statement)
        ((count,),) = await database.fetch("SELECT count(*) FROM leg")
        return int(count)

    assert await left(StoreSettings(traffic_days=1), day + 10_500) == 30
    assert await left(StoreSettings(traffic=20), 0) == 20
    assert await left(StoreSettings(traffic_mib=5), 0) == 5
    assert await left(StoreSettings(), 0) == 5
    await database.aclose()


async def wait_until_pruned(database: PostgresDatabase, config: Config, table: str) -> None:
    """Run a gateway until the row `old` has been removed from a table, and only `new` is left."""
    app = build(config, {})

    async def is_removed() -> bool:
        return await database.fetch(f"SELECT id FROM {table}") == [("new",)]  # noqa: S608 - only constants

    try:
        await app.start()
        await soon(is_removed)
    finally:
        await app.aclose()
        await database.aclose()


async def test_old_records_of_the_audit_log_are_removed_even_without_the_page(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    rows = [("old", 0.0, "here", "{}"), ("new", 1e12, "here", "{}")]
    await database.execute_many("INSERT INTO audit (id, at, replica, record) VALUES (?, ?, ?, ?)", rows)
    config = Config(store=StoreSettings(url=postgres_url), web=WebSettings(enabled=False))
    await wait_until_pruned(database, config, "audit")


async def test_a_table_that_cannot_be_pruned_is_logged_and_the_others_are_pruned(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    database = PostgresDatabase(postgres_url)
    rows = [(name, at, "", "", "", 1, b"{}", b"{}") for name, at in (("old", 0.0), ("new", 1e12))]
    await database.execute_many(ADD_LEG, rows)
    await database.execute("DROP TABLE audit")
    await wait_until_pruned(database, Config(store=StoreSettings(url=postgres_url)), "leg")
    (warning,) = [message for message in caplog.messages if "old records" in message]
    assert '"audit" does not exist' in warning


async def test_doctor_checks_the_database(postgres_url: str, postgres_server: PostgresServer) -> None:
    async def found(url: str) -> Finding:
        (check,) = database_checks(Config(store=StoreSettings(url=url)), {})
        finding = await check.run()
        assert isinstance(finding, Finding)
        return finding

    empty = await found(postgres_url)
    assert empty.status == "ok"
    assert "creates its tables when it starts" in empty.text
    assert postgres_server.query(postgres_url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"
    database = PostgresDatabase(postgres_url)
    await database.fetch("SELECT 1")
    assert "schema version" in (await found(postgres_url)).text
    await database.execute("DELETE FROM schema_version WHERE number = 1")
    assert "1 migration will be applied" in (await found(postgres_url)).text
    await database.execute("INSERT INTO schema_version (number) VALUES (9999)")
    assert (await found(postgres_url)).status == "warning"
    await database.aclose()
    wrong = await found(postgres_url + "_missing")
    assert wrong.status == "problem"
    assert "does not exist" in wrong.text
    assert PASSWORD not in wrong.text
    assert database_checks(Config(), {}) == []
