"""A bounded, persistent collection of documents, each private to its owner.

Documents are written to the store in the background. They can be read at once, even before they have been written.
When the archive is full, the least recently used documents are removed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
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
    """Bytes of the document and of its name. An archive of small documents may consist mostly of names."""


class _Key(NamedTuple):
    owner: str
    id: str


class Archive:
    """Stores documents by owner and id. `open_store` is called when the disk is accessed, not earlier."""

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
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        """The known documents, the least recently used first. `_list` adds those that earlier processes stored."""
        self._is_listed = False
        self._unwritten: dict[str, bytes | None] = {}
        """Changes not yet written to the store, by the name of the document: its content, or None to remove it."""
        self._writer: asyncio.Task[None] | None = None
        self._size = 0
        self._swept_at = 0.0

    async def get(self, owner: str, document_id: str) -> bytes | None:
        """Return a document; None if there is no document with this id and owner, or if it has expired."""
        await self._list()
        key = _Key(owner, document_id)
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._is_expired(entry):
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        name = _name(key, entry.created)
        data = self._unwritten.get(name)
        return data if data is not None else await (await self._open_store()).get(self._shelf, name)

    def touch(self, owner: str, document_id: str) -> bool:
        """Mark a document as used. Return False if `get` would not return it.

        Documents stored by earlier processes are found only after the first call to `get` or `remove`.
        """
        key = _Key(owner, document_id)
        entry = self._entries.get(key)
        if entry is None or self._is_expired(entry):
            return False
        self._entries.move_to_end(key)
        return True

    def put(self, owner: str, document_id: str, data: bytes) -> bool:
        """Store a document, replacing any earlier one with this id. Return False if it is too large."""
        key = _Key(owner, document_id)
        if len(data) > self._limits.each:
            return False
        created = self._clock()
        name = _name(key, created)
        entry = _Entry(created, len(name) + len(data))
        if entry.size > self._limits.total:
            return False
        self._add(key, entry)
        self._change(name, data)
        self._make_room()
        return True

    async def remove(self, owner: str, document_id: str) -> bool:
        """Remove a document. Return False if there is none with this id and owner."""
        await self._list()
        key = _Key(owner, document_id)
        entry = self._entries.get(key)
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
        newer, self._entries, self._size = self._entries, OrderedDict(), 0
        for name, size in sizes.items():
            key, entry = _parsed(name, size)
            if entry is None:
                self._change(name, None)
            elif key not in newer:
                self._add(key, entry)
        for key, entry in newer.items():
            self._add(key, entry)
        self._make_room()

    def _add(self, key: _Key, entry: _Entry) -> None:
        if key in self._entries:
            self._drop(key)
        self._entries[key] = entry
        self._size += entry.size

    def _make_room(self) -> None:
        """Remove the least recently used documents until the limits are met. From time to time, remove expired ones."""
        now = self._clock()
        if now - self._swept_at >= SWEEP_INTERVAL:
            self._swept_at = now
            for key in [key for key, entry in self._entries.items() if self._is_expired(entry)]:
                self._drop(key)
        while self._size > self._limits.total or len(self._entries) > self._limits.documents:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        entry = self._entries.pop(key)
        self._size -= entry.size
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
    """Return the name under which a document is stored. It contains all that the index needs, apart from the size."""
    return f"{key.owner}/{created:.3f}/{key.id}"


def _parsed(name: str, size: int) -> tuple[_Key, _Entry | None]:
    """Parse a name made by `_name` into the key and the entry of a document. For any other name, the entry is None."""
    owner, created, document_id = name.split("/", 2) if name.count("/") >= 2 else ("", "", "")
    try:
        return _Key(owner, document_id), _Entry(float(created), len(name) + size)
    except ValueError:
        return _Key("", ""), None
