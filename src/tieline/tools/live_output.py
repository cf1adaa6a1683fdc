"""Reports the output of a running command: both streams in order of arrival, at a limited rate.

Each report contains the complete output so far, cut to its beginning and end if it is long. To limit the amount of
data, reports become less frequent the longer a command runs.
"""

import asyncio
import math
from codecs import getincrementaldecoder
from typing import Self

from tieline.model.ports import Progress, Report
from tieline.tools.bounded_output import BoundedOutput

HEAD = 4 << 10
TAIL = 12 << 10
MIN_INTERVAL = 0.1
"""Minimum seconds between two reports when a command has just started."""
MAX_INTERVAL = 1.0
"""Minimum seconds between two reports once a command has run for SLOWEST_AFTER seconds."""
SLOWEST_AFTER = 60.0

_Decoder = getincrementaldecoder("utf-8")


class LiveOutput:
    """The output of one command. `report` is called with the output as it grows, and when the command has ended."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._last_report = -math.inf
        self._written = BoundedOutput(HEAD, TAIL)
        # One decoder for each stream, because a read can end in the middle of a character.
        self._decoders = {1: _Decoder("replace"), 2: _Decoder("replace")}
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def write(self, stream: int, data: bytes) -> None:
        """Append data that the command wrote to stdout (`stream` 1) or stderr (2), and schedule a report."""
        self._add(self._decoders[stream].decode(data))
        if self._timer is None:
            due = self._last_report + self._interval() - self._loop.time()
            self._timer = self._loop.call_later(max(due, 0.0), self._report_output)

    def end(self, ending: str, *, exit_code: int | None = None, is_failed: bool = False) -> None:
        """Report the end of the command. `ending` describes it, for example "exit code: 0"."""
        self._stop()
        for decoder in self._decoders.values():
            self._add(decoder.decode(b"", final=True))
        written = self._written.text().rstrip()
        output = f"{written}\n({ending})".lstrip("\n")
        self._report(Progress(output=output, exit_code=exit_code, is_failed=is_failed))

    def _add(self, text: str) -> None:
        self._written.feed(text.encode())

    def _interval(self) -> float:
        return min(max(MIN_INTERVAL, MAX_INTERVAL * (self._loop.time() - self._began) / SLOWEST_AFTER), MAX_INTERVAL)

    def _report_output(self) -> None:
        self._timer = None
        self._last_report = self._loop.time()
        self._report(Progress(output=self._written.text()))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
