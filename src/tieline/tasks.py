"""Background tasks whose owner keeps a reference to them, because the event loop holds only weak references."""

import asyncio
import logging
import types
from collections.abc import Coroutine, Generator
from typing import Any

log = logging.getLogger("tieline.tasks")


@types.coroutine
def step_aside() -> Generator[None, None, None]:
    """Let other ready tasks run first. Equivalent to `asyncio.sleep(0)`, at half the cost."""
    yield


class Tasks:
    """A group of background tasks. `aclose` cancels those that are still running."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine as a background task. Log its exception if it fails."""
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._reap)
        return task

    async def aclose(self) -> None:
        """Cancel the running tasks and wait until they have ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _reap(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background task %s failed", task.get_name(), exc_info=error)
