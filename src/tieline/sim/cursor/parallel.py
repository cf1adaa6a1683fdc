"""Runs several routines concurrently: advances each one to its next wait, then waits for all of them together."""

from collections.abc import Iterable
from typing import Generic

from tieline.sim.cursor.steps import Result, Routine, Steps, Wait


class Parallel(Generic[Result]):
    """Runs routines concurrently. The results are in the order of the routines."""

    def __init__(self, routines: Iterable[Routine[Result]]) -> None:
        self._routines = list(routines)
        self._waiting: dict[int, Wait] = {}
        self._results: dict[int, Result] = {}

    def begin(self) -> Steps:
        """Advance every routine to its first wait."""
        for index in range(len(self._routines)):
            yield from self._advance(index)

    def finish(self) -> Routine[list[Result]]:
        """Run all routines to their end, and return their results."""
        while self._waiting:
            waits = list(self._waiting.values())
            yield Wait(until=lambda waits=waits: any(wait.until() for wait in waits))  # type: ignore[misc]  # a default argument binds the current value
            ready = [index for index, wait in self._waiting.items() if wait.until()]
            # After a timeout, advance all of them: each routine checks its own condition.
            for index in ready or list(self._waiting):
                yield from self._advance(index)
        return [self._results[index] for index in range(len(self._routines))]

    def _advance(self, index: int) -> Steps:
        self._waiting.pop(index, None)
        try:
            while True:
                step = next(self._routines[index])
                if isinstance(step, Wait):
                    self._waiting[index] = step
                    return
                yield step
        except StopIteration as stop:
            self._results[index] = stop.value
