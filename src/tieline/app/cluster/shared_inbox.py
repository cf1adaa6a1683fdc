"""Shares the inboxes of all replicas: their items, and the scopes in which a person watches them.

Each replica writes its own items and scopes to the database and reads those of the others when they announce a change.
An answer goes directly to the replica of its item. Without the database, replicas keep what they know.
"""

import asyncio
import logging
from contextlib import suppress

import msgspec

from tieline.app.cluster.membership import Membership
from tieline.app.database.engine import Database, DatabaseFailed
from tieline.core.inbox.inbox import Inbox, PendingItem
from tieline.model.scope import Scope
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

CHANNEL = "inbox"

_ADD_ITEM = (
    "INSERT INTO inbox_item (id, tag, data) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET data = excluded.data"
)
_REMOVE_ITEM = "DELETE FROM inbox_item WHERE id = ?"
_ADD_WATCHER = "INSERT INTO inbox_watcher (tag, scope) VALUES (?, ?) ON CONFLICT (tag, scope) DO NOTHING"
_REMOVE_WATCHER = "DELETE FROM inbox_watcher WHERE tag = ? AND scope = ?"
_ITEMS = "SELECT tag, data FROM inbox_item WHERE tag <> ?"
_WATCHERS = "SELECT tag, scope FROM inbox_watcher WHERE tag <> ?"
_CLEAR = ("DELETE FROM inbox_item WHERE tag = ?", "DELETE FROM inbox_watcher WHERE tag = ?")

_ITEM = msgspec.json.Decoder(PendingItem)
_SCOPE = msgspec.json.Decoder(tuple[str | None, str | None])


class SharedInbox:
    """Publishes the inbox of this replica, and adds what others have published to it."""

    def __init__(
        self, inbox: Inbox, database: Database, membership: Membership, tasks: Tasks, *, interval: float
    ) -> None:
        self._inbox = inbox
        self._database = database
        self._membership = membership
        self._tasks = tasks
        self._interval = interval
        """Seconds between two looks at whether replicas have died. Changes are noticed at once."""
        self._published: dict[str, bytes] = {}
        self._published_scopes: frozenset[Scope] = frozenset()
        self._items: list[tuple[str, PendingItem]] = []
        """The items of other replicas, with the tag of each replica."""
        self._watchers: list[tuple[str, Scope]] = []
        self._is_outdated = True
        self._news = asyncio.Event()

    def start(self) -> None:
        """Begin to share the inbox."""
        self._membership.on_join.append(self._on_join)
        self._inbox.on_watchers.append(self._news.set)
        self._database.listen(CHANNEL, self._on_message)
        self._tasks.start(self._watch_versions(), "inbox of this replica")
        self._tasks.start(self._synchronise(), "shared inbox")

    async def aclose(self) -> None:
        """Withdraw the items and watchers of this replica."""
        tag = self._membership.tag
        with suppress(DatabaseFailed):
            await self._database.run([(statement, (tag,)) for statement in _CLEAR])
            await self._database.notify(CHANNEL, tag)

    def _on_join(self) -> None:
        self._published, self._published_scopes = {}, frozenset()
        self._news.set()

    def _on_message(self, tag: str) -> None:
        if tag != self._membership.tag:
            self._is_outdated = True
            self._news.set()

    async def _watch_versions(self) -> None:
        version = -1
        while True:
            version = await self._inbox.change(version)
            self._news.set()

    async def _synchronise(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._publish()
                if self._is_outdated:
                    self._is_outdated = False
                    await self._read()
            except DatabaseFailed:
                self._is_outdated = True
            self._show()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._news.wait()

    async def _publish(self) -> None:
        """Write the items and watchers of this replica that have changed."""
        tag, items = self._membership.tag, {item.id: msgspec.json.encode(item) for item in self._inbox.items}
        scopes = self._inbox.watchers
        statements: list[tuple[str, tuple[str | bytes, ...]]] = [
            *((_ADD_ITEM, (name, tag, data)) for name, data in items.items() if self._published.get(name) != data),
            *((_REMOVE_ITEM, (name,)) for name in self._published if name not in items),
            *((_ADD_WATCHER, (tag, _encoded(scope))) for scope in scopes - self._published_scopes),
            *((_REMOVE_WATCHER, (tag, _encoded(scope))) for scope in self._published_scopes - scopes),
        ]
        if statements:
            await self._database.run(statements)
            self._published, self._published_scopes = items, scopes
            await self._database.notify(CHANNEL, tag)

    async def _read(self) -> None:
        """Read what the other replicas have published."""
        tag = self._membership.tag
        items, watchers = await self._database.fetch(_ITEMS, (tag,)), await self._database.fetch(_WATCHERS, (tag,))
        self._items = [(owner, item) for owner, data in items if (item := _decoded(data)) is not None]
        self._watchers = [(owner, Scope(*_SCOPE.decode(scope))) for owner, scope in watchers]

    def _show(self) -> None:
        """Add the items and watchers of the replicas that are alive to the inbox."""
        alive = {replica.tag for replica in self._membership.alive()}
        watchers = frozenset(scope for tag, scope in self._watchers if tag in alive)
        self._inbox.set_remote([item for tag, item in self._items if tag in alive], watchers)


def _encoded(scope: Scope) -> str:
    return msgspec.json.encode(tuple(scope)).decode()


def _decoded(data: bytes) -> PendingItem | None:
    try:
        return _ITEM.decode(data)
    except msgspec.MsgspecError:
        log.warning("ignoring an inbox item of another replica, which has another version")
        return None
