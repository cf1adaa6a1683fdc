"""The PostgreSQL engine: a bounded pool of connections, and one connection that listens for messages.

A background task connects, applies migrations and connects again after a failure. While the server cannot be reached,
operations fail at once instead of waiting for a timeout. The listening connection notices an outage even if no other
operation is in progress.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from psycopg import AsyncConnection, Error
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from tieline.app.database.engine import DatabaseFailed, DatabaseUnavailable, Row, Statement
from tieline.app.database.migrations import READ_VERSIONS, Migration
from tieline.app.database.postgres_sql import (
    MIGRATION_LIMIT,
    Address,
    Connection,
    NumericLoader,
    is_lost,
    migrate,
    placeholders,
    values,
)
from tieline.app.database.schema import ALL
from tieline.model.bounded_cache import BoundedCache
from tieline.tasks import Tasks

log = logging.getLogger("tieline")
# The driver would log every failed attempt to connect. This engine logs an outage once.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)

CHANNEL = "tieline"
"""The only PostgreSQL channel. A message is the name of a channel of `Database.listen`, a space, and the payload."""
MAX_STATEMENTS = 500
"""Maximum number of statements whose form with PostgreSQL's placeholders is cached."""

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]
Pool = AsyncConnectionPool[Connection]


class PostgresLimits(NamedTuple):
    """The maximum numbers of pooled connections and of operations that wait for one, and timeouts."""

    connections: int = 8
    waiting: int = 1000
    statement: float = 10.0
    """Seconds until the server cancels a statement."""
    connect: float = 5.0
    """Seconds until an attempt to connect fails, and until an operation stops waiting for a connection."""
    retry: float = 1.0
    """Seconds between two attempts to connect."""
    quiet: float = 5.0
    """Seconds without a message after which the listening connection is checked."""

    @property
    def operation(self) -> float:
        """Seconds until an operation fails if the server does not answer at all."""
        return self.connect + self.statement + 2.0


class PostgresDatabase:
    """A database on a PostgreSQL server. Raise ValueError if `url` is not valid. `warn` reports outages."""

    is_shared = True

    def __init__(
        self,
        url: str,
        migrations: Sequence[Migration] = ALL,
        *,
        limits: PostgresLimits | None = None,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        self._address = Address(url)
        self._migrations = migrations
        self._limits = limits or PostgresLimits()
        self._warn = warn
        self._statements: BoundedCache[str, bytes] = BoundedCache(MAX_STATEMENTS)
        self._listeners: dict[str, list[Callable[[str], object]]] = {}
        self._tasks = Tasks()
        self._calls: set[asyncio.Task[Any]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._connector: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        """Waits for messages on the listening connection. Cancelled if an operation finds that the server is gone."""
        self._pool: Pool | None = None
        self._settled = asyncio.Event()
        """Cleared during the first attempt to connect, or to connect again: operations wait for its result."""
        self._down_since: float | None = None
        self._reason = "not connected"

    @property
    def title(self) -> str:
        return self._address.title

    @property
    def is_available(self) -> bool:
        return self._down_since is None

    async def fetch(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        async def work(connection: Connection) -> list[Row]:
            return await (await connection.execute(self._sql(statement), values(parameters))).fetchall()

        return await self._do(work)

    async def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        async def work(connection: Connection) -> int:
            return (await connection.execute(self._sql(statement), values(parameters))).rowcount

        return await self._do(work)

    async def run(self, statements: Sequence[Statement]) -> None:
        async def work(connection: Connection) -> None:
            async with connection.transaction():
                for statement, parameters in statements:
                    await connection.execute(self._sql(statement), values(parameters))

        await self._do(work)

    async def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        async def work(connection: Connection) -> None:
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.executemany(self._sql(statement), [values(row) for row in rows])

        await self._do(work)

    async def notify(self, channel: str, payload: str = "") -> None:
        await self.fetch("SELECT pg_notify(?, ?)", (CHANNEL, f"{channel} {payload}"))

    def listen(self, channel: str, callback: Callable[[str], object]) -> Callable[[], None]:
        listeners = self._listeners.setdefault(channel, [])
        listeners.append(callback)
        self._start()
        if self._pool is not None:
            asyncio.get_running_loop().call_soon(self._call, callback, "")
        return lambda: listeners.remove(callback) if callback in listeners else None

    async def versions(self) -> frozenset[int]:
        return frozenset(number for (number,) in await self.fetch(READ_VERSIONS))

    async def aclose(self) -> None:
        if self._calls:
            await asyncio.wait(self._calls, timeout=self._limits.operation)
        if self._connector is not None:
            self._connector.cancel()
            await asyncio.wait([self._connector])
            self._connector = None
        if self._closing:
            await asyncio.wait(self._closing, timeout=self._limits.connect)
        await self._tasks.aclose()

    # ── Operations ───────────────────────────────────────────────────────────────────────────────

    def _sql(self, statement: str) -> bytes:
        found = self._statements.get(statement)
        if found is None:
            found = placeholders(statement).encode()
            self._statements.put(statement, found)
        return found

    async def _do(self, work: Work[T]) -> T:
        """Run `work` with a connection, in a task of its own that a cancelled caller does not interrupt."""
        pool = self._pool
        task = self._tasks.start(self._outcome(work), "database operation")
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        await asyncio.wait([task], timeout=self._limits.operation)
        if not task.done():
            # The server cancels slow statements itself, so the network or the server does not respond at all.
            task.cancel()
            if pool is not None:
                self._lose(pool)
            raise DatabaseUnavailable(f"{self.title}: no answer within {self._limits.operation:g} seconds")
        outcome: T | DatabaseFailed = task.result()
        if isinstance(outcome, DatabaseFailed):
            raise outcome
        return outcome

    async def _outcome(self, work: Work[T]) -> T | DatabaseFailed:
        """Return the result of `work`, or the exception that the caller has to raise."""
        try:
            pool = await self._ready_pool()
            try:
                return await self._with_connection(pool, work)
            except (_NotConnected, PoolClosed):
                self._lose(pool)
                return await self._with_connection(await self._ready_pool(), work)
        except DatabaseFailed as error:
            return error
        except PoolTimeout:
            return DatabaseUnavailable(f"{self.title}: all {self._limits.connections} connections are busy")
        except (Error, OSError, ValueError, OverflowError) as error:
            failure = self._address.failure(error)
            failure.__cause__ = error
            return failure

    async def _with_connection(self, pool: Pool, work: Work[T]) -> T:
        """Run `work` with a connection of the pool. Raise _NotConnected if it was lost before it was used."""
        async with pool.connection(timeout=self._limits.connect) as connection:
            try:
                await connection.execute("")
            except Error as error:
                raise _NotConnected from error
            try:
                return await work(connection)
            except Error as error:
                if is_lost(error, connection):
                    self._lose(pool)
                raise

    async def _ready_pool(self) -> Pool:
        """Return the pool. After a start or a loss, wait for the first attempt to connect, but not for later ones."""
        self._start()
        if self._pool is None and not self._settled.is_set():
            await self._settled.wait()
        if self._pool is None:
            raise DatabaseUnavailable(f"{self.title}: {self._reason}")
        return self._pool

    def _lose(self, pool: Pool) -> None:
        """Give up a pool and connect again, unless this has already been done."""
        if self._pool is pool:
            self._pool = None
            self._settled.clear()
            if self._watcher is not None:
                self._watcher.cancel()

    # ── The connection ───────────────────────────────────────────────────────────────────────────

    def _start(self) -> None:
        if self._connector is None:
            self._settled.clear()
            self._connector = self._tasks.start(self._keep_connected(), "database connection")

    async def _keep_connected(self) -> None:
        while True:
            try:
                listening, pool = await self._connect()
            except (Error, OSError, DatabaseFailed) as error:
                self._report_outage("no answer" if isinstance(error, TimeoutError) else self._address.describe(error))
                await asyncio.sleep(self._limits.retry)
                continue
            try:
                self._report_connected(pool)
                watcher = self._watcher = self._tasks.start(self._watch(listening), "database messages")
                await asyncio.wait([watcher])
            finally:
                self._lose(pool)
                closing = self._tasks.start(_close(listening, pool), "closing database connections")
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)

    async def _connect(self) -> tuple[Connection, Pool]:
        """Apply the missing migrations. Return a connection that listens, and a pool with at least one connection."""
        options = {
            "connect_timeout": int(self._limits.connect) or 1,
            "application_name": "tieline",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            **self._address.parameters,
        }
        async with asyncio.timeout(self._limits.connect):
            listening = await AsyncConnection.connect(autocommit=True, **options)
        pool: Pool | None = None
        try:
            async with asyncio.timeout(MIGRATION_LIMIT):
                await self._configure(listening)
                await migrate(listening, self._migrations)
                await listening.execute(f"LISTEN {CHANNEL}")
            pool = AsyncConnectionPool(
                kwargs={"autocommit": True, **options},
                configure=self._configure,
                min_size=1,
                max_size=self._limits.connections,
                max_waiting=self._limits.waiting,
                reconnect_timeout=self._limits.connect,
                open=False,
            )
            await pool.open(wait=True, timeout=self._limits.connect)
        except BaseException:
            await _close(listening, pool)
            raise
        return listening, pool

    async def _configure(self, connection: Connection) -> None:
        connection.adapters.register_loader("numeric", NumericLoader)
        await connection.execute(f"SET statement_timeout = {int(self._limits.statement * 1000)}")

    async def _watch(self, connection: Connection) -> None:
        """Deliver messages until the connection is lost."""
        try:
            while True:
                async for message in connection.notifies(timeout=self._limits.quiet):
                    self._deliver(message.payload)
                async with asyncio.timeout(self._limits.connect):
                    await connection.execute("")
        except (Error, OSError) as error:
            log.debug("lost the connection to %s: %s", self.title, self._address.describe(error))

    def _deliver(self, message: str) -> None:
        channel, _, payload = message.partition(" ")
        for callback in list(self._listeners.get(channel, ())):
            self._call(callback, payload)

    def _call(self, callback: Callable[[str], object], payload: str) -> None:
        try:
            callback(payload)
        except Exception:
            log.exception("a listener for database messages failed")

    def _report_connected(self, pool: Pool) -> None:
        since, self._down_since = self._down_since, None
        self._pool = pool
        self._settled.set()
        if since is not None:
            self._warn(f"the database {self.title} can be used again after {time.monotonic() - since:.0f} s")
        for listeners in list(self._listeners.values()):
            for callback in list(listeners):
                self._call(callback, "")

    def _report_outage(self, reason: str) -> None:
        self._reason = reason
        self._settled.set()
        if self._down_since is None:
            self._down_since = time.monotonic()
            self._warn(f"the database {self.title} cannot be used: {reason}; trying to connect again")


class _NotConnected(Exception):
    """A connection was lost while it was not in use."""


async def _close(listening: Connection, pool: Pool | None) -> None:
    await listening.close()
    if pool is not None:
        await pool.close()
