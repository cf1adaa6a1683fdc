"""Inbox items that upstreams create. Each waits in its own task until it is answered or withdrawn."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tieline.model.inbox import Answer, Approval, InboxItem, PlanReview, Question
from tieline.model.ports import Human
from tieline.tasks import Tasks

log = logging.getLogger("tieline.inbox")


async def submit(item: InboxItem, human: Human) -> Answer:
    """Submit an item of any kind to the inbox and return the person's answer."""
    match item:
        case Approval():
            return await human.permit(item)
        case PlanReview():
            return await human.review(item)
        case Question():
            return await human.fill(item)


class PendingItems:
    """A set of open inbox items. Each is identified by the number of the upstream's request."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._waiting: dict[int, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, number: int) -> bool:
        return number in self._waiting

    def begin(self, number: int, work: Coroutine[Any, Any, None], what: str, give_up: Callable[[], None]) -> None:
        """Start a task that runs `work`, which submits an item and answers the upstream.

        If `work` raises an exception, `give_up` is called and must answer the upstream. `what` is for the log.
        """
        task = self._tasks.start(_guarded(work, what, give_up), f"inbox item: {what}")
        self._waiting[number] = task
        task.add_done_callback(lambda task: self._done(number, task, work))

    def withdraw(self, number: int) -> None:
        """Cancel the task of an item, if the item is still open."""
        task = self._waiting.pop(number, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Cancel the tasks of all open items."""
        for number in list(self._waiting):
            self.withdraw(number)

    def _done(self, number: int, task: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
        if self._waiting.get(number) is task:
            del self._waiting[number]
        work.close()  # a task that is cancelled before it starts never awaits its coroutine


async def _guarded(work: Coroutine[Any, Any, None], what: str, give_up: Callable[[], None]) -> None:
    try:
        await work
    except Exception:
        log.exception("could not process %s", what)
        give_up()
