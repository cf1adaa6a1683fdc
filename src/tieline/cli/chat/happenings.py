"""Queues everything that happens in a chat, in order: keys from the user and news from the gateway."""

import asyncio
import contextlib

from tieline.cli.chat.keys import INTERRUPT, QUIT, Key
from tieline.cli.chat.link import LinkEvent

Happening = Key | LinkEvent

MAX_WAITING = 2000
"""Maximum number of happenings that wait to be processed."""


class Happenings:
    """A queue with two writers. If it is full, keys are dropped, and the gateway's stream has to wait."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Happening] = asyncio.Queue(MAX_WAITING)

    def press(self, key: Key) -> None:
        """Add a key."""
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(key)

    async def hear(self, event: LinkEvent) -> None:
        """Add an event that the link to the gateway reports."""
        await self._queue.put(event)

    async def next(self, within: float | None = None) -> Happening | None:
        """Return the next happening, or None if there is none within this many seconds."""
        if not self._queue.empty():
            return self._queue.get_nowait()
        try:
            async with asyncio.timeout(within):
                return await self._queue.get()
        except TimeoutError:
            return None

    def drop_keys(self) -> None:
        """Discard the keys that wait to be processed, except those that stop or quit."""
        waiting = [self._queue.get_nowait() for _ in range(self._queue.qsize())]
        for happening in waiting:
            if not isinstance(happening, Key) or happening in (INTERRUPT, QUIT):
                self._queue.put_nowait(happening)
