"""Checks the database of `[store]`: whether it can be reached, and whether its tables are those of this version."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tieline.app.build.storage import store_url
from tieline.app.config import Config
from tieline.app.database.engine import Database, DatabaseFailed
from tieline.app.database.schema import ALL
from tieline.app.doctor.findings import Check, Finding, counted, ok, problem, warning
from tieline.app.lazy import LazyImport

if TYPE_CHECKING:
    from tieline.app.database.postgres import PostgresDatabase
else:
    PostgresDatabase = LazyImport("tieline.app.database.postgres", "PostgresDatabase")

AREA = "Database"

_HAS_TABLES = "SELECT count(*) FROM pg_tables WHERE tablename = 'schema_version'"


def database_checks(config: Config, env: Mapping[str, str]) -> list[Check]:
    """Return the check of the database; none if the gateway uses files."""
    url = store_url(config.store, env)
    return [] if url is None else [Check(AREA, "connection", lambda: _database(url))]


async def _database(url: str) -> Finding:
    # Without migrations: a check must not change the database.
    database: Database = PostgresDatabase(url, (), warn=lambda _: None)
    try:
        return await _tables(database)
    except DatabaseFailed as error:
        return problem(f"the database cannot be used: {error}", "Check `url` under [store], and that the server runs.")
    finally:
        await database.aclose()


async def _tables(database: Database) -> Finding:
    ((version,),) = await database.fetch("SHOW server_version")
    place = f"{database.title}, PostgreSQL {version}"
    if await database.fetch(_HAS_TABLES) == [(0,)]:
        return ok(f"{place}: empty; the gateway creates its tables when it starts")
    applied, known = await database.versions(), {migration.number for migration in ALL}
    if newer := applied - known:
        text = f"{place}: a newer Tieline has changed the tables ({counted(len(newer), 'migration')} unknown here)"
        return warning(text, "Update this gateway.")
    if missing := known - applied:
        return ok(f"{place}: {counted(len(missing), 'migration')} will be applied when the gateway starts")
    return ok(f"{place}: schema version {max(applied)}")
