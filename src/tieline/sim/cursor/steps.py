"""The steps of the server in a run. Scripts and the turns of the demo model consist of them.

A program is a function from a turn to steps, usually a generator. The player performs each step before it requests the
next one, so a program can look at the client's answers in between. A program never blocks, and can be tested without a
network.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from tieline.sim.cursor.refusals import ServiceRefusal

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Send:
    """One message to the client, serialized."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Send heartbeats until a condition is true or `seconds` have passed; the program must check which it was.

    If `seconds` is None, the setting `patience` applies. Without `beats`, no heartbeats are sent.
    """

    until: Callable[[], bool]
    seconds: float | None = None
    beats: bool = True


@dataclass(frozen=True, slots=True)
class Style:
    """How later messages are framed: compressed, in pieces of `piece` bytes, up to `batch` messages per write.

    With `announce`, the response headers declare the compression; this must come before the first message.
    """

    gzip: bool = False
    announce: bool = True
    piece: int | None = None
    batch: int = 100


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes without a frame."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Framed:
    """A frame with any flags and payload."""

    flags: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """A plain HTTP response instead of a stream; must come before any message."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The regular end of the stream, successful or with a refusal."""

    refusal: ServiceRefusal | None = None


@dataclass(frozen=True, slots=True)
class GoAway:
    """An HTTP/2 GOAWAY frame; the run continues. Ignored for HTTP/1.1."""

    code: int = 0


@dataclass(frozen=True, slots=True)
class Leave:
    """An irregular end: the body ends without an end frame, the stream is reset, or the connection is closed."""

    how: Literal["eof", "reset", "cut"] = "eof"


Step: TypeAlias = Send | Wait | Style | Raw | Framed | Status | End | GoAway | Leave
Steps: TypeAlias = Iterator[Step]
Routine: TypeAlias = Generator[Step, None, Result]
"""Steps that produce a result, for `yield from`."""
