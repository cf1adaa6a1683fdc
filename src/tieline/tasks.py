"""Background tasks that are kept, named and reaped: the loop holds them only weakly; and a step aside for others."""

import asyncio
import logging
import types
from collections.abc import Coroutine, Generator
from typing import Any

log = logging.getLogger("tieline.tasks")


@types.coroutine
def step_aside() -> Generator[None, None, None]:
    """Let everybody else who is ready go first; the same as sleeping for no time at all, at half the cost."""
    yield


class Tasks:
    """The tasks of one owner; they end with it at the latest."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something in the background; if it fails nobody else hears of it, so it is logged."""
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._reap)
        return task

    async def aclose(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _reap(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task %s failed", task.get_name(), exc_info=error)
