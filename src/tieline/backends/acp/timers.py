"""Timers that are started and stopped by name."""

import asyncio
from collections.abc import Callable


class Timers:
    """The running timers, by name. Starting a timer stops an earlier timer with the same name."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[str, asyncio.TimerHandle] = {}

    def start(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        """Call `do` after `seconds`. An earlier timer with the same name is stopped."""
        self.stop(name)
        self._running[name] = self._loop.call_later(seconds, do)

    def stop(self, name: str) -> None:
        """Stop a timer, if it is running."""
        timer = self._running.pop(name, None)
        if timer is not None:
            timer.cancel()

    def stop_all(self) -> None:
        """Stop all timers."""
        for name in list(self._running):
            self.stop(name)
