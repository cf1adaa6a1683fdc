"""Assemble the message that the model is generating in a session, from the events of the leg."""

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


class _OpenPart(Struct):
    """The part that is being received, and the pieces of its text that have arrived."""

    part: Part
    texts: list[str]

    def content(self) -> Part:
        """Return the part with the text that has arrived."""
        return _with_text(self.part, "".join(self.texts))


class MessageDraft:
    """A message from the model while it is being generated."""

    def __init__(self, turn_id: str, parent: str, model: str, at: float) -> None:
        self.id = turn_id
        self.parent = parent
        self.ending: Finished | Failed | None = None
        self.rounds: Sequence[Message] = ()
        self._model = model
        self._at = at
        self._parts: list[Part] = []
        self._open: _OpenPart | None = None
        self._activities: dict[str, TimedActivity] = {}
        self._plan: Plan | None = None
        self._usage: Usage | None = None
        self._round = _NOTHING
        """The usage of the leg when the last activity ended. Usage added later belongs to the last upstream request."""

    @classmethod
    def resume(cls, turn: Turn) -> "MessageDraft":
        """Return a draft with the content of a message in progress, to which its later events can be added."""
        draft = cls(turn.id, turn.parent or "", turn.model or "", turn.at)
        draft._parts = list(turn.parts)
        if turn.parts:
            # The last part may still be open; if not, the next event closes it.
            last = draft._parts.pop()
            draft._open = _OpenPart(last, [_text_of(last)])
        draft._activities = {one.activity.id: one for one in turn.activities}
        draft._plan, draft._usage, draft.ending = turn.plan, turn.usage, turn.ending
        return draft

    def add(self, batch: Batch, now: float) -> None:
        """Add a batch of events that was received at `now`, a Unix timestamp."""
        for event in batch:
            if type(event) is PartDelta:
                if self._open is not None:
                    self._open.texts.append(event.text)
            else:
                self._take(event, now)

    def end(self, ending: Finished | Failed) -> None:
        """Set the ending of the message, unless it has one already."""
        if self.ending is None:
            self.ending = ending

    def turn(self) -> Turn:
        """Return the message with everything received so far."""
        parts = tuple(self._parts) if self._open is None else (*self._parts, self._open.content())
        return Turn(
            id=self.id,
            parent=self.parent,
            role="assistant",
            at=self._at,
            model=self._model,
            parts=parts,
            activities=tuple(self._activities.values()),
            plan=self._plan,
            usage=self._usage,
            ending=self.ending,
            rounds=tuple(self.rounds),
        )

    @property
    def context(self) -> int | None:
        """The number of tokens in the model's context after its last answer, including the answer; None if unknown."""
        if self._usage is None:
            return None
        total, before = self._usage, self._round
        tokens = total.prompt + total.output - before.prompt - before.output
        return tokens if tokens > 0 else total.prompt + total.output

    def _take(self, event: Event, now: float) -> None:
        match event:
            case PartStart():
                if self._open is not None:
                    self._parts.append(self._open.content())
                self._open = _OpenPart(event.part, [])
            case PartEnd():
                self._open = None
                self._parts.append(event.part)
            case Activity():
                self._add_activity(event, now)
            case Plan():
                self._plan = event
            case Usage():
                self._usage = event
            case Finished() | Failed():
                self.end(event)
            case _:
                pass

    def _add_activity(self, activity: Activity, now: float) -> None:
        is_over = activity.status in ("completed", "failed")
        if is_over and self._usage is not None:
            self._round = self._usage
        known = self._activities.get(activity.id)
        if known is None:
            place = len(self._parts) + (self._open is not None)
            known = TimedActivity(activity=activity, at=place, began=now)
        ended = (known.ended or now) if is_over else None
        # Measure only the time during which the activity runs: a pending activity may wait for a person.
        began = now if known.activity.status == "pending" and known.ended is None else known.began
        self._activities[activity.id] = replace(known, activity=activity, began=began, ended=ended)


def _with_text(part: Part, text: str) -> Part:
    match part:
        case Text() | Thinking():
            return replace(part, text=text)
        case ToolCall():
            return replace(part, arguments=text)
        case _:
            return part


def _text_of(part: Part) -> str:
    match part:
        case Text() | Thinking():
            return part.text
        case ToolCall():
            return part.arguments
        case _:
            return ""
