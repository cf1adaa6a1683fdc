"""What upstreams ask of the person: each ask waits in a task of its own until it is decided or taken back."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from tieline.model.inbox import Answer, Approval, InboxItem, PlanReview, Question
from tieline.model.ports import Human
from tieline.tasks import Tasks

log = logging.getLogger("tieline.asks")


async def put(ask: InboxItem, human: Human) -> Answer:
    """The person's answer to an ask of any kind."""
    match ask:
        case Approval():
            return await human.permit(ask)
        case PlanReview():
            return await human.review(ask)
        case Question():
            return await human.fill(ask)


class Asked:
    """The asks of one conversation that wait, by the numbers their upstream knows them by."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._waiting: dict[int, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, number: int) -> bool:
        return number in self._waiting

    def begin(self, number: int, work: Coroutine[Any, Any, None], what: str, give_up: Callable[[], None]) -> None:
        """Ask, and answer the upstream. Whatever breaks on the way, `give_up` answers it: it would wait for ever."""
        task = self._tasks.start(_guarded(work, what, give_up), f"asking for {what}")
        self._waiting[number] = task
        task.add_done_callback(lambda task: self._done(number, task, work))

    def withdraw(self, number: int) -> None:
        """This needs no answer any more."""
        task = self._waiting.pop(number, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Nothing needs an answer any more."""
        for number in list(self._waiting):
            self.withdraw(number)

    def _done(self, number: int, task: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
        if self._waiting.get(number) is task:
            del self._waiting[number]
        work.close()  # what was taken back before it could begin is never awaited


async def _guarded(work: Coroutine[Any, Any, None], what: str, give_up: Callable[[], None]) -> None:
    try:
        await work
    except Exception:
        log.exception("%s could not be put to anybody", what)
        give_up()
