"""The steps that the server performs during a run, both in scripts and in turns of the demo model.

A program is a function that takes a turn and yields steps. The player (see `player.py`) performs each step before it
requests the next one, so a program can look at the client's answers in between. A program does no I/O, so it can be
tested without a network.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from tieline.sim.cursor.refusals import ServiceRefusal

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Send:
    """Send one serialized message to the client."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the condition `until` is true or `seconds` have passed, and send heartbeats in the meantime.

    Afterwards the program must check the condition itself. If `seconds` is None, the setting `patience` applies. If
    `beats` is false, no heartbeats are sent.
    """

    until: Callable[[], bool]
    seconds: float | None = None
    beats: bool = True


@dataclass(frozen=True, slots=True)
class Style:
    """Change how later messages are sent.

    If `gzip` is true, they are compressed. Up to `batch` messages are sent together, in pieces of `piece` bytes if it
    is set. If `announce` is true, the response headers declare the compression, so this step must precede the first
    message.
    """

    gzip: bool = False
    announce: bool = True
    piece: int | None = None
    batch: int = 100


@dataclass(frozen=True, slots=True)
class Raw:
    """Send bytes without a frame."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Framed:
    """Send a frame with these flags and this payload."""

    flags: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """Send a plain HTTP response instead of a stream. This must be the first step."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """End the stream normally: report `refusal` or, if it is None, success."""

    refusal: ServiceRefusal | None = None


@dataclass(frozen=True, slots=True)
class GoAway:
    """Send an HTTP/2 GOAWAY frame and continue the run. Has no effect on HTTP/1.1."""

    code: int = 0


@dataclass(frozen=True, slots=True)
class Leave:
    """End the response abnormally: without an end frame, by resetting the stream, or by closing the connection."""

    how: Literal["eof", "reset", "cut"] = "eof"


Step: TypeAlias = Send | Wait | Style | Raw | Framed | Status | End | GoAway | Leave
Steps: TypeAlias = Iterator[Step]
Routine: TypeAlias = Generator[Step, None, Result]
"""A part of a program: a generator of steps that returns a result. Programs call it with `yield from`."""
