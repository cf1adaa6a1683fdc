"""A message while it is being said: the events of a leg, gathered."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tieline.model.content import Message, Part, Text, Thinking, ToolCall
from tieline.model.events import (
    Activity,
    Batch,
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    Usage,
)
from tieline.model.session import TimedActivity, Turn

_NOTHING = Usage()


class _Open(Struct):
    """The part under way."""

    part: Part
    texts: list[str]


class Draft:
    """One message of the model."""

    def __init__(self, turn_id: str, parent: str, model: str, at: float) -> None:
        self.id = turn_id
        self.parent = parent
        self.ending: Finished | Failed | None = None
        self.rounds: Sequence[Message] = ()
        self._model = model
        self._at = at
        self._parts: list[Part] = []
        self._open: _Open | None = None
        self._happenings: dict[str, TimedActivity] = {}
        self._plan: Plan | None = None
        self._usage: Usage | None = None
        self._round = _NOTHING
        """The usage when the last tool was done: what is more than that belongs to the last request alone."""

    def add(self, batch: Batch, now: float) -> None:
        """More of it."""
        for event in batch:
            if type(event) is PartDelta:
                if self._open is not None:
                    self._open.texts.append(event.text)
            else:
                self._take(event, now)

    def end(self, ending: Finished | Failed) -> None:
        """It is over; what comes later does not count."""
        if self.ending is None:
            self.ending = ending

    def turn(self) -> Turn:
        """What there is of it."""
        parts = tuple(self._parts)
        if self._open is not None:
            parts = (*parts, _filled(self._open.part, "".join(self._open.texts)))
        return Turn(
            id=self.id,
            parent=self.parent,
            role="assistant",
            at=self._at,
            model=self._model,
            parts=parts,
            activities=tuple(self._happenings.values()),
            plan=self._plan,
            usage=self._usage,
            ending=self.ending,
            rounds=tuple(self.rounds),
        )

    @property
    def context(self) -> int | None:
        """How many tokens the model had before it, and wrote, at last."""
        if self._usage is None:
            return None
        total, before = self._usage, self._round
        tokens = total.prompt + total.output - before.prompt - before.output
        return tokens if tokens > 0 else total.prompt + total.output

    def _take(self, event: Event, now: float) -> None:
        match event:
            case PartStart():
                self._open = _Open(event.part, [])
            case PartEnd():
                self._open = None
                self._parts.append(event.part)
            case Activity():
                self._happened(event, now)
            case Plan():
                self._plan = event
            case Usage():
                self._usage = event
            case Finished() | Failed():
                self.end(event)
            case _:
                pass

    def _happened(self, activity: Activity, now: float) -> None:
        is_over = activity.status in ("completed", "failed")
        if is_over and self._usage is not None:
            self._round = self._usage
        known = self._happenings.get(activity.id)
        if known is None:
            place = len(self._parts) + (self._open is not None)
            known = TimedActivity(activity=activity, at=place, began=now)
        ended = (known.ended or now) if is_over else None
        # Time counts from when it runs: what is pending waits, perhaps for a person.
        began = now if known.activity.status == "pending" and known.ended is None else known.began
        self._happenings[activity.id] = replace(known, activity=activity, began=began, ended=ended)


def _filled(part: Part, text: str) -> Part:
    match part:
        case Text() | Thinking():
            return replace(part, text=text)
        case ToolCall():
            return replace(part, arguments=text)
        case _:
            return part
