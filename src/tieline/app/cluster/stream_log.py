"""The log of the page's stream messages, in a table that all replicas share.

The number of a message is the number of its row. Without a lock, rows of concurrent transactions could become visible
in an order other than that of their numbers, and a reader would miss the row that appears last. Therefore a writer
holds a lock from before it allocates the first number of a batch until the batch is committed: numbers become visible
in ascending order, and a reader only needs to remember the last one. A batch contains all messages that were added
while the batch before it was being written, so one writer at a time is fast enough.

While the database is not available, messages are sent to the pages of this replica only, without numbers. Afterwards,
a reset message makes all pages load their state again.
"""

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from tieline.app.database.engine import Database, DatabaseFailed
from tieline.model.scope import Place
from tieline.tasks import Tasks
from tieline.web.message_ring import MAX_BYTES, MAX_MESSAGES, RESET
from tieline.web.stream_log import LoggedMessage, LogReader

log = logging.getLogger("tieline")

CHANNEL = "stream"
"""The channel for new messages. The payload is the number of the last one."""
MAX_AGE = 600.0
"""Seconds after which a message is removed. A page that was disconnected for longer loads its state again."""
MAX_BATCH = 64
MAX_QUEUED = 4096
"""Maximum number of messages that wait to be written. If there are more, the oldest go to this replica's pages only."""
READ_AT_ONCE = 500
PRUNE_EVERY = 30.0
PATIENCE = 2.0
"""Maximum number of seconds that a page waits until this replica has caught up."""
WRITE_PATIENCE = 5.0
"""Maximum number of seconds that a page waits until the messages of this replica have been written."""

_LOCK = 0x7469656D
"""The key of the advisory lock that a replica holds while it writes."""
_ROW = "(CAST(? AS INTEGER), CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BYTEA))"
_WRITE = """
WITH locked AS MATERIALIZED (SELECT pg_advisory_xact_lock(?))
INSERT INTO stream_message (owner, workspace, at, data)
SELECT added.owner, added.workspace, EXTRACT(EPOCH FROM clock_timestamp()), added.data
FROM locked CROSS JOIN (VALUES {rows}) AS added (place, owner, workspace, data)
ORDER BY added.place
RETURNING number
"""
_OLDEST = "SELECT min(number) FROM stream_message"
_READ = "SELECT number, owner, workspace, data FROM stream_message WHERE number >= ? ORDER BY number LIMIT ?"
# The newest message is kept, so that a replica that starts can recognise numbers that are too old.
_PRUNE = """
DELETE FROM stream_message WHERE number < (SELECT max(number) FROM stream_message) AND (
    at < EXTRACT(EPOCH FROM clock_timestamp()) - ?
    OR number <= (SELECT max(number) - ? FROM stream_message)
    OR number <= (
        SELECT max(number)
        FROM (SELECT number, sum(length(data)) OVER (ORDER BY number DESC) AS total FROM stream_message) AS sized
        WHERE total > ?
    )
)
"""


_RESET = msgspec.json.encode(RESET)


@dataclass(slots=True, eq=False)
class _Added:
    """A message that waits to be written."""

    data: bytes
    place: Place | None
    waiting: list[asyncio.Future[int | None]] = field(default_factory=list)
    """The results of the calls to `written` that wait for this message."""


class DatabaseStreamLog:
    """Writes the stream messages of this replica, and reads those of all replicas at least every `interval` seconds."""

    def __init__(self, database: Database, tasks: Tasks, *, interval: float) -> None:
        self._database = database
        self._tasks = tasks
        self._interval = interval
        self._reader: LogReader | None = None
        self._queue: deque[_Added] = deque()
        self._newest: _Added | None = None
        """The message that was added last; None if it has been written, or could not be."""
        self._last_written: int | None = None
        self._has_lost = False
        """Whether other replicas have missed a message since the last reset message."""
        self._last: int | None = None
        """The number of the last message that was read; None before the first read."""
        self._is_continuing = False
        """Whether `_last` is the number of a message, and not the number before the oldest one."""
        self._reading = asyncio.Lock()
        self._loaded = asyncio.Event()
        self._to_write = asyncio.Event()
        self._to_read = asyncio.Event()

    def start(self, reader: LogReader) -> None:
        self._reader = reader
        self._database.listen(CHANNEL, self._on_message)
        self._tasks.start(self._write_forever(), "stream log")
        self._tasks.start(self._read_forever(), "stream log of all replicas")
        self._tasks.start(self._prune_forever(), "old messages of the stream log")

    def add(self, data: bytes, place: Place | None) -> None:
        if len(self._queue) >= MAX_QUEUED:
            self._lose([self._queue.popleft()])
        self._newest = _Added(data, place)
        self._queue.append(self._newest)
        self._to_write.set()

    async def ready(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._loaded.wait()

    async def written(self) -> int | None:
        if self._newest is None:
            return self._last_written
        result: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._newest.waiting.append(result)
        try:
            async with asyncio.timeout(WRITE_PATIENCE):
                return await result
        except TimeoutError:
            return None

    async def catch_up(self, number: int) -> None:
        with suppress(DatabaseFailed, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                if self._last is None or self._last < number:
                    await self._read()

    def _on_message(self, payload: str) -> None:
        if not payload.isdecimal() or self._last is None or int(payload) > self._last:
            self._to_read.set()

    # ── Writing ──────────────────────────────────────────────────────────────────────────────────

    async def _write_forever(self) -> None:
        while True:
            with suppress(TimeoutError):
                # After an outage, the reset message is due even if there are no others.
                async with asyncio.timeout(self._interval if self._has_lost else None):
                    await self._to_write.wait()
            self._to_write.clear()
            await self._write_batch()
            while self._queue:
                await self._write_batch()

    async def _write_batch(self) -> None:
        batch = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
        resets = [_Added(_RESET, None)] if self._has_lost else []
        rows = [*resets, *batch]
        if not rows:
            return
        self._has_lost = False  # now, because a message may be lost while these are written
        parameters: list[object] = [_LOCK]
        for place, row in enumerate(rows):
            at = row.place
            parameters += (place, None if at is None else at.owner, None if at is None else at.workspace, row.data)
        statement = _WRITE.format(rows=", ".join([_ROW] * len(rows)))
        try:
            numbers = sorted(number for (number,) in await self._database.fetch(statement, parameters))
        except DatabaseFailed as error:
            log.debug("stream messages are sent to the pages of this replica only: %s", error)
            self._lose(batch)
            return
        self._last_written = numbers[-1]
        for message, number in zip(rows, numbers, strict=True):
            self._settle(message, number)
        self._to_read.set()
        with suppress(DatabaseFailed):
            await self._database.notify(CHANNEL, str(self._last_written))

    def _lose(self, batch: list[_Added]) -> None:
        """Send messages to the pages of this replica only."""
        self._has_lost = True
        for message in batch:
            if self._reader is not None:
                self._reader.take_unlogged(message.data, message.place)
            self._settle(message, None)

    def _settle(self, message: _Added, number: int | None) -> None:
        """Complete the calls to `written` that wait for a message. `number` is None if it could not be written."""
        if message is self._newest:
            self._newest = None
        for result in message.waiting:
            if not result.done():
                result.set_result(number)

    # ── Reading ──────────────────────────────────────────────────────────────────────────────────

    async def _read_forever(self) -> None:
        while True:
            self._to_read.clear()
            try:
                await self._read()
            except DatabaseFailed as error:
                log.debug("stream messages cannot be read from the database: %s", error)
                await asyncio.sleep(self._interval)  # the database reports the outage
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval):
                    await self._to_read.wait()

    async def _read(self) -> None:
        """Deliver all messages after the last one that was delivered."""
        async with self._reading:
            if self._last is None:
                await self._begin()
            while await self._read_some():
                pass
            self._loaded.set()

    async def _begin(self) -> None:
        """Begin with the oldest message."""
        ((oldest,),) = await self._database.fetch(_OLDEST)
        self._restart(0 if oldest is None else oldest - 1)

    async def _read_some(self) -> bool:
        """Deliver the next messages. Return whether there may be more."""
        last = self._last or 0
        rows = await self._database.fetch(_READ, (last, READ_AT_ONCE))
        found = [
            LoggedMessage(number, bytes(data), _place(owner, workspace)) for number, owner, workspace, data in rows
        ]
        if self._is_continuing and (not found or found[0].number != last):
            # The last message has been removed, and perhaps others after it.
            await self._begin()
            return True
        if self._is_continuing:
            del found[0]
        elif found and found[0].number > last + 1:
            self._restart(found[0].number - 1)
        if found and self._reader is not None:
            self._last = found[-1].number
            self._is_continuing = True
            self._reader.take(found)
        return len(rows) == READ_AT_ONCE

    def _restart(self, number: int) -> None:
        """Continue after this number, and tell the reader that messages may have been missed."""
        self._last = number
        self._is_continuing = False
        if self._reader is not None:
            self._reader.restart(number)

    async def _prune_forever(self) -> None:
        while True:
            await asyncio.sleep(PRUNE_EVERY)
            with suppress(DatabaseFailed):
                await self.prune()

    async def prune(self, *, age: float = MAX_AGE, messages: int = MAX_MESSAGES, size: int = MAX_BYTES) -> None:
        """Remove the messages beyond a maximum age in seconds, a maximum number, and a maximum total size in bytes."""
        await self._database.execute(_PRUNE, (age, messages, size))


def _place(owner: str | None, workspace: str | None) -> Place | None:
    return None if owner is None or workspace is None else Place(owner, workspace)
