"""The SQLite engine: one file that only its owner can read, or a database in memory.

One thread performs all operations, in order. The file is created by the first statement that adds something. A damaged
file is renamed, and a new one is created.
"""

import asyncio
import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tieline.app.database.engine import DatabaseUnavailable, Row, Statement, StatementFailed
from tieline.app.database.migrations import (
    ADD_VERSION,
    READ_VERSIONS,
    SQLITE_TYPES,
    VERSION_TABLE,
    Migration,
    missing,
    with_types,
)
from tieline.app.database.schema import ALL
from tieline.net.private_files import open_private

log = logging.getLogger("tieline")

FILE_NAME = "sessions.sqlite3"
BUSY = 5.0
"""Seconds to wait while another gateway is writing."""
STATEMENT_LIMIT = 10.0
"""Seconds after which an operation is interrupted."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_PROGRESS_STEPS = 10_000
"""Number of SQLite virtual machine instructions, about one millisecond, between two checks of the time limit."""

_SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA secure_delete = ON")
_HAS_VERSIONS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'"
_ADDING_NOTHING = ("SELECT", "DELETE", "UPDATE")
"""Statements that have no effect on an empty database."""
_TEMPORARY = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
"""Errors of the disk or of another process, not of the statement."""
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class SqliteDatabase:
    """A database in the file at `path`, or in memory if `path` is None.

    `warn` is called when the file is damaged, and for the first of several consecutive failures.
    """

    is_shared = False

    def __init__(
        self,
        path: Path | None,
        migrations: Sequence[Migration] = ALL,
        *,
        warn: Callable[[str], None] = log.warning,
        limit: float = STATEMENT_LIMIT,
    ) -> None:
        self.path = path
        self.title = "memory" if path is None else str(path)
        self.is_available = True
        self._migrations = migrations
        self._warn = warn
        self._limit = limit
        self._database: sqlite3.Connection | None = None
        self._empty: sqlite3.Connection | None = None
        """A stand-in for the file as long as there is none."""
        self._thread: ThreadPoolExecutor | None = None

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        def work(database: sqlite3.Connection) -> list[Row]:
            return database.execute(statement, parameters).fetchall()

        return await self._do(work, adds=_adds(statement))

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        def work(database: sqlite3.Connection) -> int:
            return database.execute(statement, parameters).rowcount

        return await self._do(work, adds=_adds(statement))

    async def run(self, statements: Sequence[Statement]) -> None:
        def work(database: sqlite3.Connection) -> None:
            with _transaction(database):
                for statement, parameters in statements:
                    database.execute(statement, parameters)

        await self._do(work, adds=any(_adds(statement) for statement, _ in statements))

    async def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        def work(database: sqlite3.Connection) -> None:
            with _transaction(database):
                database.executemany(statement, rows)

        await self._do(work, adds=_adds(statement))

    async def notify(self, channel: str, payload: str = "") -> None:
        """Do nothing: there are no listeners in other processes."""

    def listen(self, channel: str, callback: Callable[[str], object]) -> Callable[[], None]:  # noqa: ARG002 - part of the interface
        return lambda: None

    async def versions(self) -> frozenset[int]:
        return frozenset(number for (number,) in await self.fetch(READ_VERSIONS))

    async def aclose(self) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        await asyncio.get_running_loop().run_in_executor(thread, self._close)
        thread.shutdown()

    async def _do(self, work: Work[T], *, adds: bool) -> T:
        """Run `work` in the database's thread. If it `adds` nothing, a missing file is not created."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "database")
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, self._done, work, adds))

    # ── In the thread ────────────────────────────────────────────────────────────────────────────

    def _done(self, work: Work[T], adds: bool) -> T:
        try:
            result = self._attempt(work, adds)
        except (OSError, sqlite3.Error, ValueError, OverflowError) as error:
            if not _is_temporary(error):
                raise StatementFailed(f"{self.title}: {error}") from error
            text = f"could not read or write {self.title}: {error}"
            if self.is_available:
                self._warn(text)
            self.is_available = False
            raise DatabaseUnavailable(text) from error
        self.is_available = True
        return result

    def _attempt(self, work: Work[T], adds: bool) -> T:
        if self._database is None and not adds and self.path is not None and not self.path.exists():
            return work(self._stand_in())
        if self._database is None:
            self._database = self._open()
        try:
            return self._limited(self._database, work)
        except sqlite3.DatabaseError as error:
            if not _is_damaged(error) or self.path is None:
                raise
            self._put_aside(self.path)
            self._database = self._open()
            return self._limited(self._database, work)

    def _limited(self, database: sqlite3.Connection, work: Work[T]) -> T:
        until = time.monotonic() + self._limit
        database.set_progress_handler(lambda: time.monotonic() > until, _PROGRESS_STEPS)
        return work(database)

    def _stand_in(self) -> sqlite3.Connection:
        if self._empty is None:
            self._empty = self._connected(":memory:")
        return self._empty

    def _open(self) -> sqlite3.Connection:
        if self.path is None:
            return self._connected(":memory:")
        os.close(open_private(self.path, os.O_RDWR))
        try:
            return self._connected(self.path)
        except sqlite3.DatabaseError as error:
            if not _is_damaged(error):
                raise
            self._put_aside(self.path)
            return self._open()

    def _connected(self, path: Path | str) -> sqlite3.Connection:
        # The thread may change when the database is closed and used again.
        database = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        try:
            for statement in _SETTINGS:
                _when_free(partial(database.execute, statement))
            _when_free(partial(_migrate, database, self._migrations))
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _put_aside(self, path: Path) -> None:
        self._close()
        broken = path.with_suffix(".broken")
        self._warn(f"{path} is damaged; renaming it to {broken.name} and creating an empty one")
        path.replace(broken)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    def _close(self) -> None:
        for database in (self._database, self._empty):
            if database is not None:
                database.close()
        self._database = self._empty = None


def damage(path: Path, *, limit: float) -> str | None:
    """Return what is wrong with the database file at `path`, or None if it is intact. The file is not changed.

    The check stops after `limit` seconds. The part that it has not read by then counts as intact.
    """
    until = time.monotonic() + limit
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=limit)
    ) as database:
        database.set_progress_handler(lambda: time.monotonic() > until, _PROGRESS_STEPS)
        try:
            (result,) = database.execute("PRAGMA quick_check(1)").fetchone()
            database.execute("SELECT count(*) FROM document WHERE shelf = ''").fetchone()
        except sqlite3.DatabaseError as error:
            return None if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_INTERRUPT else str(error)
    return None if result == "ok" else str(result)


def _migrate(database: sqlite3.Connection, migrations: Sequence[Migration]) -> None:
    """Apply the missing migrations. The write lock keeps other processes from doing the same at the same time."""
    if not missing(migrations, _versions(database), is_shared=False):
        return
    with _transaction(database):
        database.execute(with_types(VERSION_TABLE, SQLITE_TYPES))
        for migration in missing(migrations, _versions(database), is_shared=False):
            for statement in migration.statements:
                database.execute(with_types(statement, SQLITE_TYPES))
            database.execute(ADD_VERSION, (migration.number,))


def _versions(database: sqlite3.Connection) -> frozenset[int]:
    if database.execute(_HAS_VERSIONS).fetchone() is None:
        return frozenset()
    return frozenset(number for (number,) in database.execute(READ_VERSIONS))


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _when_free(work: Callable[[], object]) -> None:
    """Run `work`. If the database is busy, retry for up to BUSY seconds.

    SQLite's own timeout does not cover the statements that initialise a file, and two gateways may run them at once.
    """
    until = time.monotonic() + BUSY
    while True:
        try:
            work()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _adds(statement: str) -> bool:
    return not statement.lstrip().upper().startswith(_ADDING_NOTHING)


def _is_damaged(error: sqlite3.DatabaseError) -> bool:
    """Return whether `error` says that the file is corrupt or not a database.

    SQLite reports other, possibly temporary, failures with subclasses of DatabaseError.
    """
    return type(error) is sqlite3.DatabaseError


def _is_temporary(error: Exception) -> bool:
    """Return whether the disk or another process is the cause of `error`, and not the statement."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        return code is not None and (code & 0xFF in _TEMPORARY or code & 0xFF in _DAMAGED)
    return isinstance(error, OSError)
