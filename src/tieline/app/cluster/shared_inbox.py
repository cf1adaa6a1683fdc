"""The inboxes of all replicas, shared through the database.

A replica writes its own items, and the scopes of its watchers, into tables, and notifies the others, which then read
the changes. Every few seconds, each replica also compares the tables with its own state, so there is no lasting effect
if a notification is lost, the database fails, or a replica that only seemed to be dead loses its rows. Rows of dead
replicas are ignored, and later removed.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from tieline.app.database.engine import Database, DatabaseFailed, Statement
from tieline.core.inbox.inbox import MAX_TOTAL_SIZE, MAX_WAITING, PendingItem
from tieline.model.scope import Scope
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

CHANNEL = "inbox"
"""The channel for changes. The payload is the tag of the replica whose items or watchers changed."""
REMOVE_AFTER = 30.0
"""Seconds after which the rows of a replica that is not alive are removed."""
AT_ONCE = 32
"""Maximum number of items that are read with one statement."""

_PUT = """
INSERT INTO inbox_item (id, replica, revision, since, data) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, data = excluded.data
"""
_REMOVE = "DELETE FROM inbox_item WHERE id = ?"
_REMOVE_ALL = "DELETE FROM inbox_item WHERE replica = ?"
_LIST = "SELECT id, replica, revision, length(data) FROM inbox_item ORDER BY since, id"
_READ = "SELECT id, revision, data FROM inbox_item WHERE id IN "
_WATCH = """
INSERT INTO inbox_watcher (replica, scopes) VALUES (?, ?)
ON CONFLICT (replica) DO UPDATE SET scopes = excluded.scopes
"""
_UNWATCH = "DELETE FROM inbox_watcher WHERE replica = ?"
_WATCHERS = "SELECT replica, scopes FROM inbox_watcher"


class _InboxRow(NamedTuple):
    """A row of the table of items. `item` is None if its content is not known."""

    revision: int
    item: PendingItem | None


class DatabaseInbox:
    """Publishes the inbox of the replica `tag`, and reads those of the others.

    `is_alive` returns whether another replica is alive. Both tables are read at least every `interval` seconds. `clock`
    returns monotonic time.
    """

    def __init__(
        self,
        database: Database,
        tag: str,
        tasks: Tasks,
        *,
        is_alive: Callable[[str], bool],
        interval: float,
        clock: Callable[[], float],
    ) -> None:
        self.source = tag
        self.items: Sequence[PendingItem] = ()
        self.watchers: Collection[Scope] = frozenset()
        self._database = database
        self._tasks = tasks
        self._is_alive = is_alive
        self._interval = interval
        self._clock = clock
        self._on_change: Callable[[], None] = lambda: None
        self._own: dict[str, PendingItem] = {}
        self._own_scopes: frozenset[Scope] = frozenset()
        self._written: dict[str, _InboxRow] = {}
        """The rows of this replica, as last written or read."""
        self._written_scopes: frozenset[Scope] = frozenset()
        self._known: dict[str, _InboxRow] = {}
        """The items of other replicas."""
        self._revision = 0
        self._missing_since: dict[str, float] = {}
        """When each replica that has rows was first found not to be alive."""
        self._is_stale = True
        """Whether the tables may contain changes that have not been read."""
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] | None = None

    def start(self, on_change: Callable[[], None]) -> None:
        """Begin to share. `on_change` is called when `items` or `watchers` has changed."""
        self._on_change = on_change
        self._stop_listening = self._database.listen(CHANNEL, self._on_message)
        self._loop = self._tasks.start(self._keep_in_sync(), "shared inbox")

    def publish(self, items: Sequence[PendingItem], watchers: Collection[Scope]) -> None:
        self._own = {item.id: item for item in items}
        self._own_scopes = frozenset(watchers)
        self._wake.set()

    async def aclose(self) -> None:
        """Withdraw this replica's items and watchers."""
        if self._loop is None:
            return
        self._loop.cancel()
        await asyncio.wait([self._loop])
        self._loop = None
        if self._stop_listening is not None:
            self._stop_listening()
        with suppress(DatabaseFailed):
            await self._database.run([(_REMOVE_ALL, (self.source,)), (_UNWATCH, (self.source,))])
            await self._database.notify(CHANNEL, self.source)

    def _on_message(self, tag: str) -> None:
        if tag != self.source:
            self._is_stale = True
            self._wake.set()

    async def _keep_in_sync(self) -> None:
        while True:
            try:
                await self._write()
                if self._is_stale:
                    await self._read()
            except DatabaseFailed as error:
                log.debug("the inbox cannot be shared: %s", error)
                self._is_stale = True
                await asyncio.sleep(self._interval)  # the database reports the outage
                continue
            await self._wait()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self._interval):
                await self._wake.wait()
        except TimeoutError:
            self._is_stale = True
        self._wake.clear()

    # ── This replica ─────────────────────────────────────────────────────────────────────────────

    async def _write(self) -> None:
        """Write the changes since the last call, and notify the other replicas."""
        own, scopes = self._own, self._own_scopes
        statements: list[Statement] = [(_REMOVE, (item_id,)) for item_id in self._written if item_id not in own]
        written = {item_id: row for item_id, row in self._written.items() if item_id in own}
        for item_id, item in own.items():
            if item_id not in written or written[item_id].item != item:
                self._revision += 1
                written[item_id] = _InboxRow(self._revision, item)
                parameters = (item_id, self.source, self._revision, item.since, msgspec.json.encode(item))
                statements.append((_PUT, parameters))
        if scopes != self._written_scopes:
            statements.append((_WATCH, (self.source, msgspec.json.encode(sorted(scopes, key=str)).decode())))
        if statements:
            await self._database.run(statements)
            self._written, self._written_scopes = written, scopes
            await self._database.notify(CHANNEL, self.source)

    def _check_written(self, revisions: Mapping[str, int], scopes: frozenset[Scope]) -> None:
        """Schedule another write if this replica's rows differ from those that it wrote."""
        expected = {item_id: row.revision for item_id, row in self._written.items()}
        if revisions != expected or scopes != self._written_scopes:
            known = self._written
            self._written = {
                item_id: known[item_id] if expected.get(item_id) == revision else _InboxRow(revision, None)
                for item_id, revision in revisions.items()
            }
            self._written_scopes = scopes
            self._wake.set()

    # ── Other replicas ───────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        """Read the items and watchers of other replicas. Only new and changed items are read in full."""
        self._is_stale = False
        rows = await self._database.fetch(_LIST)
        scopes = {tag: _scopes(text) for tag, text in await self._database.fetch(_WATCHERS)}
        own = {item_id: revision for item_id, tag, revision, _ in rows if tag == self.source}
        self._check_written(own, scopes.pop(self.source, frozenset()))
        await self._remove_dead({tag for _, tag, _, _ in rows} | scopes.keys())
        wanted: dict[str, int] = {}
        size = 0
        for item_id, tag, revision, length in rows:
            size += length if self._is_other(tag) else 0
            if self._is_other(tag) and size <= MAX_TOTAL_SIZE and len(wanted) < MAX_WAITING:
                wanted[item_id] = revision
        known = self._known
        await self._learn([one for one, revision in wanted.items() if one not in known or known[one][0] != revision])
        self._known = {item_id: known[item_id] for item_id in wanted if item_id in known}
        items = tuple(row.item for row in self._known.values() if row.item is not None)
        watchers = frozenset(scope for tag, held in scopes.items() if self._is_other(tag) for scope in held)
        if items != self.items or watchers != self.watchers:
            self.items, self.watchers = items, watchers
            self._on_change()

    async def _learn(self, missing: Sequence[str]) -> None:
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            marks = ", ".join("?" * len(some))
            for item_id, revision, data in await self._database.fetch(f"{_READ}({marks})", some):
                self._known[item_id] = _InboxRow(revision, _decoded(data))

    async def _remove_dead(self, found: Collection[str]) -> None:
        """Remove the rows of replicas that have not been alive for some time."""
        now = self._clock()
        gone = {tag for tag in found if tag != self.source and not self._is_alive(tag)}
        self._missing_since = {tag: self._missing_since.get(tag, now) for tag in gone}
        for tag, since in self._missing_since.items():
            if now - since > REMOVE_AFTER:
                await self._database.run([(_REMOVE_ALL, (tag,)), (_UNWATCH, (tag,))])

    def _is_other(self, tag: str) -> bool:
        return tag != self.source and self._is_alive(tag)


def _scopes(text: str) -> frozenset[Scope]:
    try:
        return frozenset(msgspec.json.decode(text, type=list[Scope]))
    except msgspec.DecodeError:
        return frozenset()


def _decoded(data: bytes) -> PendingItem | None:
    """Return an item, or None if it cannot be decoded because a replica of another version wrote it."""
    try:
        return msgspec.json.decode(data, type=PendingItem)
    except msgspec.DecodeError as error:
        log.warning("could not decode an inbox item from another replica; ignoring it: %s", error)
        return None
