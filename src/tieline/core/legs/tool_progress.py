"""A call of the gateway's tools under way: what is told of it meanwhile, and what came of it.

It runs beside whoever takes the events, so that a command can be watched while it runs. What was not taken in time is
replaced by what is newer: a slow reader gets less, and not more and more.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from tieline.model.content import Text, ToolResult
from tieline.model.events import Activity, Event, Plan, Status
from tieline.model.ports import Progress, Report
from tieline.tasks import Tasks

MOST_OUTPUT = 4000
"""So much of a result is shown to whoever looks on; the model gets all of it."""

Work = Callable[[Report], Coroutine[Any, Any, ToolResult]]


class Doing:
    """One call that is being run; `activity` is what was told of it before."""

    def __init__(self, activity: Activity, work: Work) -> None:
        self.result: ToolResult | None = None
        """What came of it, once its end was told."""
        self._activity = activity
        self._progress = Progress()
        self._plan: Plan | None = None
        self._news = asyncio.Event()
        self._tasks = Tasks()
        self._work = self._tasks.start(work(self._hear), activity.title)
        self._work.add_done_callback(lambda _: self._news.set())

    async def events(self) -> list[Event]:
        """What is new of it, as soon as something is; at last its end."""
        await self._news.wait()
        self._news.clear()
        plan, self._plan = self._plan, None
        if self._work.done():
            self.result = self._work.result()
        # A plan is told after the call that changed it: it is what came of that.
        return [self._shown(), plan] if plan is not None else [self._shown()]

    async def aclose(self) -> None:
        """End it, if it is not over, with everything it started."""
        await self._tasks.aclose()

    def _hear(self, update: Progress | Plan) -> None:
        if isinstance(update, Plan):
            self._plan = update
        else:
            self._progress = update
        self._news.set()

    def _shown(self) -> Activity:
        progress = self._progress
        output = progress.output
        status: Status = "in_progress"
        if self.result is not None:
            status = "failed" if self.result.is_error or progress.is_failed else "completed"
            output = _text(self.result)[:MOST_OUTPUT] if output is None else output
        return replace(
            self._activity,
            status=status,
            output=output or "",
            diffs=progress.diffs,
            exit_code=progress.exit_code,
        )


def _text(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, Text))
