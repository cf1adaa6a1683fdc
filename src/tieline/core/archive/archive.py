"""A bounded, persistent collection of documents, each private to its owner.

Documents are written to the store in the background. They can be read at once, even before they have been written.
When the archive is full, the least recently used documents of the owner who has stored the most are removed, so that no
owner can displace the documents of all others.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator
from typing import NamedTuple

from tieline.model.ports import Store
from tieline.tasks import Tasks

MIB = 1024 * 1024
DAY = 24 * 3600.0
SWEEP_INTERVAL = 3600.0
"""Seconds between two searches for expired documents."""


class ArchiveLimits(NamedTuple):
    """The limits of an archive: total bytes, bytes per document, seconds until a document expires, number of documents.

    The number of documents is limited because the index of all documents is kept in memory.
    """

    total: int = 256 * MIB
    each: int = 32 * MIB
    age: float = 30 * DAY
    documents: int = 50_000


class _Entry(NamedTuple):
    created: float
    size: int
    """The size in bytes of the document and its name. An archive of small documents may consist mostly of names."""


class _Key(NamedTuple):
    owner: str
    id: str


class _Owned:
    """The documents of one owner."""

    __slots__ = ("entries", "size")

    def __init__(self) -> None:
        self.entries: OrderedDict[str, _Entry] = OrderedDict()
        """The documents by id, the least recently used first."""
        self.size = 0


class _Index:
    """The known documents of all owners, with their number and their total size."""

    def __init__(self) -> None:
        self._owners: dict[str, _Owned] = {}
        """The documents by owner. Owners without documents are removed."""
        self.count = 0
        self.size = 0

    def __iter__(self) -> Iterator[tuple[_Key, _Entry]]:
        for owner, owned in self._owners.items():
            for document_id, entry in owned.entries.items():
                yield _Key(owner, document_id), entry

    def get(self, key: _Key) -> _Entry | None:
        owned = self._owners.get(key.owner)
        return None if owned is None else owned.entries.get(key.id)

    def add(self, key: _Key, entry: _Entry) -> None:
        """Add a document that is not in the index."""
        owned = self._owners.setdefault(key.owner, _Owned())
        owned.entries[key.id] = entry
        owned.size += entry.size
        self.size += entry.size
        self.count += 1

    def pop(self, key: _Key) -> _Entry:
        """Remove a document and return its entry."""
        owned = self._owners[key.owner]
        entry = owned.entries.pop(key.id)
        owned.size -= entry.size
        self.size -= entry.size
        self.count -= 1
        if not owned.entries:
            del self._owners[key.owner]
        return entry

    def mark_used(self, key: _Key) -> None:
        self._owners[key.owner].entries.move_to_end(key.id)

    def first_of_largest(self) -> _Key:
        """Return the least recently used document of the owner whose documents have the largest total size."""
        return self._first_of(max(self._owners, key=lambda owner: self._owners[owner].size))

    def first_of_most(self) -> _Key:
        """Return the least recently used document of the owner who has the most documents."""
        return self._first_of(max(self._owners, key=lambda owner: len(self._owners[owner].entries)))

    def has_room(self, owner: str, size: int, total: int) -> bool:
        """Return whether `size` more bytes fit into `total` bytes if every other owner may keep up to `size` bytes."""
        if self.size + size <= total:
            return True
        others = (owned.size for other, owned in self._owners.items() if other != owner)
        return size + sum(min(held, size) for held in others) <= total

    def _first_of(self, owner: str) -> _Key:
        return _Key(owner, next(iter(self._owners[owner].entries)))


class Archive:
    """Stores documents by owner and id. `open_store` returns the store. It may open it at the first call."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        shelf: str,
        tasks: Tasks,
        clock: Callable[[], float],
        limits: ArchiveLimits | None = None,
    ) -> None:
        self._open_store = open_store
        self._shelf = shelf
        self._tasks = tasks
        self._clock = clock
        self._limits = limits or ArchiveLimits()
        self._index = _Index()
        """The known documents. `_list` adds those that earlier processes stored."""
        self._is_listed = False
        self._unwritten: dict[str, bytes | None] = {}
        """Changes not yet written to the store, by the name of the document: its content, or None to remove it."""
        self._writer: asyncio.Task[None] | None = None
        self._swept_at = 0.0

    async def get(self, owner: str, document_id: str) -> bytes | None:
        """Return a document; None if there is no document with this id and owner, or if it has expired."""
        await self._list()
        key = _Key(owner, document_id)
        entry = self._index.get(key)
        if entry is None:
            return None
        if self._is_expired(entry):
            self._drop(key)
            return None
        self._index.mark_used(key)
        name = _name(key, entry.created)
        data = self._unwritten.get(name)
        return data if data is not None else await (await self._open_store()).get(self._shelf, name)

    def touch(self, owner: str, document_id: str) -> bool:
        """Mark a document as used. Return False if `get` would not return it.

        Documents stored by earlier processes are found only after the first call to `get`, `holds` or `remove`.
        """
        key = _Key(owner, document_id)
        entry = self._index.get(key)
        if entry is None or self._is_expired(entry):
            return False
        self._index.mark_used(key)
        return True

    async def holds(self, owner: str, document_ids: Collection[str]) -> bool:
        """Return whether `get` would return all these documents. Mark those that it would return as used."""
        await self._list()
        return [self.touch(owner, document_id) for document_id in document_ids].count(False) == 0

    def put(self, owner: str, document_id: str, data: bytes) -> bool:
        """Store a document, replacing any earlier one with this id. Return False if it is too large.

        In a full archive, a document is also too large if it leaves another owner less space than the document itself
        takes.
        """
        key = _Key(owner, document_id)
        if len(data) > self._limits.each:
            return False
        created = self._clock()
        name = _name(key, created)
        entry = _Entry(created, len(name) + len(data))
        if not self._index.has_room(owner, entry.size, self._limits.total):
            return False
        self._add(key, entry)
        self._change(name, data)
        self._make_room()
        return True

    async def remove(self, owner: str, document_id: str) -> bool:
        """Remove a document. Return False if there is none with this id and owner, or if it had expired."""
        await self._list()
        key = _Key(owner, document_id)
        entry = self._index.get(key)
        if entry is None:
            return False
        self._drop(key)
        return not self._is_expired(entry)

    async def aclose(self) -> None:
        """Wait until all changes have been written to the store."""
        if self._writer is not None:
            await asyncio.wait([self._writer])
        await self._write()

    async def _list(self) -> None:
        """Add the documents stored by earlier processes to the index. Later calls have no effect."""
        if self._is_listed:
            return
        sizes = await (await self._open_store()).sizes(self._shelf)
        if self._is_listed:  # by another task in the meantime
            return
        self._is_listed = True
        newer, self._index = self._index, _Index()
        for name, size in sizes.items():
            key, entry = _parsed(name, size)
            if entry is None:
                self._change(name, None)
            elif newer.get(key) is None:
                self._add(key, entry)
        for key, entry in newer:
            self._add(key, entry)
        self._make_room()

    def _add(self, key: _Key, entry: _Entry) -> None:
        if self._index.get(key) is not None:
            self._drop(key)
        self._index.add(key, entry)

    def _make_room(self) -> None:
        """Remove documents until the limits are met. From time to time, remove expired ones."""
        now = self._clock()
        if now - self._swept_at >= SWEEP_INTERVAL:
            self._swept_at = now
            for key in [key for key, entry in self._index if self._is_expired(entry)]:
                self._drop(key)
        while self._index.size > self._limits.total:
            self._drop(self._index.first_of_largest())
        while self._index.count > self._limits.documents:
            self._drop(self._index.first_of_most())

    def _drop(self, key: _Key) -> None:
        entry = self._index.pop(key)
        self._change(_name(key, entry.created), None)

    def _change(self, name: str, data: bytes | None) -> None:
        self._unwritten[name] = data
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.start(self._write(), "archive")

    async def _write(self) -> None:
        """Write all pending changes to the store, one after another."""
        while self._unwritten:
            name, data = next(iter(self._unwritten.items()))
            if data is None:
                await (await self._open_store()).remove(self._shelf, name)
            else:
                await (await self._open_store()).write(self._shelf, name, data)
            if self._unwritten.get(name) is data:  # otherwise it was changed again in the meantime
                self._unwritten.pop(name, None)

    def _is_expired(self, entry: _Entry) -> bool:
        return self._clock() - entry.created > self._limits.age


def _name(key: _Key, created: float) -> str:
    """Return the name under which a document is stored. It contains everything that the index needs except the size."""
    return f"{key.owner}/{created:.3f}/{key.id}"


def _parsed(name: str, size: int) -> tuple[_Key, _Entry | None]:
    """Parse a name made by `_name` into the key and the entry of a document. For any other name, the entry is None."""
    owner, created, document_id = name.split("/", 2) if name.count("/") >= 2 else ("", "", "")
    try:
        return _Key(owner, document_id), _Entry(float(created), len(name) + size)
    except ValueError:
        return _Key("", ""), None
