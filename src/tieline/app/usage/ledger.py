"""Moves usage from the spool to the database in the background, and updates accounts with the totals from there."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from tieline.app.database.engine import Database, DatabaseFailed, StatementFailed
from tieline.app.keys.table import KeyTable
from tieline.app.usage.metrics import UsageMetrics
from tieline.app.usage.spool import Segment, Spool, leftovers
from tieline.app.usage.tables import BATCH_DAYS, UsageTables
from tieline.core.usage.accounts import Accounts
from tieline.core.usage.limits import DAY
from tieline.core.usage.sums import UsageSums
from tieline.core.watch.metrics import head
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

FLUSH_INTERVAL = 1.0
"""Seconds between the first entry and its insertion, so that entries are inserted in batches."""
SYNC_INTERVAL = 2.0
"""Seconds between two queries for what other replicas have recorded."""
RETRY_INTERVAL = 2.0
IMPORT_INTERVAL = 60.0
"""Seconds between two searches for the files of dead processes."""
PRUNE_INTERVAL = 6 * 3600.0
CLOSING = 3.0
"""Seconds that closing the ledger may take. What is not in the database by then stays in the spool."""
HOUR = 3600


class UsageLedger:
    """Records usage. `now` returns the Unix time. `folder` contains the spool; if it is None, the spool is temporary.

    `write` may be called before the database can be reached. A background task inserts the entries. `sync`, `flush` and
    `import_leftovers` raise DatabaseFailed if the database cannot be used.
    """

    def __init__(
        self,
        get_database: Callable[[], Database],
        folder: Path | None,
        tasks: Tasks,
        accounts: Accounts,
        *,
        now: Callable[[], float],
        keep_days: int,
        interval: float = FLUSH_INTERVAL,
    ) -> None:
        self._get_database = get_database
        self._tasks = tasks
        self._accounts = accounts
        self._now = now
        self._keep_days = keep_days
        self._interval = interval
        self.spool = Spool(folder, now, on_begin=self._wake_up)
        self.write = self.spool.append
        """Writes an entry to the spool, and returns the number of its segment. The database gets it later."""
        self._used: dict[str, int] = {}
        """The hour of last use of each key, as it is stored in the table of keys."""
        self._work: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._must_sync = False
        self._flushing = asyncio.Lock()
        self._inserted = 0
        """The last segment that is in the database."""
        self._is_failing = False
        self._rejected = 0
        self._metrics = UsageMetrics()

    def start(self) -> None:
        """Start the task that imports the spools of dead processes and inserts new entries."""
        if self._work is None:
            self._work = self._tasks.start(self._run(), "usage ledger")

    def sync_soon(self) -> None:
        """Let the background task update the accounts soon, because keys have changed."""
        self._must_sync = True
        self._wake.set()

    async def sync(self) -> None:
        """Update the accounts with the totals in the database."""
        self._must_sync = False
        accounts, through = self._accounts.all(), self._inserted
        if accounts:
            tables = UsageTables(self._get_database())
            try:
                totals = await tables.totals([account.name for account in accounts], self._now())
            except DatabaseFailed:
                self._set_failing(True)
                raise
            for account in accounts:
                account.synced(totals[account.name], through)

    async def flush(self) -> None:
        """Insert the entries in the spool."""
        async with self._flushing:
            segment = self.spool.take()
            if segment is None:
                return
            await self._insert(segment)
            self._metrics.add(segment.sums)
            self.spool.inserted()
            self._inserted = segment.number
            await self._touch(segment.sums)

    async def import_leftovers(self) -> None:
        """Insert the entries in the spools of processes that have ended."""
        if self.spool.folder is None:
            return
        for file in leftovers(self.spool.folder):
            is_done = False
            try:
                segment = await asyncio.to_thread(file.read)
                if segment is not None:
                    await self._insert(segment)
                is_done = True
            finally:
                file.close(remove=is_done)

    async def aclose(self) -> None:
        """Insert the remaining entries and close the spool. If that fails, the next process imports them."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])
            self._work = None
        try:
            async with asyncio.timeout(CLOSING):
                await self.flush()
                await self.flush()  # what was written during the first one
        except (DatabaseFailed, OSError) as error:  # also a timeout
            reason = str(error) or f"no answer within {CLOSING:g} seconds"
            log.warning("usage could not be stored (%s); %d bytes remain in the spool", reason, self.spool.size)
        self.spool.close()

    def metric_lines(self) -> Iterator[str]:
        """Yield the usage since the start, and the state of the spool, in the Prometheus text format."""
        spool = self.spool
        yield from self._metrics.lines(spool.pending)
        yield from head("tieline_usage_spool_bytes", "gauge", "Usage that is not in the database yet.")
        yield f"tieline_usage_spool_bytes {spool.size}"
        yield from head("tieline_usage_spool_errors_total", "counter", "Usage entries that could not be spooled.")
        yield f"tieline_usage_spool_errors_total {spool.failures}"
        yield from head("tieline_usage_lost_total", "counter", "Usage entries that were lost.")
        yield f"tieline_usage_lost_total {self._rejected}"

    # ── In the background ────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_import = next_prune = next_sync = 0.0
        while True:
            pause, was_failing = self._interval, self._is_failing
            try:
                if loop.time() >= next_import:
                    await self.import_leftovers()
                    next_import = loop.time() + IMPORT_INTERVAL
                await self.flush()
                if self._must_sync or loop.time() >= next_sync:
                    await self.sync()
                    next_sync = loop.time() + SYNC_INTERVAL
                if loop.time() >= next_prune:
                    await UsageTables(self._get_database()).prune(self._now(), self._keep_days)
                    next_prune = loop.time() + PRUNE_INTERVAL
                self._set_failing(False)
            except (DatabaseFailed, OSError) as error:
                if not was_failing:
                    log.warning("usage stays in the spool, because the database cannot be used: %s", error)
                self._set_failing(True)
                pause = RETRY_INTERVAL
            await self._pause(pause, max_idle=next_import - loop.time())

    async def _pause(self, seconds: float, max_idle: float) -> None:
        """Wait for an entry, then `seconds` more to collect a batch. After a failure, only wait `seconds`.

        Return early if a sync is requested, or if there is no entry within `max_idle` seconds (within SYNC_INTERVAL if
        the database is shared and there are accounts).
        """
        if not self._is_failing:
            idle = SYNC_INTERVAL if self._get_database().is_shared and self._accounts.all() else max(0.0, max_idle)
            try:
                async with asyncio.timeout(idle):
                    await self._wake.wait()
            except TimeoutError:
                return
            self._wake.clear()
            if self._must_sync:
                return
        await asyncio.sleep(seconds)

    async def _insert(self, segment: Segment) -> None:
        """Insert a segment. If that can never succeed, keep its entries in another file."""
        head, sums, now = segment.head, segment.sums, self._now()
        if head is None:
            return
        try:
            if head.begun >= now - BATCH_DAYS * DAY:
                await UsageTables(self._get_database()).add(head.segment, sums, now)
                return
            log.error("%d old usage entries were not counted: they may have been counted already", sums.count)
        except StatementFailed as error:
            log.error("the database rejects %d usage entries: %s", sums.count, error)  # noqa: TRY400 - not a bug, so no traceback
        self._rejected += sums.count
        if segment.file is not None:
            segment.file.keep_copy()

    async def _touch(self, sums: UsageSums) -> None:
        """Record the hour in which keys were last used."""
        hour = int(self._now()) // HOUR
        owners = {owner for owner, *_ in sums.rows if owner}
        used = {name: float(hour * HOUR) for name in owners if self._used.get(name) != hour}
        if used:
            await KeyTable(self._get_database(), self._now).touch(used)
            self._used.update(dict.fromkeys(used, hour))

    def _wake_up(self) -> None:
        """Wake the background task, which inserts the new segment after an interval."""
        self.start()
        self._wake.set()

    def _set_failing(self, is_failing: bool) -> None:
        self._is_failing = is_failing
        self._accounts.set_reachable(not is_failing)
