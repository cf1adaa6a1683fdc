"""Document stores: in a database, or in memory.

A document is a byte string with a key. Documents are grouped into shelves, and a key is unique within its shelf.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tieline.app.database.engine import Database, DatabaseUnavailable, StatementFailed
from tieline.app.database.schema.documents import DOCUMENTS
from tieline.app.database.sqlite import FILE_NAME, SqliteDatabase

log = logging.getLogger("tieline")

T = TypeVar("T")

_READ = "SELECT key, data FROM document WHERE shelf = ? ORDER BY number"
_GET = "SELECT data FROM document WHERE shelf = ? AND key = ?"
_SIZES = "SELECT key, length(data) FROM document WHERE shelf = ? ORDER BY number"
_WRITE = """
INSERT INTO document (shelf, key, data) VALUES (?, ?, ?)
ON CONFLICT (shelf, key) DO UPDATE SET data = excluded.data
"""
_REMOVE = "DELETE FROM document WHERE shelf = ? AND key = ?"
_REMOVE_ALL = "DELETE FROM document WHERE shelf = ?"


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


class DocumentStore:
    """Keeps documents in a database. No method raises: the database logs when it becomes unavailable.

    If `owns_database` is true, closing the store closes the database.
    """

    def __init__(
        self, database: Database, *, owns_database: bool = False, warn: Callable[[str], None] = log.warning
    ) -> None:
        self._database = database
        self._owns_database = owns_database
        self._warn = warn

    async def read(self, shelf: str) -> Mapping[str, bytes]:
        return dict(await self._try(self._database.fetch(_READ, (shelf,)), []))

    async def get(self, shelf: str, key: str) -> bytes | None:
        rows = await self._try(self._database.fetch(_GET, (shelf, key)), [])
        return bytes(rows[0][0]) if rows else None

    async def sizes(self, shelf: str) -> Mapping[str, int]:
        return dict(await self._try(self._database.fetch(_SIZES, (shelf,)), []))

    async def write(self, shelf: str, key: str, data: bytes) -> None:
        await self._try(self._database.execute(_WRITE, (shelf, key, data)), 0)

    async def remove(self, shelf: str, key: str | None = None) -> None:
        statement, parameters = (_REMOVE_ALL, (shelf,)) if key is None else (_REMOVE, (shelf, key))
        await self._try(self._database.execute(statement, parameters), 0)

    async def aclose(self) -> None:
        if self._owns_database:
            await self._database.aclose()

    async def _try(self, work: Awaitable[T], failing: T) -> T:
        """Return the result of `work`, or `failing` if the database could not do it."""
        try:
            return await work
        except DatabaseUnavailable:
            return failing
        except StatementFailed as error:
            self._warn(f"a document could not be read or written: {error}")
            return failing


def open_store(folder: Path | None, *, warn: Callable[[str], None] = log.warning) -> MemoryStore | DocumentStore:
    """Return a store in a file of its own in `folder`, or a store in memory if `folder` is None."""
    if folder is None:
        return MemoryStore()
    database = SqliteDatabase(folder / FILE_NAME, DOCUMENTS, warn=warn)
    return DocumentStore(database, owns_database=True, warn=warn)
