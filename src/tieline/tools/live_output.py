"""What a command writes, for whoever looks on while it runs: both streams as they come, at a pace one can follow.

Of long output the beginning and the end are shown. What is shown is told whole each time, so a command that goes on for
long is told of less often.
"""

import asyncio
import math
from codecs import getincrementaldecoder
from typing import Self

from tieline.model.ports import Progress, Report
from tieline.tools.bounded_output import Captured

HEAD = 4 << 10
TAIL = 12 << 10
SOONEST = 0.1
"""Seconds between two looks at a command that writes all the time."""
LATEST = 1.0
"""The same, once it has been running for a minute."""
LONG = 60.0

_Decoder = getincrementaldecoder("utf-8")


class Screen:
    """The output of one command; `report` hears how it grows, and at last how it ended."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._told = -math.inf
        self._written = Captured(HEAD, TAIL)
        # One for each stream: a character that came half must not be mixed with what the other one says.
        self._decoders = {1: _Decoder("replace"), 2: _Decoder("replace")}
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def write(self, stream: int, data: bytes) -> None:
        """More of a stream."""
        self._add(self._decoders[stream].decode(data))
        if self._timer is None:
            due = self._told + self._pause() - self._loop.time()
            self._timer = self._loop.call_later(max(due, 0.0), self._tell)

    def end(self, ending: str, *, exit_code: int | None = None, is_failed: bool = False) -> None:
        """Report the end of the command; `ending` says how it ended."""
        self._stop()
        for decoder in self._decoders.values():
            self._add(decoder.decode(b"", final=True))
        written = self._written.text().rstrip()
        output = f"{written}\n({ending})".lstrip("\n")
        self._report(Progress(output=output, exit_code=exit_code, is_failed=is_failed))

    def _add(self, text: str) -> None:
        self._written.feed(text.encode())

    def _pause(self) -> float:
        return min(max(SOONEST, LATEST * (self._loop.time() - self._began) / LONG), LATEST)

    def _tell(self) -> None:
        self._timer = None
        self._told = self._loop.time()
        self._report(Progress(output=self._written.text()))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
