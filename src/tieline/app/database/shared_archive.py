"""An archive in a database that several replicas share.

It has the interface and the limits of `core.archive.archive.Archive`, but no index in memory, because other replicas
change the archive too. Documents are written in the background, and can be read at once on the replica that stored
them. While the database cannot be reached, writes wait in memory.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import NamedTuple

from tieline.app.database.engine import Database, DatabaseFailed, DatabaseUnavailable, StatementFailed
from tieline.core.archive.archive import ArchiveLimits
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

MAX_UNWRITTEN = 64 * 1024 * 1024
"""Maximum size, in bytes, of the documents that wait to be written. The oldest are dropped first."""
REMOVE_LIMIT = 5.0
"""Seconds to wait until a document has been removed from the database."""
RETRY = 1.0
"""Seconds between two attempts to write while the database cannot be reached."""
SWEEP_INTERVAL = 60.0
"""Minimum number of seconds between two searches for documents to remove, on each replica that stores documents."""
REMOVED_AT_ONCE = 500
USED_ACCURACY = 3600.0
"""The time of the last use is updated only if it is older than this many seconds."""
MAX_RECENT = 10_000

_GET = "SELECT created, used, data FROM archive WHERE shelf = ? AND owner = ? AND id = ?"
_HAVE = "SELECT id FROM archive WHERE shelf = ? AND owner = ? AND created > ? AND id IN ({})"
_PUT = """
INSERT INTO archive (shelf, owner, id, created, used, size, data) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (shelf, owner, id) DO UPDATE SET
    created = excluded.created, used = excluded.used, size = excluded.size, data = excluded.data
"""
_USE = "UPDATE archive SET used = ? WHERE shelf = ? AND owner = ? AND id = ?"
_REMOVE = "DELETE FROM archive WHERE shelf = ? AND owner = ? AND id = ?"
_EXPIRE = "DELETE FROM archive WHERE shelf = ? AND created <= ?"
_OWNERS = "SELECT owner, sum(size), count(*) FROM archive WHERE shelf = ? GROUP BY owner"
_OLDEST = "SELECT id, size FROM archive WHERE shelf = ? AND owner = ? ORDER BY used, created LIMIT ?"


class _DocumentKey(NamedTuple):
    owner: str
    id: str


class _ArchiveChange(NamedTuple):
    data: bytes | None
    """The content of the document; None to remove it."""
    at: float


class SharedArchive:
    """Stores documents by owner and id. See `Archive` for the methods."""

    def __init__(
        self, database: Database, shelf: str, tasks: Tasks, clock: Callable[[], float], limits: ArchiveLimits
    ) -> None:
        self._database = database
        self._shelf = shelf
        self._tasks = tasks
        self._clock = clock
        self._limits = limits
        self._unwritten: dict[_DocumentKey, _ArchiveChange] = {}
        """Changes not yet written, oldest first."""
        self._unwritten_size = 0
        self._recent: BoundedCache[_DocumentKey, bool] = BoundedCache(MAX_RECENT)
        """The documents that this replica has stored recently."""
        self._writer: asyncio.Task[None] | None = None
        self._swept_at = 0.0

    async def get(self, owner: str, document_id: str) -> bytes | None:
        """Return a document. Raise GatewayError if the database cannot be reached."""
        key = _DocumentKey(owner, document_id)
        if (change := self._unwritten.get(key)) is not None:
            return change.data
        try:
            rows = await self._database.fetch(_GET, (self._shelf, owner, document_id))
        except DatabaseUnavailable:
            raise _unavailable() from None
        except StatementFailed:  # an id that no document can have
            return None
        now = self._clock()
        if not rows or now - rows[0][0] > self._limits.age:
            return None
        if now - rows[0][1] > USED_ACCURACY:
            self._tasks.start(self._use(key, now), "archive")
        return bytes(rows[0][2])

    def touch(self, owner: str, document_id: str) -> bool:
        """Return whether this replica has recently stored a document and not removed it."""
        return self._recent.get(_DocumentKey(owner, document_id)) is not None

    async def holds(self, owner: str, document_ids: Collection[str]) -> bool:
        """Return whether all these documents are stored. Raise GatewayError if the database cannot be reached."""
        changes = {one: self._unwritten.get(_DocumentKey(owner, one)) for one in document_ids}
        if any(change is not None and change.data is None for change in changes.values()):
            return False
        wanted = [one for one, change in changes.items() if change is None]
        if not wanted:
            return True
        statement = _HAVE.format(", ".join("?" * len(wanted)))
        since = self._clock() - self._limits.age
        try:
            rows = await self._database.fetch(statement, (self._shelf, owner, since, *wanted))
        except DatabaseFailed:
            raise _unavailable() from None
        return len(rows) == len(wanted)

    def put(self, owner: str, document_id: str, data: bytes) -> bool:
        """Store a document. Return False if it is too large."""
        if len(data) > self._limits.each:
            return False
        key = _DocumentKey(owner, document_id)
        self._recent.put(key, True)
        self._change(key, data)
        return True

    async def remove(self, owner: str, document_id: str) -> bool:
        """Remove a document. Return False if there is none. Raise GatewayError if the database cannot be reached."""
        found = await self.get(owner, document_id)
        key = _DocumentKey(owner, document_id)
        self._recent.pop(key)
        if found is None:
            return False
        self._change(key, None)
        if self._writer is not None:  # after the response, no replica may return the document
            await asyncio.wait([self._writer], timeout=REMOVE_LIMIT)
        return True

    async def aclose(self) -> None:
        """Write the remaining changes, if the database can be reached."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        try:
            while self._unwritten:
                await self._write_first()
        except DatabaseFailed:
            log.warning("%d documents were not stored: the database cannot be reached", len(self._unwritten))

    def _change(self, key: _DocumentKey, data: bytes | None) -> None:
        self._forget(key)
        self._unwritten[key] = _ArchiveChange(data, self._clock())
        self._unwritten_size += len(data or b"")
        while self._unwritten_size > MAX_UNWRITTEN and len(self._unwritten) > 1:
            oldest = next(iter(self._unwritten))
            log.error("a document was lost: too many documents are waiting to be written to the database")
            self._forget(oldest)
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.start(self._write(), "archive")

    def _forget(self, key: _DocumentKey) -> None:
        change = self._unwritten.pop(key, None)
        if change is not None:
            self._unwritten_size -= len(change.data or b"")

    async def _write(self) -> None:
        while self._unwritten:
            try:
                await self._write_first()
                await self._sweep()
            except DatabaseUnavailable:
                await asyncio.sleep(RETRY)

    async def _write_first(self) -> None:
        key, change = next(iter(self._unwritten.items()))
        data = change.data
        try:
            if data is None:
                await self._database.execute(_REMOVE, (self._shelf, *key))
            else:
                size = len(data) + len(key.owner) + len(key.id)
                await self._database.execute(_PUT, (self._shelf, *key, change.at, change.at, size, data))
        except StatementFailed as error:
            log.warning("a document could not be stored: %s", error)
        if self._unwritten.get(key) is change:  # otherwise it was changed again in the meantime
            self._forget(key)

    async def _use(self, key: _DocumentKey, now: float) -> None:
        try:
            await self._database.execute(_USE, (now, self._shelf, *key))
        except DatabaseFailed:
            log.debug("the time of a document's last use was not stored")

    async def _sweep(self) -> None:
        """Remove expired documents and, if a limit is exceeded, the least recently used of the owner with the most.

        Do this at most every SWEEP_INTERVAL seconds.
        """
        now = self._clock()
        if now - self._swept_at < SWEEP_INTERVAL:
            return
        self._swept_at = now
        await self._database.execute(_EXPIRE, (self._shelf, now - self._limits.age))
        owners = {owner: [size, count] for owner, size, count in await self._database.fetch(_OWNERS, (self._shelf,))}
        for place, limit in ((0, self._limits.total), (1, self._limits.documents)):
            while (excess := sum(held[place] for held in owners.values()) - limit) > 0:
                owner = max(owners, key=lambda one: owners[one][place])
                if not await self._remove_oldest(owner, owners[owner], place, excess):
                    break

    async def _remove_oldest(self, owner: str, held: list[int], place: int, excess: int) -> bool:
        """Remove documents of an owner, least recently used first, until `excess` bytes or documents are removed.

        `held` contains the owner's bytes and documents, and `place` is the index of the one to reduce. Return False if
        the owner has no documents.
        """
        rows = await self._database.fetch(_OLDEST, (self._shelf, owner, REMOVED_AT_ONCE))
        removed: list[tuple[str, str, str]] = []
        for document_id, size in rows:
            if excess <= 0:
                break
            removed.append((self._shelf, owner, document_id))
            held[0] -= size
            held[1] -= 1
            excess -= size if place == 0 else 1
        await self._database.execute_many(_REMOVE, removed)
        return bool(removed)


def _unavailable() -> GatewayError:
    message = "The database of stored responses cannot be reached; try again in a moment."
    return GatewayError("overloaded", message, retry_after=5)
