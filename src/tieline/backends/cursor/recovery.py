"""What to do when an attempt fails: a decision from the failure, what was tried already and what the client has seen.

Nothing is tried for ever: each remedy has its own small number of uses in a leg; what is left is told to the client.
"""

from enum import Enum, auto
from typing import NamedTuple

from tieline.backends.cursor.pipes import Transport
from tieline.model.events import Failed
from tieline.wire.cursor.errors import is_retryable

MOST_TRIES = 3
MOST_ROTATIONS = 2
FIRST_BACK_OFF = 0.5
LONGEST_WAIT = 20.0

BROKEN = "cursor_broken"
STALLED = "cursor_stalled"
NOT_SPOKEN = "cursor_http2_refused"


class Kind(Enum):
    """How the next attempt begins."""

    AGAIN = auto()
    """From the whole history, as if nothing had been."""
    RESUME = auto()
    """From the last checkpoint."""


class Remedy(NamedTuple):
    """What to do before the next attempt, and how it begins."""

    kind: Kind = Kind.AGAIN
    wait: float = 0.0
    renew: bool = False
    rotate: bool = False
    transport: Transport | None = None
    """The transport to change to, if the one in use is the trouble."""
    why: str = ""


class Recovery:
    """What was tried in this leg."""

    def __init__(self, transport: Transport) -> None:
        self.transport: Transport = transport
        self._tries = 0
        self._rotations = 0
        self._used: set[str] = set()
        self._has_resumed = False

    def remedy(self, failed: Failed, *, has_checkpoint: bool, has_spoken: bool) -> Remedy | None:
        """What may help, or None if the client has to hear of it, who may have seen some of this leg already."""
        code = failed.code or ""
        kind = Kind.RESUME if has_checkpoint else Kind.AGAIN
        if code == "cursor_unauthenticated":
            return self._once(code, Remedy(kind, renew=True, why="the token was refused: renewed it"))
        if code in ("cursor_http1_refused", NOT_SPOKEN):
            return self._switched(code, kind)
        if code == "cursor_blob_missing":
            remedy = Remedy(rotate=True, why="the service lost the conversation: rebuilt it from the history")
            return self._once(code, remedy)
        if code == STALLED:
            return self._once(code, Remedy(rotate=True, why="nothing but heartbeats came: replayed the history"))
        if code == "cursor_poisoned" and not has_spoken:
            return self._rotated()
        if code in (BROKEN, "cursor_incomplete"):
            return self._tried(kind, "the stream ended before the turn did")
        if is_retryable(failed) and not has_spoken:
            # A service that will not go on from its checkpoint may do so from the history.
            kind, self._has_resumed = Kind.AGAIN if self._has_resumed else kind, kind is Kind.RESUME
            return self._tried(kind, f"the service failed ({failed.kind})", failed.retry_after)
        return None

    def _once(self, what: str, remedy: Remedy) -> Remedy | None:
        if what in self._used:
            return None
        self._used.add(what)
        return remedy

    def _switched(self, code: str, kind: Kind) -> Remedy | None:
        refused: Transport = "http1" if code == "cursor_http1_refused" else "http2"
        if refused != self.transport:
            return None
        other: Transport = "http2" if refused == "http1" else "http1"
        why = f"the service does not take {refused}: changed to {other}"
        remedy = self._once("transport", Remedy(kind, transport=other, why=why))
        if remedy is not None:
            self.transport = other
        return remedy

    def _rotated(self) -> Remedy | None:
        self._rotations += 1
        if self._rotations > MOST_ROTATIONS:
            return None
        return Remedy(rotate=True, why="the conversation was refused without a reason: gave it a new id")

    def _tried(self, kind: Kind, why: str, wait: float | None = None) -> Remedy | None:
        """Another try, after a while; a service that wants to be left alone for long is left alone."""
        self._tries += 1
        wait = FIRST_BACK_OFF * 2 ** (self._tries - 1) if wait is None else wait
        if self._tries > MOST_TRIES or wait > LONGEST_WAIT:
            return None
        return Remedy(kind, wait=wait, why=f"{why}: try {self._tries + 1}")
