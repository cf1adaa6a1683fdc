"""Stores the audit log and the traffic of this replica in the shared database."""

import asyncio
import logging
import platform
import secrets
import time
from collections.abc import Callable, Sequence

from tieline.app.build.storage import Storage
from tieline.app.config import StoreSettings
from tieline.app.database.engine import Database, DatabaseUnavailable, Statement, StatementFailed
from tieline.app.retained_traffic import ADD_LEG, RetainedTraffic
from tieline.core.watch.bus import Bus
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

MAX_WAITING = 32 << 20
"""Maximum size, in bytes, of the records that wait for the database, separately for the audit log and for traffic."""
PRUNE_INTERVAL = 300.0
"""Seconds between two removals of old records."""
DAY = 24 * 3600.0
MIB = 1 << 20

_ADD_RECORD = "INSERT INTO audit (id, at, replica, record) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"
_PRUNE_AUDIT = "DELETE FROM audit WHERE at < ?"
_PRUNE_AGE = "DELETE FROM leg WHERE at < ?"
_PRUNE_COUNT = "DELETE FROM leg WHERE number <= (SELECT max(number) FROM leg) - ?"
_PRUNE_SIZE = """
DELETE FROM leg WHERE number <= (
    SELECT max(number) FROM (SELECT number, sum(size) OVER (ORDER BY number DESC) AS total FROM leg) AS sums
    WHERE total > ?
)
"""


def audit_copy(storage: Storage, tag: str) -> Callable[[float, str], None]:
    """Return a function that copies a record of the audit log, with its time, into the database.

    The record names this replica by its host and its tag, because a host may run several replicas.
    """
    queue = storage.row_queue(_ADD_RECORD, "records of the audit log", MAX_WAITING)
    replica = f"{platform.node()}/{tag}"
    return lambda at, record: queue.add((secrets.token_hex(12), at, replica, record), 2 * len(record) + 100)


def retained_traffic(storage: Storage, bus: Bus, tasks: Tasks) -> RetainedTraffic:
    """Return the stored legs of all replicas. When `storage` is started, begin to store every leg that ends."""
    queue = storage.row_queue(ADD_LEG, "records of traffic", MAX_WAITING)
    traffic = RetainedTraffic(storage.database.now(), queue, bus, tasks)
    storage.when_started(traffic.start)
    return traffic


def remove_old_records(storage: Storage, tasks: Tasks) -> None:
    """When `storage` is started, begin to remove old records of the audit log and of traffic."""
    storage.when_started(lambda: tasks.start(_prune_regularly(storage.database.now(), storage.settings), "old records"))


async def _prune_regularly(database: Database, settings: StoreSettings) -> None:
    while True:
        for statement in pruning(settings, time.time()):
            try:
                await database.execute(*statement)
            except StatementFailed as error:
                log.warning("old records cannot be removed: %s", error)
            except DatabaseUnavailable:
                break  # the database logs outages
        await asyncio.sleep(PRUNE_INTERVAL)


def pruning(settings: StoreSettings, now: float) -> Sequence[Statement]:
    """Return the statements that remove the records beyond the configured age, number and size."""
    return (
        (_PRUNE_AUDIT, (now - settings.audit_days * DAY,)),
        (_PRUNE_AGE, (now - settings.traffic_days * DAY,)),
        (_PRUNE_COUNT, (settings.traffic,)),
        (_PRUNE_SIZE, (settings.traffic_mib * MIB,)),
    )
