"""Document stores: in a database, or in memory.

A document is a byte string with a key. Documents are grouped into shelves, and a key is unique within its shelf.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from tieline.app.database.engine import Database, DatabaseUnavailable, Row, StatementFailed
from tieline.app.database.schema.documents import DOCUMENTS
from tieline.app.database.sqlite import FILE_NAME, SqliteDatabase
from tieline.app.database.unwritten import DocumentChange, UnwrittenChanges
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

_READ = "SELECT key, data FROM document WHERE shelf = ? ORDER BY number"
_GET = "SELECT data FROM document WHERE shelf = ? AND key = ?"
_SIZES = "SELECT key, length(data) FROM document WHERE shelf = ? ORDER BY number"
_WRITE = """
INSERT INTO document (shelf, key, data) VALUES (?, ?, ?)
ON CONFLICT (shelf, key) DO UPDATE SET data = excluded.data
"""
_REMOVE = "DELETE FROM document WHERE shelf = ? AND key = ?"
_REMOVE_ALL = "DELETE FROM document WHERE shelf = ?"


CHANNEL = "documents"
CLOSE_LIMIT = 20.0
"""Seconds to wait until all documents are written when the store is closed."""


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

    def is_written(self, shelf: str, key: str | None = None) -> bool:  # noqa: ARG002 - nothing waits
        return True

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""


class DocumentStore:
    """Keeps documents in a database. No method raises an exception; failures are logged.

    One task writes to a shared database, because several connections could reorder changes to the same document. While
    such a database is not available, changes are kept in memory. After each change in an `announced` shelf, the key is
    sent to the channel with the name of the shelf. If `owns_database` is true, closing the store closes the database.
    """

    def __init__(
        self,
        database: Database,
        *,
        announced: Collection[str] = (),
        owns_database: bool = False,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        self._database = database
        self._announced = frozenset(announced)
        self._owns_database = owns_database
        self._warn = warn
        self._unwritten = UnwrittenChanges()
        self._waiting: dict[DocumentChange, asyncio.Future[None]] = {}
        """Futures that are completed when the change has been written, or the database is found to be unavailable."""
        self._tasks = Tasks()
        self._writer: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] | None = None

    async def read(self, shelf: str) -> Mapping[str, bytes]:
        rows = await self._rows(_READ, (shelf,))
        return self._unwritten.apply(shelf, dict(rows), bytes)

    async def get(self, shelf: str, key: str) -> bytes | None:
        is_changed, data = self._unwritten.get(shelf, key)
        if is_changed:
            return data
        rows = await self._rows(_GET, (shelf, key))
        return bytes(rows[0][0]) if rows else None

    async def sizes(self, shelf: str) -> Mapping[str, int]:
        rows = await self._rows(_SIZES, (shelf,))
        return self._unwritten.apply(shelf, dict(rows), len)

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        await self._change(DocumentChange(shelf, key), data)

    async def remove(self, shelf: str, key: str | None = None) -> None:
        await self._change(DocumentChange(shelf, key), None)

    def is_written(self, shelf: str, key: str | None = None) -> bool:
        return not self._unwritten.concerns(shelf, key)

    async def aclose(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=CLOSE_LIMIT)
        await self._tasks.aclose()
        if self._unwritten:
            self._warn(
                f"{len(self._unwritten)} changes to documents are lost: {self._database.title} did not store them"
            )
        if self._owns_database:
            await self._database.aclose()

    async def _change(self, change: DocumentChange, data: bytes | None) -> None:
        if not self._database.is_shared:
            with contextlib.suppress(DatabaseUnavailable):
                await self._write_one(change, data)
            return
        if not self._unwritten.put(change, data):
            self._warn(f"{self._database.title} is too slow or not available: a change to a document is lost")
            return
        if self._stop_listening is None:
            self._stop_listening = self._database.listen(CHANNEL, self._on_message)
        waiting = self._waiting.get(change)
        if waiting is None:
            waiting = self._waiting[change] = asyncio.get_running_loop().create_future()
        self._start_writing()
        await asyncio.shield(waiting)

    def _on_message(self, payload: str) -> None:
        if payload == "":  # connected again
            self._start_writing()

    def _start_writing(self) -> None:
        if self._unwritten and (self._writer is None or self._writer.done()):
            self._writer = self._tasks.start(self._write_all(), "documents")

    async def _write_all(self) -> None:
        """Write all changes in order. Stop if the database is not available."""
        try:
            while self._unwritten:
                change, data = self._unwritten.first()
                await self._write_one(change, data)
                if self._unwritten.written(change, data):
                    self._release(change)
        except DatabaseUnavailable:
            pass
        finally:
            for change in list(self._waiting):
                self._release(change)

    def _release(self, change: DocumentChange) -> None:
        waiting = self._waiting.pop(change, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def _write_one(self, change: DocumentChange, data: bytes | None) -> None:
        shelf, key = change
        if key is None:
            work = self._database.execute(_REMOVE_ALL, (shelf,))
        elif data is None:
            work = self._database.execute(_REMOVE, (shelf, key))
        else:
            work = self._database.execute(_WRITE, (shelf, key, data))
        try:
            await work
            if shelf in self._announced:
                await self._database.notify(shelf, key or "")
        except StatementFailed as error:
            self._warn(f"a document could not be written: {error}")

    async def _rows(self, statement: str, parameters: Sequence[str]) -> list[Row]:
        """Return the rows of a query, or an empty list if the query fails."""
        try:
            return await self._database.fetch(statement, parameters)
        except DatabaseUnavailable:
            return []
        except StatementFailed as error:
            self._warn(f"a document could not be read: {error}")
            return []


def open_store(folder: Path | None, *, warn: Callable[[str], None] = log.warning) -> MemoryStore | DocumentStore:
    """Return a store with its own SQLite file in `folder`, or a store in memory if `folder` is None."""
    if folder is None:
        return MemoryStore()
    database = SqliteDatabase(folder / FILE_NAME, DOCUMENTS, warn=warn)
    return DocumentStore(database, owns_database=True, warn=warn)
