"""The stored keys in memory, so that no request waits for the database.

Changes by other processes take effect within a second: PostgreSQL sends a notification, and every process also polls.
If the database cannot be reached, the keys in memory stay valid for `GRACE` seconds after the last contact.
"""

import asyncio
import logging
from collections.abc import Callable, Collection

from tieline.app.database.engine import Database, DatabaseFailed
from tieline.app.keys.rules import named_key
from tieline.app.keys.table import CHANNEL, KeyRecord, KeyTable
from tieline.core.usage.accounts import Accounts
from tieline.frontends.keys import NamedKey
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

GRACE = 60.0
"""Seconds for which keys stay valid after the last contact with the database."""
POLL = 0.5
"""Seconds between two checks for changes, if there are stored keys or the database is shared."""
MIN_INTERVAL = 0.1
"""Minimum number of seconds between two refreshes, so that requests with unknown keys do not load the database."""
RETRY_AFTER = 5.0

_DATA_VERSION = "SELECT data_version FROM pragma_data_version"
"""Returns a number that changes when another connection changes the SQLite file. This reads only shared memory."""


class StoredKeys:
    """The stored keys, by digest and by name. `clock` returns monotonic time, `now` Unix time.

    Keys with the names in `configured` are ignored: those in the configuration take precedence.
    """

    def __init__(
        self,
        get_database: Callable[[], Database],
        tasks: Tasks,
        accounts: Accounts,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
        configured: Collection[str] = (),
    ) -> None:
        self._get_database = get_database
        self._tasks = tasks
        self._accounts = accounts
        self._clock = clock
        self._now = now
        self._configured = configured
        self._by_digest: dict[str, tuple[NamedKey, float | None]] = {}
        """The keys by digest, each with the time until which the digest is valid; None if it does not expire."""
        self._by_name: dict[str, NamedKey] = {}
        self._contact: float | None = None
        self._mark: tuple[int, int] | None = None
        self._data_version: object = None
        self._next: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._stop_listening: Callable[[], None] | None = None
        self._is_failing = False
        self.on_change: list[Callable[[], None]] = []
        """Functions that are called after the keys have changed."""

    @property
    def has_keys(self) -> bool:
        """Whether any keys were stored when they were last read."""
        return bool(self._by_name)

    def find(self, digest: str) -> NamedKey | None:
        """Return the key with this digest, or None. Raise GatewayError if it was read from the store too long ago."""
        found = self._by_digest.get(digest)
        if found is None:
            return None
        self._check_contact()
        key, until = found
        return key if until is None or self._now() < until else None

    def named(self, name: str) -> NamedKey | None:
        """Return the key with this name, or None. Raise GatewayError if it was read from the store too long ago."""
        key = self._by_name.get(name)
        if key is not None:
            self._check_contact()
        return key

    async def refresh(self) -> None:
        """Read the keys again. Raise GatewayError if that is not possible.

        Concurrent calls share one query, which starts after all of them.
        """
        if self._next is None:
            self._next = self._tasks.start(self._refresh_soon(), "reading keys")
        try:
            await asyncio.shield(self._next)
        except DatabaseFailed:
            raise _unavailable() from None

    async def _refresh_soon(self) -> None:
        if self._contact is not None:
            await asyncio.sleep(max(0.0, self._contact + MIN_INTERVAL - self._clock()))
        async with self._reading:
            self._next = None
            await self._read()

    def close(self) -> None:
        """Stop checking for changes."""
        if self._watch is not None:
            self._watch.cancel()
        if self._stop_listening is not None:
            self._stop_listening()

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────

    async def _read(self) -> None:
        """Read the keys if they have changed, and start watching them for changes.

        Raise DatabaseFailed if that fails.
        """
        database = self._get_database()
        table = KeyTable(database, self._now)
        began = self._clock()
        mark = await table.mark()
        if mark != self._mark:
            records = await table.all()
            self._mark = mark
            self._take(records)
        self._contact = began
        if self._watch is None and (self._by_name or database.is_shared):
            if database.is_shared:
                self._stop_listening = database.listen(CHANNEL, lambda _: self._changed.set())
            self._watch = self._tasks.start(self._look_for_changes(database), "keys")

    def _take(self, records: list[KeyRecord]) -> None:
        by_digest: dict[str, tuple[NamedKey, float | None]] = {}
        by_name: dict[str, NamedKey] = {}
        for record in records:
            if record.name in self._configured:
                log.warning("the stored key %s is ignored: the configuration has a key with this name", record.name)
                continue
            is_revoked = record.revoked is not None
            key = named_key(
                record.name, record.rules, digest=record.digest, archive=f"key_{record.id}", is_revoked=is_revoked
            )
            by_name[key.name] = key
            by_digest[record.digest] = key, None
            if record.previous_digest is not None:
                by_digest[record.previous_digest] = key, record.previous_until
            self._accounts.set_limits(key.name, key.limits)
        self._by_digest, self._by_name = by_digest, by_name
        for changed in self.on_change:
            changed()

    async def _look_for_changes(self, database: Database) -> None:
        while True:
            try:
                async with asyncio.timeout(POLL):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                await self._look(database)
            except DatabaseFailed as error:
                if not self._is_failing:
                    log.warning("stored keys cannot be checked (%s); they stay valid for %.0f seconds", error, GRACE)
                self._is_failing = True
            else:
                self._is_failing = False

    async def _look(self, database: Database) -> None:
        async with self._reading:
            if database.is_shared:
                await self._read()
                return
            began = self._clock()
            ((version,),) = await database.fetch(_DATA_VERSION)
            if version != self._data_version:
                await self._read()
                self._data_version = version
            self._contact = began

    def _check_contact(self) -> None:
        if self._contact is None or self._clock() - self._contact > GRACE:
            raise _unavailable()


def _unavailable() -> GatewayError:
    return GatewayError(
        "overloaded",
        "Keys cannot be checked, because the gateway's database cannot be reached. Try again in a moment.",
        code="keys_unavailable",
        retry_after=RETRY_AFTER,
    )
