"""Parked runs: runs that wait for tool results between two requests from a client.

A run is parked when its leg ends with calls for the client. It can then be found by the id of each call. The ids are
random and cannot be guessed, so knowing an id proves that the client has seen the call. A run is claimed at most once.
A run that is not claimed is closed after a deadline; when there are too many parked runs, the oldest is closed. Results
that arrive later start a new run from the complete history.
"""

import asyncio
from collections.abc import Mapping

from tieline.core.watch.metrics import Metrics
from tieline.model.ports import Run
from tieline.tasks import Tasks

DEADLINE = 15 * 60.0
CAPACITY = 1024


class ParkedRun:
    """A parked run. It is resumed only by a request of the same owner for the same backend and model."""

    __slots__ = ("backend", "is_shown", "model", "owner", "pending", "run", "timer")

    def __init__(self, run: Run, backend: str, model: str, *, owner: str = "", is_shown: bool = False) -> None:
        self.run = run
        self.backend = backend
        self.model = model
        self.owner = owner
        """The name of the client's key."""
        self.is_shown = is_shown
        """Whether the client sees the activities of the run."""
        self.pending = run.pending
        self.timer: asyncio.TimerHandle | None = None


class ParkedRuns:
    """Holds the parked runs, oldest first, and closes those that are not claimed in time."""

    def __init__(self, tasks: Tasks, metrics: Metrics, *, deadline: float = DEADLINE, capacity: int = CAPACITY) -> None:
        self._tasks = tasks
        self._metrics = metrics
        self._deadline = deadline
        self._capacity = capacity
        self._runs: dict[ParkedRun, None] = {}
        self._waiting: dict[str, dict[str, ParkedRun]] = {}
        self.waiting: Mapping[str, Mapping[str, ParkedRun]] = self._waiting
        """The parked runs, by owner and by the ids of the calls whose results they wait for. A request finds only runs
        of its own owner, so knowing the id of a call is not enough to resume the run of another owner."""

    def park(self, parked: ParkedRun) -> None:
        """Park a run until it is claimed or the deadline passes. If the capacity is exceeded, close the oldest run."""
        while len(self._runs) >= self._capacity:
            self._metrics.crowded_out += 1
            self.close(next(iter(self._runs)))
        parked.timer = asyncio.get_running_loop().call_later(self._deadline, self._expire, parked)
        self._runs[parked] = None
        waiting = self._waiting.setdefault(parked.owner, {})
        for call_id in parked.pending:
            waiting[call_id] = parked
        self._metrics.parked = len(self._runs)

    def claim(self, parked: ParkedRun) -> bool:
        """Remove a run so that the caller can resume it. Return False if it is no longer parked."""
        if parked not in self._runs:
            return False
        del self._runs[parked]
        waiting = self._waiting.get(parked.owner, {})
        for call_id in parked.pending:
            waiting.pop(call_id, None)
        if not waiting:
            self._waiting.pop(parked.owner, None)
        if parked.timer is not None:
            parked.timer.cancel()
        self._metrics.parked = len(self._runs)
        return True

    def close(self, parked: ParkedRun) -> None:
        """Remove and close a run that will not be resumed."""
        if self.claim(parked):
            self._tasks.start(parked.run.aclose(), "closing a parked run")

    async def aclose(self) -> None:
        """Close all parked runs."""
        runs = list(self._runs)
        for parked in runs:
            self.claim(parked)
        await asyncio.gather(*(parked.run.aclose() for parked in runs), return_exceptions=True)

    def _expire(self, parked: ParkedRun) -> None:
        self._metrics.expired += 1
        self.close(parked)
