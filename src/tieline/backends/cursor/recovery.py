"""Decide what to do when an attempt fails, from the failure, what was tried before and what the client has seen.

The counts and delays are those of Cursor's own client: three retries after an error, ten after a lost connection, with
exponential back-off. Silence and stalls cost at most one more run. No retry begins later than `GIVE_UP_AFTER` seconds
after the first failure of a leg, whatever the counts say.
"""

import random
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from tieline.backends.cursor.pipes import Transport
from tieline.model.events import Failed
from tieline.wire.cursor.errors import is_retryable

MOST_TRIES = 3
"""Retries after an error of the service, in one leg."""
MOST_CUTS = 10
"""Retries after a lost connection, in one leg."""
FIRST_BACK_OFF = 2.0
LONGEST_BACK_OFF = 60.0
JITTER = 0.1
LONGEST_WAIT = 20.0
"""A service that asks for a longer pause than this is not waited for."""
GIVE_UP_AFTER = 600.0

BROKEN = "cursor_broken"
SILENT = "cursor_silent"
STALLED = "cursor_stalled"
NOT_SPOKEN = "cursor_http2_refused"

_CUTS = (BROKEN, "cursor_incomplete")
_REBUILT = {
    "cursor_blob_missing": "the service lost the conversation: rebuilt it from the history",
    "cursor_poisoned": "the conversation was refused without a reason: gave it a new id",
}
"""Failures of the conversation rather than of the service: it is told again under a new id."""


class RestartFrom(Enum):
    """How the next attempt begins."""

    AGAIN = auto()
    """From the whole history, as if nothing had been."""
    RESUME = auto()
    """From the last checkpoint."""


class Remedy(NamedTuple):
    """What to do before the next attempt, and how it begins."""

    kind: RestartFrom = RestartFrom.AGAIN
    wait: float = 0.0
    renew: bool = False
    rotate: bool = False
    transport: Transport | None = None
    """The transport to change to, if the one in use is the trouble."""
    why: str = ""


class Recovery:
    """The retries of one leg. With `is_fixed` the transport was set by the user and is never changed."""

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
        """Return what may help, or None if the client has to hear of the failure."""
        if self._failing_since is None:
            self._failing_since = self._clock()
        remedy = self._remedy(failed, RestartFrom.RESUME if has_checkpoint else RestartFrom.AGAIN)
        if remedy is None or self._clock() + remedy.wait - self._failing_since > GIVE_UP_AFTER:
            return None
        return remedy

    def _remedy(self, failed: Failed, kind: RestartFrom) -> Remedy | None:
        code = failed.code or ""
        if code == "cursor_unauthenticated":
            return self._once(code, Remedy(kind, renew=True, why="the token was refused: renewed it"))
        if code in ("cursor_http1_refused", NOT_SPOKEN):
            return self._switched(code, kind)
        if code == STALLED:
            return self._once("quiet", Remedy(rotate=True, why="nothing but heartbeats came: replayed the history"))
        if code == SILENT:
            wait = self._back_off(1)
            return self._once("quiet", Remedy(kind, wait=wait, why="the service fell silent: tried once more"))
        if code in _CUTS:
            return self._reconnected(kind)
        if code in _REBUILT:
            return self._tried(RestartFrom.AGAIN, _REBUILT[code], rotate=True)
        if is_retryable(failed):
            # A service that does not continue from its checkpoint may do so from the history.
            kind, self._has_resumed = RestartFrom.AGAIN if self._has_resumed else kind, kind is RestartFrom.RESUME
            return self._tried(kind, f"the service failed ({failed.kind})", wait=failed.retry_after)
        return None

    def _once(self, what: str, remedy: Remedy) -> Remedy | None:
        if what in self._used:
            return None
        self._used.add(what)
        return remedy

    def _switched(self, code: str, kind: RestartFrom) -> Remedy | None:
        refused: Transport = "http1" if code == "cursor_http1_refused" else "http2"
        if refused != self.transport or self._is_fixed:
            return None
        other: Transport = "http2" if refused == "http1" else "http1"
        why = f"the service does not take {refused}: changed to {other}"
        remedy = self._once("transport", Remedy(kind, transport=other, why=why))
        if remedy is not None:
            self.transport = other
        return remedy

    def _reconnected(self, kind: RestartFrom) -> Remedy | None:
        self._cuts += 1
        if self._cuts > MOST_CUTS:
            return None
        return Remedy(kind, wait=self._back_off(self._cuts), why=f"the stream was lost: retry {self._cuts}")

    def _tried(self, kind: RestartFrom, why: str, *, wait: float | None = None, rotate: bool = False) -> Remedy | None:
        self._tries += 1
        if self._tries > MOST_TRIES or (wait is not None and wait > LONGEST_WAIT):
            return None
        wait = self._back_off(self._tries) if wait is None else wait
        return Remedy(kind, wait=wait, rotate=rotate, why=f"{why}: retry {self._tries}")

    def _back_off(self, number: int) -> float:
        """Return the delay before a retry, counted from 1: 2, 4, 8 … 60 seconds, and up to a tenth more."""
        wait: float = min(FIRST_BACK_OFF * 2 ** (number - 1), LONGEST_BACK_OFF)
        return wait * (1 + JITTER * self._jitter())
