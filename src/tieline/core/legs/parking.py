"""Runs that wait for tool results: the lot where they stand between two requests of a client.

A run is parked when its leg ends with calls that the client has to run, under the id of every call it waits for. The
ids are minted here and cannot be guessed, so an id is index and proof at once: whoever brings a result for it has seen
the call. A run is claimed at most once. It does not wait for ever: after the deadline, or when the lot is full and it
is the oldest, it is closed, and a result that comes too late starts a new run from the whole history.
"""

import asyncio
from collections.abc import Mapping

from tieline.core.watch.metrics import Metrics
from tieline.model.ports import Run
from tieline.tasks import Tasks

DEADLINE = 15 * 60.0
CAPACITY = 1024


class Parked:
    """A run that waits, and what it was asked of: a result for another backend or model is not for this run."""

    __slots__ = ("backend", "is_shown", "model", "pending", "run", "timer")

    def __init__(self, run: Run, backend: str, model: str, *, is_shown: bool = False) -> None:
        self.run = run
        self.backend = backend
        self.model = model
        self.is_shown = is_shown
        """Whether it does things without the client that have to be shown."""
        self.pending = run.pending
        self.timer: asyncio.TimerHandle | None = None


class Lot:
    """The parked runs, oldest first."""

    def __init__(self, tasks: Tasks, metrics: Metrics, *, deadline: float = DEADLINE, capacity: int = CAPACITY) -> None:
        self._tasks = tasks
        self._metrics = metrics
        self._deadline = deadline
        self._capacity = capacity
        self._runs: dict[Parked, None] = {}
        self._waiting: dict[str, Parked] = {}
        self.waiting: Mapping[str, Parked] = self._waiting
        """The parked runs by every call id they wait for."""

    def park(self, parked: Parked) -> None:
        """Put a run aside until one of its results comes."""
        while len(self._runs) >= self._capacity:
            self._metrics.crowded_out += 1
            self.close(next(iter(self._runs)))
        parked.timer = asyncio.get_running_loop().call_later(self._deadline, self._expire, parked)
        self._runs[parked] = None
        for call_id in parked.pending:
            self._waiting[call_id] = parked
        self._metrics.parked = len(self._runs)

    def claim(self, parked: Parked) -> bool:
        """Take a run out; False if somebody else was faster."""
        if parked not in self._runs:
            return False
        del self._runs[parked]
        for call_id in parked.pending:
            self._waiting.pop(call_id, None)
        if parked.timer is not None:
            parked.timer.cancel()
        self._metrics.parked = len(self._runs)
        return True

    def close(self, parked: Parked) -> None:
        """Nobody will come back for this run."""
        if self.claim(parked):
            self._tasks.start(parked.run.aclose(), "closing a parked run")

    async def aclose(self) -> None:
        """Close every run that still waits."""
        runs = list(self._runs)
        for parked in runs:
            self.claim(parked)
        await asyncio.gather(*(parked.run.aclose() for parked in runs), return_exceptions=True)

    def _expire(self, parked: Parked) -> None:
        self._metrics.expired += 1
        self.close(parked)
