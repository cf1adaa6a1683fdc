"""Document stores: in memory, or in one SQLite file that only its owner can read.

A document is a byte string with a key. Documents are grouped into shelves, and a key is unique within its shelf. One
thread performs all disk operations, in order. The file is created by the first write. A damaged file is renamed, and a
new one is created.
"""

import asyncio
import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tieline.net.private_files import open_private

log = logging.getLogger("tieline")

FILE_NAME = "sessions.sqlite3"
BUSY = 5.0
"""Seconds to wait while another gateway is writing."""

T = TypeVar("T")

_PROGRESS_STEPS = 10_000
"""Number of SQLite virtual machine instructions, about a millisecond's worth, between two looks at the clock."""

_TABLE = """
CREATE TABLE IF NOT EXISTS document (
    number INTEGER PRIMARY KEY,
    shelf TEXT NOT NULL,
    key TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (shelf, key)
)
"""
_READ = "SELECT key, data FROM document WHERE shelf = ? ORDER BY number"
_GET = "SELECT data FROM document WHERE shelf = ? AND key = ?"
_SIZES = "SELECT key, length(data) FROM document WHERE shelf = ? ORDER BY number"
_WRITE = """
INSERT INTO document (shelf, key, data) VALUES (?, ?, ?)
ON CONFLICT (shelf, key) DO UPDATE SET data = excluded.data
"""
_SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA secure_delete = ON")


class MemoryStore:
    """Keeps documents in memory. They are lost when the program ends."""

    def __init__(self) -> None:
        self._shelves: dict[str, dict[str, bytes]] = {}

    async def read(self, shelf: str) -> Mapping[str, bytes]:
        return dict(self._shelves.get(shelf, {}))

    async def get(self, shelf: str, key: str) -> bytes | None:
        return self._shelves.get(shelf, {}).get(key)

    async def sizes(self, shelf: str) -> Mapping[str, int]:
        return {key: len(data) for key, data in self._shelves.get(shelf, {}).items()}

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        self._shelves.setdefault(shelf, {})[key] = data

    async def remove(self, shelf: str, key: str | None = None) -> None:
        if key is None:
            self._shelves.pop(shelf, None)
        else:
            self._shelves.get(shelf, {}).pop(key, None)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


class DiskStore:
    """Keeps documents in an SQLite file. `warn` is called only for the first of several consecutive failures."""

    def __init__(self, folder: Path, *, warn: Callable[[str], None] = log.warning) -> None:
        self.path = folder / FILE_NAME
        self._warn = warn
        self._database: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._is_failing = False

    async def read(self, shelf: str) -> Mapping[str, bytes]:
        def work(database: sqlite3.Connection) -> dict[str, bytes]:
            return dict(database.execute(_READ, (shelf,)).fetchall())

        return await self._do(work, {}, make=False)

    async def get(self, shelf: str, key: str) -> bytes | None:
        def work(database: sqlite3.Connection) -> bytes | None:
            row = database.execute(_GET, (shelf, key)).fetchone()
            return None if row is None else bytes(row[0])

        return await self._do(work, None, make=False)

    async def sizes(self, shelf: str) -> Mapping[str, int]:
        def work(database: sqlite3.Connection) -> dict[str, int]:
            return dict(database.execute(_SIZES, (shelf,)).fetchall())

        return await self._do(work, {}, make=False)

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        def work(database: sqlite3.Connection) -> None:
            database.execute(_WRITE, (shelf, key, data))

        await self._do(work, None)

    async def remove(self, shelf: str, key: str | None = None) -> None:
        def work(database: sqlite3.Connection) -> None:
            if key is None:
                database.execute("DELETE FROM document WHERE shelf = ?", (shelf,))
            else:
                database.execute("DELETE FROM document WHERE shelf = ? AND key = ?", (shelf, key))

        await self._do(work, None, make=False)

    async def aclose(self) -> None:
        if self._thread is None:
            return
        thread, self._thread = self._thread, None
        await asyncio.get_running_loop().run_in_executor(thread, self._close)
        thread.shutdown()

    async def _do(self, work: Callable[[sqlite3.Connection], T], failing: T, *, make: bool = True) -> T:
        """Run `work` in the store's thread and return its result, or return `failing` if the database reports an error.

        Cancelling the caller does not interrupt `work`. If `make` is false and there is no file yet, return `failing`.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "store")
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, self._done, work, failing, make))

    # ── In the thread ────────────────────────────────────────────────────────────────────────────

    def _done(self, work: Callable[[sqlite3.Connection], T], failing: T, make: bool) -> T:
        try:
            if self._database is None:
                if not make and not self.path.exists():
                    return failing
                self._database = self._open()
            try:
                result = work(self._database)
            except sqlite3.DatabaseError as error:
                if not _is_damaged(error):
                    raise
                self._put_aside()
                self._database = self._open()
                result = work(self._database)
        except (OSError, sqlite3.Error) as error:
            if not self._is_failing:
                self._warn(f"could not read or write {self.path}: {error}")
            self._is_failing = True
            return failing
        self._is_failing = False
        return result

    def _open(self) -> sqlite3.Connection:
        os.close(open_private(self.path, os.O_RDWR))
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if not _is_damaged(error):
                raise
            self._put_aside()
            return self._open()

    def _connected(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.path, timeout=BUSY, isolation_level=None)
        try:
            for statement in (*_SETTINGS, _TABLE):
                _execute_when_free(database, statement)
        except sqlite3.Error:
            database.close()
            raise
        return database

    def _put_aside(self) -> None:
        self._close()
        broken = self.path.with_suffix(".broken")
        self._warn(f"{self.path} is damaged; renaming it to {broken.name} and starting an empty one")
        self.path.replace(broken)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def open_store(folder: Path | None) -> MemoryStore | DiskStore:
    """Return a store in a file in `folder`, or a store in memory if `folder` is None."""
    return MemoryStore() if folder is None else DiskStore(folder)


def damage(path: Path, *, limit: float) -> str | None:
    """Return what is wrong with the database file at `path`, or None if it is intact. The file is not changed.

    The check stops after `limit` seconds. What it has not read by then counts as intact.
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


def _execute_when_free(database: sqlite3.Connection, statement: str) -> None:
    """Execute a statement. If the database is busy, retry for up to BUSY seconds.

    SQLite's own timeout does not cover the statements that initialise a file, and two gateways may run them at once.
    """
    until = time.monotonic() + BUSY
    while True:
        try:
            database.execute(statement)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _is_damaged(error: sqlite3.DatabaseError) -> bool:
    """Return whether `error` says that the file is corrupt or not a database.

    SQLite reports other, possibly temporary, failures with subclasses of DatabaseError.
    """
    return type(error) is sqlite3.DatabaseError
