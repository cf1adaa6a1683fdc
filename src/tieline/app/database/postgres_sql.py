"""The differences between PostgreSQL and SQLite: placeholders, numbers, errors, and how migrations are applied."""

import re
from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection, DataError, Error, OperationalError
from psycopg.adapt import Buffer, Loader
from psycopg.conninfo import conninfo_to_dict

from tieline.app.database.engine import DatabaseFailed, DatabaseUnavailable, Row, StatementFailed
from tieline.app.database.migrations import (
    ADD_VERSION,
    POSTGRES_TYPES,
    READ_VERSIONS,
    VERSION_TABLE,
    Migration,
    missing,
    with_types,
)

Connection = AsyncConnection[Row]

MIGRATION_LIMIT = 60
"""Seconds that all migrations together may take, including the wait for another replica that is migrating."""
_MIGRATION_LOCK = 0x7469656C
"""The key of the advisory lock that replicas hold while they migrate."""

_TOKENS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\?|%""")
_TEMPORARY = ("08", "40", "53", "55", "57", "58", "25006")
"""Prefixes of SQLSTATE codes for lost connections, deadlocks, lack of resources, locks, timeouts and shutdowns.

25006 is a write to a read-only server: after a failover, the address may still refer to the old primary.
"""
_LOST = ("08", "57P", "25006")
"""Prefixes of SQLSTATE codes after which the gateway has to connect again."""


def placeholders(statement: str) -> str:
    """Return a statement with `%s` instead of `?`."""

    def replaced(found: re.Match[str]) -> str:
        return "%s" if found[0] == "?" else found[0].replace("%", "%%")

    return _TOKENS.sub(replaced, statement)


def values(parameters: Sequence[Any]) -> list[Any]:
    """Return parameters with 0 and 1 instead of False and True, which PostgreSQL does not accept for integers."""
    return [int(value) if isinstance(value, bool) else value for value in parameters]


class NumericLoader(Loader):
    """Loads `numeric`, the type of a sum of integers, as an int if it has no decimal places, and as a float if it has.

    SQLite returns the same types.
    """

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.lstrip(b"-").isdigit() else float(text)


class Address:
    """The address of a database, parsed from a URL. `title` is the URL without the password and the parameters."""

    def __init__(self, url: str) -> None:
        """Raise ValueError if the URL is not valid. The message does not contain the URL."""
        try:
            self.parameters: dict[str, Any] = dict(conninfo_to_dict(url))
        except Error:
            raise ValueError("not a valid PostgreSQL URL: expected postgresql://user@host/database") from None
        found = self.parameters
        host, port = found.get("host", "localhost"), found.get("port")
        user = f"{found['user']}@" if "user" in found else ""
        self.title = f"postgresql://{user}{host}{f':{port}' if port else ''}/{found.get('dbname', '')}"
        self._password = str(found.get("password") or "")

    def describe(self, error: BaseException) -> str:
        """Return the first line of an error message, without the password."""
        primary = error.diag.message_primary if isinstance(error, Error) else None
        text = (primary or str(error).strip() or type(error).__name__).splitlines()[0]
        return text.replace(self._password, "***") if self._password else text

    def failure(self, error: BaseException) -> DatabaseFailed:
        """Return the exception to raise for an error of psycopg or of the system."""
        text = f"{self.title}: {self.describe(error)}"
        if isinstance(error, DataError | ValueError | OverflowError):
            return StatementFailed(text)
        if isinstance(error, Error) and error.sqlstate is not None:
            return DatabaseUnavailable(text) if error.sqlstate.startswith(_TEMPORARY) else StatementFailed(text)
        if isinstance(error, OperationalError | OSError):
            return DatabaseUnavailable(text)
        return StatementFailed(text)


def is_lost(error: BaseException, connection: Connection) -> bool:
    """Return whether `connection` cannot be used any more after an error."""
    if isinstance(error, Error) and error.sqlstate is not None and error.sqlstate != "57014":
        return error.sqlstate.startswith(_LOST)
    return connection.closed


async def migrate(connection: Connection, migrations: Sequence[Migration]) -> None:
    """Apply the missing migrations in one transaction. A lock keeps other replicas from doing the same."""
    if not missing(migrations, await versions(connection), is_shared=True):
        return
    async with connection.transaction():
        await connection.execute(f"SET LOCAL statement_timeout = {MIGRATION_LIMIT * 1000}")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        await connection.execute(with_types(VERSION_TABLE, POSTGRES_TYPES).encode())
        for migration in missing(migrations, await versions(connection), is_shared=True):
            for statement in migration.statements:
                await connection.execute(with_types(statement, POSTGRES_TYPES).encode())
            await connection.execute(placeholders(ADD_VERSION).encode(), (migration.number,))


async def versions(connection: Connection) -> frozenset[int]:
    """Return the numbers of the applied migrations."""
    found = await (await connection.execute("SELECT to_regclass('schema_version')")).fetchone()
    if found is None or found[0] is None:
        return frozenset()
    return frozenset(number for (number,) in await (await connection.execute(READ_VERSIONS)).fetchall())
