"""Run a call to one of the gateway's tools, and report its progress as events.

The call runs in its own task, so that its output can be shown while it runs. Only the latest progress is kept until it
is read, so that no queue builds up for a slow reader.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from tieline.model.content import Text, ToolResult
from tieline.model.events import Activity, Event, Plan, Status
from tieline.model.ports import Progress, Report
from tieline.tasks import Tasks

MAX_OUTPUT = 4000
"""Maximum number of characters of a result that an activity shows. The model receives the complete result."""

Work = Callable[[Report], Coroutine[Any, Any, ToolResult]]


class RunningCall:
    """A call in progress. `activity` is the event with which the call was announced to the client."""

    def __init__(self, activity: Activity, work: Work) -> None:
        self.result: ToolResult | None = None
        """The result, set once `events` has returned the final activity."""
        self._activity = activity
        self._progress = Progress()
        self._plan: Plan | None = None
        self._has_news = asyncio.Event()
        self._tasks = Tasks()
        self._work = self._tasks.start(work(self._report), activity.title)
        self._work.add_done_callback(lambda _: self._has_news.set())

    async def events(self) -> list[Event]:
        """Wait for progress or the end of the call. Return the updated activity, and the plan if it has changed."""
        await self._has_news.wait()
        self._has_news.clear()
        plan, self._plan = self._plan, None
        if self._work.done():
            self.result = self._work.result()
        # The plan follows the call that changed it, because it is a result of that call.
        return [self._current(), plan] if plan is not None else [self._current()]

    async def aclose(self) -> None:
        """Cancel the call, if it is still running, and everything it started."""
        await self._tasks.aclose()

    def _report(self, update: Progress | Plan) -> None:
        if isinstance(update, Plan):
            self._plan = update
        else:
            self._progress = update
        self._has_news.set()

    def _current(self) -> Activity:
        progress = self._progress
        output = progress.output
        status: Status = "in_progress"
        if self.result is not None:
            status = "failed" if self.result.is_error or progress.is_failed else "completed"
            output = _text(self.result)[:MAX_OUTPUT] if output is None else output
        return replace(
            self._activity,
            status=status,
            output=output or "",
            diffs=progress.diffs,
            exit_code=progress.exit_code,
        )


def _text(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, Text))
