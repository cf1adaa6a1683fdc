"""The events of a leg, and their grammar.

    leg    = Started (part | Usage | Note | Activity | Plan)* ending
    part   = PartStart PartDelta* PartEnd       indices 0, 1, 2 …; parts never overlap
    ending = Finished | Failed                  exactly one, always last; Failed may also stand alone

The concatenated deltas of a part are its text: the `text` of a Text or Thinking, the `arguments` of a ToolCall. Parts
of other types have no deltas, because PartEnd contains them completely. If a part is open when a leg fails, it has no
PartEnd. The writer of the client's protocol then closes the part, unless it is a call: an unfinished call must not look
complete.

Events are passed in batches: all events from one read of the upstream are translated and written together. The ending
of a leg does not say whether the run continues; only the core needs to know that.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import compress, repeat
from operator import is_
from typing import Literal, TypeVar

from tieline.model.content import NO_META, Checkpoint, Meta, Part, Value
from tieline.model.source import AnswerSource

Headers = tuple[tuple[str, str], ...]


class StopReason(StrEnum):
    """The reason why the model stopped."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    CONTEXT_FULL = "context_full"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    COMPACTED = "compacted"
    """The upstream summarised the conversation, as the client requested, and then stopped."""


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
    """The upstream has begun to answer. `headers` are the upstream's response headers to pass on to the client."""

    id: str
    model: str
    headers: Headers = ()


class PartStart(Value, tag="part_start"):
    """A part begins. `part` has the final type but no text yet; a call already has its id and name."""

    index: int
    part: Part


class PartDelta(Value, tag="part_delta", kw_only=False, gc=False):
    """More text for the open part. The garbage collector does not track deltas, because there are many of them."""

    index: int
    text: str


class PartEnd(Value, tag="part_end"):
    """A part is complete. `part` contains its whole text."""

    index: int
    part: Part


class Usage(Value, tag="usage"):
    """The total token counts of the leg up to this event. A later Usage replaces an earlier one.

    `input` excludes tokens that were read from the cache or written to it.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    """The number of `output` tokens that were used for thinking; 0 if the upstream does not report it."""

    @property
    def prompt(self) -> int:
        """The number of prompt tokens, including cached tokens."""
        return self.input + self.cache_read + self.cache_write


class Note(Value, tag="note"):
    """Information about a leg for a person, such as a repair or an inferred ending.

    A note of the kind LEFT_OUT reports content that could not be translated and was therefore dropped. `what` names
    this content in a word or two.
    """

    kind: str
    message: str
    what: str = ""


LEFT_OUT = "left_out"
"""The kind of a note about content that could not be translated between client and upstream."""


def left_out(what: str, why: str) -> Note:
    """Return a note about content that could not be translated.

    `what` names the content in a word or two; `why` is the reason.
    """
    return Note(kind=LEFT_OUT, message=f"{what}: {why}", what=what)


Status = Literal["pending", "in_progress", "completed", "failed"]


class Diff(Value):
    """A change to a file: the text before the change (`old`) and after it (`new`). `old` is None for a new file."""

    path: str
    old: str | None
    new: str
    line: int = 1
    """The line number in the file at which `old` and `new` begin. They may omit unchanged lines before the change."""


class Activity(Value, tag="activity"):
    """A tool call that the agent or the gateway runs itself. Clients show it but never run it.

    An update is a complete Activity with the same id. Activities occur between parts, never inside one.
    """

    id: str
    kind: str
    """One of read, edit, delete, move, search, execute, think, fetch, switch_mode or other."""
    title: str
    status: Status = "pending"
    output: str = ""
    diffs: tuple[Diff, ...] = ()
    """The changes that the activity made or, if it failed, proposed."""
    paths: tuple[str, ...] = ()
    exit_code: int | None = None
    """The exit code of a command that ended by itself; otherwise None."""
    plan: str = ""
    """The plan in Markdown, if the activity is a plan review. `output` then contains the person's decision."""


class PlanEntry(Value):
    """One step of a plan."""

    content: str
    status: Status = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class Plan(Value, tag="plan"):
    """An agent's complete plan. It is emitted each time the plan changes."""

    entries: tuple[PlanEntry, ...]


class Finished(Value, tag="finished"):
    """The leg succeeded. `sequence` is the stop sequence that ended the answer, `detail` the text of a refusal."""

    reason: StopReason
    sequence: str | None = None
    detail: str | None = None
    meta: Meta = NO_META
    checkpoint: Checkpoint | None = None
    """The state after this answer, if the upstream has stored it."""


class Failed(Value, tag="failed"):
    """The leg failed.

    If the response has not begun yet, the client receives an error response with the HTTP status `status`. Otherwise
    the client receives an error in the stream.
    """

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
    """Iterate over the events of a batch whose type is exactly `kind`. This is fast, because the filter runs in C."""
    return compress(batch, map(is_, map(type, batch), repeat(kind)))  # type: ignore[arg-type] # mypy does not narrow by `kind`


class SourcedBatch(list[Event]):
    """A batch of events with the wire text that they were parsed from."""

    __slots__ = ("source",)

    def __init__(self, events: Iterable[Event], source: AnswerSource) -> None:
        super().__init__(events)
        self.source = source


def source_of(batch: object) -> AnswerSource | None:
    """Return the source of a batch, or None if it has none."""
    return batch.source if type(batch) is SourcedBatch else None


def joined(first: list[Event], second: list[Event]) -> list[Event]:
    """Concatenate two batches. The result has a source only if both batches have one."""
    own, other = source_of(first), source_of(second)
    if own is None or other is None:
        return [*first, *second]
    is_exact = own.is_exact and other.is_exact
    model = own.model or other.model
    return SourcedBatch([*first, *second], AnswerSource(own.protocol, own.text + other.text, True, is_exact, model))


class Reply(Value):
    """A complete successful answer, for clients that do not stream."""

    id: str
    model: str
    parts: tuple[Part, ...]
    usage: Usage
    finished: Finished
    headers: Headers = ()
    source: AnswerSource | None = None
