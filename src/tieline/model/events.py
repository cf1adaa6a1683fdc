"""What happens in a leg, and the order in which it may happen.

    leg    = Started (part | Usage | Note | Activity | Plan)* ending
    part   = PartStart PartDelta* PartEnd       indices 0, 1, 2 …; parts never overlap
    ending = Finished | Failed                  exactly one, always last; Failed may also stand alone

The deltas of a part, joined, are its text: the words of a Text, the thoughts of a Thinking, the arguments of a
ToolCall. Other parts have no deltas and come whole in PartEnd. A part that is open when a leg fails is never ended:
a writer closes what it opened, except for a call, which must not look complete.

Events travel in batches: what one read of the upstream gave is translated together and written once. A leg ends with
Finished or Failed; whether the run behind it still lives is nobody's business but the core's.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import compress, repeat
from operator import is_
from typing import Literal, TypeVar

from tieline.model.content import NO_META, Meta, Part, Value
from tieline.model.source import AnswerSource

Headers = tuple[tuple[str, str], ...]


class StopReason(StrEnum):
    """Why the model stopped."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    CONTEXT_FULL = "context_full"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    COMPACTED = "compacted"
    """The upstream summarised the conversation and stopped, as it was asked to."""


ErrorKind = Literal[
    "bad_request",
    "unauthorized",
    "billing",
    "forbidden",
    "not_found",
    "too_large",
    "rate_limited",
    "overloaded",
    "timeout",
    "upstream",
    "internal",
    "cancelled",
]


class Started(Value, tag="started"):
    """The upstream has begun to answer. `headers` are those of its response that a client may want."""

    id: str
    model: str
    headers: Headers = ()


class PartStart(Value, tag="part_start"):
    """A part begins; `part` is empty and tells the kind, for a call also its id and name."""

    index: int
    part: Part


class PartDelta(Value, tag="part_delta", kw_only=False, gc=False):
    """More text of the open part. Untracked by the garbage collector, because there are many of these."""

    index: int
    text: str


class PartEnd(Value, tag="part_end"):
    """The part is complete; `part` is the whole of it."""

    index: int
    part: Part


class Usage(Value, tag="usage"):
    """Tokens so far; a later Usage replaces an earlier one. `input` leaves out what the cache gave or took."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    """How many of `output` were thinking, where the upstream tells."""

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, wherever they came from."""
        return self.input + self.cache_read + self.cache_write


class Note(Value, tag="note"):
    """Something a person looking into this leg should see: a repair, an inferred ending, a thing left out.

    The kind `left_out` means that the other side does not get what was said; `what` names that in a word or two.
    """

    kind: str
    message: str
    what: str = ""


LEFT_OUT = "left_out"
"""The kind of notes about what could not be carried over to the other side."""


def left_out(what: str, why: str) -> Note:
    """The note that something is not carried over."""
    return Note(kind=LEFT_OUT, message=f"{what}: {why}", what=what)


Status = Literal["pending", "in_progress", "completed", "failed"]


class Diff(Value):
    """How a file changed; `old` is None for a new one."""

    path: str
    old: str | None
    new: str
    line: int = 1
    """Where in the file both begin: what is far from any change may be left out."""


class Activity(Value, tag="activity"):
    """What the agent, or the gateway for the model, did by itself: shown, never run by a client.

    The same id comes again as it goes on, each time whole. It stands between parts, never inside one.
    """

    id: str
    kind: str
    """read, edit, delete, move, search, execute, think, fetch, switch_mode or other."""
    title: str
    status: Status = "pending"
    output: str = ""
    diffs: tuple[Diff, ...] = ()
    """Changes made; of an activity that failed, changes that were proposed and refused."""
    paths: tuple[str, ...] = ()
    exit_code: int | None = None
    """The exit code of a command that has ended by itself."""
    plan: str = ""
    """Of a plan that was put before a person: the whole of it, in Markdown. `output` says what became of it."""


class PlanEntry(Value):
    """One step of a plan."""

    content: str
    status: Status = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class Plan(Value, tag="plan"):
    """The whole plan, each time it changes."""

    entries: tuple[PlanEntry, ...]


class Finished(Value, tag="finished"):
    """The leg ended well. `sequence` is the stop string that fired, `detail` the words of a refusal."""

    reason: StopReason
    sequence: str | None = None
    detail: str | None = None
    meta: Meta = NO_META


class Failed(Value, tag="failed"):
    """The leg ended badly. Before anything was sent this becomes a status code, afterwards an error in the stream."""

    kind: ErrorKind
    message: str
    status: int = 502
    code: str | None = None
    param: str | None = None
    retry_after: float | None = None
    headers: Headers = ()


Event = Started | PartStart | PartDelta | PartEnd | Usage | Note | Activity | Plan | Finished | Failed
Batch = Sequence[Event]
E = TypeVar("E", bound=Event)


def of_kind(batch: Batch, kind: type[E]) -> Iterator[E]:
    """The events of one kind. Most of a batch are deltas: to look at each of them here would be most of the work."""
    return compress(batch, map(is_, map(type, batch), repeat(kind)))  # type: ignore[arg-type] # mypy does not see what is left


class SourcedBatch(list[Event]):
    """A batch of events with the text it was read from."""

    __slots__ = ("source",)

    def __init__(self, events: Iterable[Event], source: AnswerSource) -> None:
        super().__init__(events)
        self.source = source


def source_of(batch: object) -> AnswerSource | None:
    """Return the source of a batch, if it has one."""
    return batch.source if type(batch) is SourcedBatch else None


def joined(first: list[Event], second: list[Event]) -> list[Event]:
    """Return two batches as one, with the text of both if both have theirs."""
    own, other = source_of(first), source_of(second)
    if own is None or other is None:
        return [*first, *second]
    is_exact = own.is_exact and other.is_exact
    model = own.model or other.model
    return SourcedBatch([*first, *second], AnswerSource(own.protocol, own.text + other.text, True, is_exact, model))


class Reply(Value):
    """A whole leg at once, for clients that do not stream."""

    id: str
    model: str
    parts: tuple[Part, ...]
    usage: Usage
    finished: Finished
    headers: Headers = ()
    source: AnswerSource | None = None
