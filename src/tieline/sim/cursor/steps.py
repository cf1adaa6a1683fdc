"""What the server does in a run, one step after another: the words that scripts and the demo's turns are made of.

A program is a function from a run to steps, usually a generator: it says a step, the stage plays it, and when the
program is asked for the next one it can look at what the client has answered meanwhile. So a program never blocks
and needs no network to be tested.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from tieline.sim.cursor.refusals import Refusal

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Send:
    """One message to the client, serialized."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Heartbeats until something is true, for `seconds` at the most: the program looks itself which it was.

    None as `seconds` stands for the patience of the simulator. Without `beats` there is silence.
    """

    until: Callable[[], bool]
    seconds: float | None = None
    beats: bool = True


@dataclass(frozen=True, slots=True)
class Style:
    """How what follows is framed: compressed, in pieces of so many bytes, so many messages in one write.

    `announce` is whether the response says that it compresses; it must stand before the first message.
    """

    gzip: bool = False
    announce: bool = True
    piece: int | None = None
    batch: int = 100


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes as they are, in no frame."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Framed:
    """A frame with any flags and payload."""

    flags: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Status:
    """A plain HTTP answer instead of a stream; must be the first that is sent."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """The ending that the client's protocol knows, good or refused."""

    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class GoAway:
    """HTTP/2's word that the connection takes no more streams; the run goes on. HTTP/1.1 has no such word."""

    code: int = 0


@dataclass(frozen=True, slots=True)
class Leave:
    """An ending no protocol knows: the body just ends, the stream is reset, the connection is cut."""

    how: Literal["eof", "reset", "cut"] = "eof"


Step: TypeAlias = Send | Wait | Style | Raw | Framed | Status | End | GoAway | Leave
Steps: TypeAlias = Iterator[Step]
Doing: TypeAlias = Generator[Step, None, Result]
"""Steps that come to a result, for `yield from`."""
