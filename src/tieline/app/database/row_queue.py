"""Inserts rows into a table in the background, so that no request waits for the database."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from tieline.app.database.engine import Database, DatabaseFailed, DatabaseUnavailable, Row
from tieline.tasks import Tasks

log = logging.getLogger("tieline")

DELAY = 0.25
"""Seconds to wait for further rows before a batch is written."""
RETRY = 5.0
"""Seconds to wait before the next attempt if the database is not available."""
BATCH_ROWS = 200
BATCH_SIZE = 4 << 20
CLOSE_LIMIT = 5.0
CHANNEL = "rows"


class _Waiting(NamedTuple):
    row: Row
    size: int


class RowQueue:
    """A queue of rows for one INSERT statement, with a total size of at most `max_size` bytes.

    A batch may be written twice if the database fails at the wrong moment, so the statement has to ignore rows that
    exist already. If the queue is full, further rows are dropped, and `title` names them in the log.
    """

    def __init__(
        self,
        database: Database,
        statement: str,
        title: str,
        *,
        max_size: int,
        warn: Callable[[str], None] = log.warning,
    ) -> None:
        self._database = database
        self._statement = statement
        self._title = title
        self._max_size = max_size
        self._warn = warn
        self._lock = threading.Lock()
        self._rows: deque[_Waiting] = deque()
        self._size = 0
        self._is_full = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = Tasks()
        self._writer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write rows, including those added before. Call this in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._database.listen(CHANNEL, lambda _: self._wake())
        self._wake()

    def add(self, row: Row, size: int) -> None:
        """Add a row of about `size` bytes. This may be called in any thread."""
        with self._lock:
            is_full = self._size + size > self._max_size
            if not is_full:
                self._rows.append(_Waiting(row, size))
                self._size += size
            is_news, self._is_full = is_full and not self._is_full, is_full
        if is_news:
            self._warn(f"{self._database.title} is too slow or not available: {self._title} are not being stored")
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    async def aclose(self) -> None:
        """Write the rows in the queue, for at most CLOSE_LIMIT seconds, if the database is available."""
        if self._loop is not None and self._database.is_available:
            self._wake()
        if self._writer is not None:
            await asyncio.wait([self._writer], timeout=CLOSE_LIMIT)
        await self._tasks.aclose()

    def _wake(self) -> None:
        if self._rows and (self._writer is None or self._writer.done()):
            self._writer = self._tasks.start(self._write_all(), self._title)

    async def _write_all(self) -> None:
        while self._rows:
            await asyncio.sleep(DELAY)
            batch = self._batch()
            try:
                await self._write(batch)
            except DatabaseUnavailable:
                if self._loop is not None:
                    self._loop.call_later(RETRY, self._wake)
                return
            with self._lock:
                for waiting in batch:
                    self._rows.popleft()
                    self._size -= waiting.size

    async def _write(self, batch: list[_Waiting]) -> None:
        """Write a batch. If the database rejects it, write the rows one by one and skip those that are rejected."""
        try:
            await self._database.execute_many(self._statement, [waiting.row for waiting in batch])
        except DatabaseUnavailable:
            raise
        except DatabaseFailed as error:
            if len(batch) == 1:
                self._warn(f"one of the {self._title} could not be stored: {error}")
                return
            for waiting in batch:
                await self._write([waiting])

    def _batch(self) -> list[_Waiting]:
        with self._lock:
            batch: list[_Waiting] = []
            size = 0
            for waiting in self._rows:
                size += waiting.size
                if batch and (size > BATCH_SIZE or len(batch) == BATCH_ROWS):
                    break
                batch.append(waiting)
            return batch
