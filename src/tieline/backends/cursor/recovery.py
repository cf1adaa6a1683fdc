"""Decides whether and how to retry when an attempt fails.

The numbers of retries and the delays are those of Cursor's own client: three retries after an error, ten after a lost
connection, with exponential back-off. If the service sends nothing, or nothing but heartbeats, there is at most one
retry. In any case, no retry begins later than `GIVE_UP_AFTER` seconds after the first failure of a leg.
"""

import random
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from tieline.backends.cursor.pipes import Transport
from tieline.model.events import Failed
from tieline.wire.cursor.errors import is_retryable

MAX_RETRIES = 3
"""Maximum number of retries in one leg after errors that the service reported."""
MAX_RECONNECTS = 10
"""Maximum number of retries in one leg after lost connections."""
FIRST_BACK_OFF = 2.0
LONGEST_BACK_OFF = 60.0
JITTER = 0.1
LONGEST_WAIT = 20.0
"""If the service asks the client to wait for more than this many seconds, there is no retry."""
GIVE_UP_AFTER = 600.0

BROKEN = "cursor_broken"
SILENT = "cursor_silent"
STALLED = "cursor_stalled"
HTTP2_REFUSED = "cursor_http2_refused"

_CUTS = (BROKEN, "cursor_incomplete")
_REBUILT = {
    "cursor_blob_missing": "the service lost the conversation: rebuilt it from the history",
    "cursor_poisoned": "the conversation was refused without a reason: gave it a new id",
}
"""Error codes after which the history is sent again under a new conversation id, each with the note for the user."""


class RestartFrom(Enum):
    """The point from which the next attempt continues."""

    HISTORY = auto()
    CHECKPOINT = auto()


class Remedy(NamedTuple):
    """How to retry: the steps before the next attempt, and the point from which that attempt continues."""

    start: RestartFrom = RestartFrom.HISTORY
    wait: float = 0.0
    """Seconds to wait before the attempt."""
    renew: bool = False
    """Whether to renew the access token first."""
    rotate: bool = False
    """Whether to give the conversation a new id."""
    transport: Transport | None = None
    """The transport to change to, if any."""
    why: str = ""
    """The reason for the retry, as a note for the user."""


class Recovery:
    """Decides on retries in one leg. If `is_fixed` is true, the transport never changes: the user chose it."""

    def __init__(
        self,
        transport: Transport,
        *,
        is_fixed: bool = False,
        clock: Callable[[], float] = lambda: 0.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.transport: Transport = transport
        self._is_fixed = is_fixed
        self._clock = clock
        self._jitter = jitter
        self._failing_since: float | None = None
        self._tries = 0
        self._cuts = 0
        self._used: set[str] = set()
        self._has_resumed = False

    def remedy(self, failed: Failed, *, has_checkpoint: bool) -> Remedy | None:
        """Return how to retry after a failure, or None to report the failure to the client instead.

        `has_checkpoint` says whether the next attempt can continue from a checkpoint.
        """
        if self._failing_since is None:
            self._failing_since = self._clock()
        remedy = self._remedy(failed, RestartFrom.CHECKPOINT if has_checkpoint else RestartFrom.HISTORY)
        if remedy is None or self._clock() + remedy.wait - self._failing_since > GIVE_UP_AFTER:
            return None
        return remedy

    def _remedy(self, failed: Failed, start: RestartFrom) -> Remedy | None:
        code = failed.code or ""
        if code == "cursor_unauthenticated":
            return self._once(code, Remedy(start, renew=True, why="the token was refused: renewed it"))
        if code in ("cursor_http1_refused", HTTP2_REFUSED):
            return self._switched(code, start)
        if code == STALLED:
            return self._once("quiet", Remedy(rotate=True, why="nothing but heartbeats came: replayed the history"))
        if code == SILENT:
            wait = self._back_off(1)
            return self._once("quiet", Remedy(start, wait=wait, why="the service fell silent: tried once more"))
        if code in _CUTS:
            return self._reconnected(start)
        if code in _REBUILT:
            return self._tried(RestartFrom.HISTORY, _REBUILT[code], rotate=True)
        if is_retryable(failed):
            # If the service cannot continue from its checkpoint, the history may work.
            start, self._has_resumed = (
                RestartFrom.HISTORY if self._has_resumed else start,
                start is RestartFrom.CHECKPOINT,
            )
            return self._tried(start, f"the service failed ({failed.kind})", wait=failed.retry_after)
        return None

    def _once(self, what: str, remedy: Remedy) -> Remedy | None:
        if what in self._used:
            return None
        self._used.add(what)
        return remedy

    def _switched(self, code: str, start: RestartFrom) -> Remedy | None:
        refused: Transport = "http1" if code == "cursor_http1_refused" else "http2"
        if refused != self.transport or self._is_fixed:
            return None
        other: Transport = "http2" if refused == "http1" else "http1"
        why = f"the service does not take {refused}: changed to {other}"
        remedy = self._once("transport", Remedy(start, transport=other, why=why))
        if remedy is not None:
            self.transport = other
        return remedy

    def _reconnected(self, start: RestartFrom) -> Remedy | None:
        self._cuts += 1
        if self._cuts > MAX_RECONNECTS:
            return None
        return Remedy(start, wait=self._back_off(self._cuts), why=f"the stream was lost: retry {self._cuts}")

    def _tried(self, start: RestartFrom, why: str, *, wait: float | None = None, rotate: bool = False) -> Remedy | None:
        self._tries += 1
        if self._tries > MAX_RETRIES or (wait is not None and wait > LONGEST_WAIT):
            return None
        wait = self._back_off(self._tries) if wait is None else wait
        return Remedy(start, wait=wait, rotate=rotate, why=f"{why}: retry {self._tries}")

    def _back_off(self, number: int) -> float:
        """Return the seconds to wait before a retry: 2 for `number` 1, then 4, 8 and so on up to 60, plus 0 to 10%."""
        wait: float = min(FIRST_BACK_OFF * 2 ** (number - 1), LONGEST_BACK_OFF)
        return wait * (1 + JITTER * self._jitter())
