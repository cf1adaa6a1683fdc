"""Several doings at once: each goes as far as it can, and all wait together."""

from collections.abc import Iterable
from typing import Generic

from tieline.sim.cursor.steps import Doing, Result, Steps, Wait


class Together(Generic[Result]):
    """Plays doings side by side; what they came to is in their order."""

    def __init__(self, doings: Iterable[Doing[Result]]) -> None:
        self._doings = list(doings)
        self._waiting: dict[int, Wait] = {}
        self._results: dict[int, Result] = {}

    def begin(self) -> Steps:
        """Everything up to the first wait of each."""
        for index in range(len(self._doings)):
            yield from self._advance(index)

    def finish(self) -> Doing[list[Result]]:
        """The rest of it."""
        while self._waiting:
            waits = list(self._waiting.values())
            yield Wait(until=lambda waits=waits: any(wait.until() for wait in waits))  # type: ignore[misc]  # a default is how a lambda remembers
            ready = [index for index, wait in self._waiting.items() if wait.until()]
            # Patience that ran out is for each of them to judge.
            for index in ready or list(self._waiting):
                yield from self._advance(index)
        return [self._results[index] for index in range(len(self._doings))]

    def _advance(self, index: int) -> Steps:
        self._waiting.pop(index, None)
        try:
            while True:
                step = next(self._doings[index])
                if isinstance(step, Wait):
                    self._waiting[index] = step
                    return
                yield step
        except StopIteration as stop:
            self._results[index] = stop.value
