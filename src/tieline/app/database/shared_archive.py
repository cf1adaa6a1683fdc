"""An archive in a database that several replicas share.

It has the interface and the limits of `core.archive.archive.Archive`, but no index in memory, because other replicas
change the archive too. Documents are written in the background, and can be read at once on the replica that stored
them. While the database cannot be reached, changes wait in memory.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from tieline.app.database.engine import Database, DatabaseFailed, DatabaseUnavailable, StatementFailed
from tieline.core.archive.archive import ArchiveLimits
from tieline.model.bounded_cache import BoundedCache
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

MAX_UNWRITTEN = 64 * 1024 * 1024
"""Maximum size, in bytes, of the documents that wait to be written. The oldest are dropped first."""
MAX_REMOVALS = 10_000
"""Maximum number of removals that wait for the database. Further ones are refused."""
REMOVE_LIMIT = 5.0
"""Seconds to wait until a document has been removed from the database."""
RETRY = 1.0
"""Seconds between two attempts to write while the database cannot be reached."""
SWEEP_INTERVAL = 60.0
"""Seconds between two searches for documents to remove, on each replica."""
USED_ACCURACY = 3600.0
"""The time of the last use is updated only if it is older than this many seconds."""
MAX_RECENT = 10_000

_GET = "SELECT created, used, data FROM archive WHERE shelf = ? AND owner = ? AND id = ?"
_HAVE = "SELECT id, used FROM archive WHERE shelf = ? AND owner = ? AND created > ? AND id IN ({})"
_PUT = """
INSERT INTO archive (shelf, owner, id, created, used, size, data) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (shelf, owner, id) DO UPDATE SET
    created = excluded.created, used = excluded.used, size = excluded.size, data = excluded.data
"""
_USE = "UPDATE archive SET used = ? WHERE shelf = ? AND owner = ? AND id = ?"
_REMOVE = "DELETE FROM archive WHERE shelf = ? AND owner = ? AND id = ?"
_EXPIRE = "DELETE FROM archive WHERE shelf = ? AND created <= ?"
_OWNERS = "SELECT owner, sum(size), count(*) FROM archive WHERE shelf = ? GROUP BY owner"
# For each document, the inner query adds up the sizes of this document and of those that its owner has used since.
# Documents are kept in the order of these sums, so the first ones to be removed are the least recently used of the
# owner who has stored the most.
_REMOVE_SURPLUS = """
DELETE FROM archive WHERE (shelf, owner, id) IN (
    SELECT shelf, owner, id FROM (
        SELECT shelf, owner, id,
            sum(size) OVER (ORDER BY owner_size, owner, owner_count) AS total_size,
            row_number() OVER (ORDER BY owner_count, owner) AS total_count
        FROM (
            SELECT shelf, owner, id, size,
                sum(size) OVER (PARTITION BY owner ORDER BY used DESC, created DESC, id) AS owner_size,
                row_number() OVER (PARTITION BY owner ORDER BY used DESC, created DESC, id) AS owner_count
            FROM archive WHERE shelf = ?
        ) AS of_owner
    ) AS of_all
    WHERE total_size > ? OR total_count > ?
)
"""


class _DocumentKey(NamedTuple):
    owner: str
    id: str


class _NewDocument(NamedTuple):
    data: bytes
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
        self._unwritten: dict[_DocumentKey, _NewDocument] = {}
        """Documents not yet written, oldest first."""
        self._unwritten_size = 0
        self._removals: dict[_DocumentKey, asyncio.Future[bool]] = {}
        """Documents not yet removed from the database; the result is whether it removed them. A document that is stored
        again after its removal is also in `_unwritten`, so removals come first."""
        self._recent: BoundedCache[_DocumentKey, float] = BoundedCache(MAX_RECENT)
        """When this replica stored its most recent documents."""
        self._writer: asyncio.Task[None] | None = None
        self._held: dict[str, int] = {}
        """The size of each owner's documents at the last sweep."""

    def start(self, interval: float = SWEEP_INTERVAL) -> None:
        """Call `sweep` now and every `interval` seconds."""
        self._tasks.start(self._sweep_regularly(interval), "old documents")

    async def get(self, owner: str, document_id: str) -> bytes | None:
        """Return a document; None if there is none, or if it has expired.

        Raise GatewayError if the database cannot be reached.
        """
        key = _DocumentKey(owner, document_id)
        if (document := self._unwritten.get(key)) is not None:
            return document.data
        if key in self._removals:
            return None
        try:
            rows = await self._database.fetch(_GET, (self._shelf, owner, document_id))
        except DatabaseUnavailable:
            raise _unavailable() from None
        except StatementFailed:  # an id that no document can have
            return None
        now = self._clock()
        if not rows or now - rows[0][0] > self._limits.age:
            return None
        self._mark_used(owner, {document_id: rows[0][1]})
        return bytes(rows[0][2])

    def touch(self, owner: str, document_id: str) -> bool:
        """Return whether this replica has stored a document recently and not removed it.

        Such a document needs no mark, because the time of its last use is accurate enough.
        """
        stored_at = self._recent.get(_DocumentKey(owner, document_id))
        return stored_at is not None and self._clock() - stored_at <= USED_ACCURACY

    async def holds(self, owner: str, document_ids: Collection[str]) -> bool:
        """Return whether all these documents are stored. Mark them as used.

        Raise GatewayError if the database cannot be reached.
        """
        wanted = [one for one in set(document_ids) if _DocumentKey(owner, one) not in self._unwritten]
        if any(_DocumentKey(owner, one) in self._removals for one in wanted):
            return False
        if not wanted:
            return True
        statement = _HAVE.format(", ".join("?" * len(wanted)))
        since = self._clock() - self._limits.age
        try:
            rows = await self._database.fetch(statement, (self._shelf, owner, since, *wanted))
        except DatabaseFailed:
            raise _unavailable() from None
        self._mark_used(owner, dict(rows))
        return len(rows) == len(wanted)

    def put(self, owner: str, document_id: str, data: bytes) -> bool:
        """Store a document. Return False if it is too large.

        As in `Archive.put`, a document is also too large if, in an archive that was full at the last sweep, it leaves
        another owner less space than the document itself takes. The next sweep might remove it, together with all older
        documents of its owner.
        """
        key = _DocumentKey(owner, document_id)
        if len(data) > self._limits.each or not self._has_room(owner, _size(key, data)):
            return False
        now = self._clock()
        self._recent.put(key, now)
        self._forget(key)
        self._unwritten[key] = _NewDocument(data, now)
        self._unwritten_size += len(data)
        while self._unwritten_size > MAX_UNWRITTEN and len(self._unwritten) > 1:
            log.error("a document was lost: too many documents are waiting to be written to the database")
            oldest = next(iter(self._unwritten))
            self._forget(oldest)
            self._recent.pop(oldest)
        self._start_writing()
        return True

    async def remove(self, owner: str, document_id: str) -> bool:
        """Remove a document. Return False if there is none.

        Raise GatewayError if the database does not confirm the removal in time. The document may then be removed later.
        """
        key = _DocumentKey(owner, document_id)
        removal = None if key in self._unwritten else self._removals.get(key)
        if removal is None:
            found = await self.get(owner, document_id)
            self._recent.pop(key)
            if found is None:
                return False
            removal = self._begin_removal(key)
        await asyncio.wait([removal], timeout=REMOVE_LIMIT)
        # A removal that waits in memory is lost if this process ends before the database can be reached.
        if not removal.done() or not removal.result():
            raise _unconfirmed()
        return True

    async def sweep(self) -> None:
        """Remove expired documents and, if a limit is exceeded, the least recently used of the owner with the most.

        Raise DatabaseFailed if that fails.
        """
        await self._database.execute(_EXPIRE, (self._shelf, self._clock() - self._limits.age))
        total, documents = self._limits.total, self._limits.documents
        if await self._count() > documents or sum(self._held.values()) > total:
            await self._database.execute(_REMOVE_SURPLUS, (self._shelf, total, documents))
            await self._count()

    async def aclose(self) -> None:
        """Write the remaining changes, if the database can be reached."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])
        try:
            while self._removals or self._unwritten:
                await self._write_first()
        except DatabaseFailed:
            count = len(self._removals) + len(self._unwritten)
            log.warning("%d changes to documents were not stored: the database cannot be reached", count)

    def _begin_removal(self, key: _DocumentKey) -> asyncio.Future[bool]:
        removal = self._removals.get(key)
        if removal is None:
            if len(self._removals) >= MAX_REMOVALS:
                raise _unconfirmed()
            removal = self._removals[key] = asyncio.get_running_loop().create_future()
        self._forget(key)
        self._start_writing()
        return removal

    def _forget(self, key: _DocumentKey) -> None:
        document = self._unwritten.pop(key, None)
        if document is not None:
            self._unwritten_size -= len(document.data)

    def _start_writing(self) -> None:
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.start(self._write(), "archive")

    async def _write(self) -> None:
        while self._removals or self._unwritten:
            try:
                await self._write_first()
            except DatabaseUnavailable:
                await asyncio.sleep(RETRY)

    async def _write_first(self) -> None:
        if self._removals:
            await self._remove_first()
            return
        key, document = next(iter(self._unwritten.items()))
        at, data = document.at, document.data
        try:
            await self._database.execute(_PUT, (self._shelf, *key, at, at, _size(key, data), data))
        except StatementFailed as error:
            log.warning("a document could not be stored: %s", error)
        if self._unwritten.get(key) is document:  # otherwise it was changed again in the meantime
            self._forget(key)

    async def _remove_first(self) -> None:
        key = next(iter(self._removals))
        is_removed = True
        try:
            await self._database.execute(_REMOVE, (self._shelf, *key))
        except StatementFailed as error:
            is_removed = False
            log.warning("a document could not be removed: %s", error)
        removal = self._removals.pop(key)
        if not removal.done():
            removal.set_result(is_removed)

    def _mark_used(self, owner: str, used: Mapping[str, float]) -> None:
        """Mark documents of an owner as used. `used` has their ids, and when they were last used."""
        now = self._clock()
        outdated = sorted(document_id for document_id, at in used.items() if now - at > USED_ACCURACY)
        if outdated:
            self._tasks.start(self._use(owner, outdated, now), "archive")

    async def _use(self, owner: str, document_ids: Sequence[str], now: float) -> None:
        rows = [(now, self._shelf, owner, document_id) for document_id in document_ids]
        try:
            await self._database.execute_many(_USE, rows)
        except DatabaseFailed as error:
            log.debug("could not store when a document was last used: %s", error)

    async def _sweep_regularly(self, interval: float) -> None:
        while True:
            try:
                await self.sweep()
            except DatabaseUnavailable:
                pass  # the database logs the outage
            except StatementFailed as error:
                log.warning("old documents could not be removed: %s", error)
            await asyncio.sleep(interval)

    def _has_room(self, owner: str, size: int) -> bool:
        others = sum(min(held, size) for other, held in self._held.items() if other != owner)
        return size + others <= self._limits.total

    async def _count(self) -> int:
        """Update the size of each owner's documents. Return the number of all documents."""
        rows = await self._database.fetch(_OWNERS, (self._shelf,))
        self._held = {owner: size for owner, size, _ in rows}
        return sum(count for _, _, count in rows)


def _size(key: _DocumentKey, data: bytes) -> int:
    """Return the size of a document and its name. An archive of small documents may consist mostly of names."""
    return len(data) + len(key.owner) + len(key.id)


def _unavailable() -> GatewayError:
    message = "The database of stored responses cannot be reached; try again in a moment."
    return GatewayError("overloaded", message, retry_after=5)


def _unconfirmed() -> GatewayError:
    message = "The database has not confirmed that the document was removed; try again in a moment."
    return GatewayError("overloaded", message, retry_after=5)
