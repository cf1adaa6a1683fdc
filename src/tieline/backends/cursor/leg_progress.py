"""How far a leg of a live run has come, and which of its events the client may have already.

A leg passes through these phases, whatever happens to the attempts behind it:

    NEW -> OPENING -> STARTED -> DELIVERING -> FINISHED or FAILED

Events are held until the first one that says something (`DELIVERING`). Until then a failure can still be answered with
a status code instead of a broken stream.
"""

from collections.abc import Sequence
from enum import Enum

from tieline.backends.cursor.recovery import Recovery
from tieline.model.content import Part
from tieline.model.events import Event, Failed, Finished, Note, PartEnd, Started
from tieline.wire.cursor.run.states import transition_table


class LegPhase(Enum):
    """How far a leg has come."""

    NEW = "new"
    """Nothing was asked of the service yet."""
    OPENING = "opening"
    """An attempt is on its way; it has not started the leg."""
    STARTED = "started"
    """The leg has started. Its events are held, and a retry continues it."""
    DELIVERING = "delivering"
    """The client has the first events."""
    FINISHED = "finished"
    FAILED = "failed"
    """The leg has failed, or was cut off by the end of its run."""


class LegEvent(Enum):
    """What changes the phase of a leg."""

    OPENED = "opened"
    STARTED = "started"
    CONTENT = "content"
    FINISHED = "finished"
    FAILED = "failed"


LEG_TRANSITIONS = transition_table(
    {
        LegPhase.NEW: {LegEvent.OPENED: LegPhase.OPENING},
        LegPhase.OPENING: {
            LegEvent.STARTED: LegPhase.STARTED,
            LegEvent.FAILED: LegPhase.FAILED,  # Seen in test_a_token_that_cannot_be_renewed_is_what_the_client_hears
        },
        LegPhase.STARTED: {
            LegEvent.STARTED: LegPhase.STARTED,
            LegEvent.CONTENT: LegPhase.DELIVERING,  # Seen in test_the_first_batch_has_something_to_say
            LegEvent.FAILED: LegPhase.FAILED,  # Seen in test_a_failure_before_the_first_part_is_one_batch
        },
        LegPhase.DELIVERING: {
            LegEvent.FINISHED: LegPhase.FINISHED,
            LegEvent.FAILED: LegPhase.FAILED,
        },
        LegPhase.FINISHED: {},
        LegPhase.FAILED: {},
    }
)

_HELD = (Started, Note)
"""Events that may come long before the service has decided whether it answers at all."""


class LegProgress:
    """The leg under way: its phase, its retries, and what the client has seen of it."""

    def __init__(self, recovery: Recovery) -> None:
        self.recovery = recovery
        self.reply: list[Part] = []
        """The finished parts of the leg."""
        self.notes: list[Note] = []
        """Notes to insert as soon as the leg has started."""
        self.phase = LegPhase.NEW
        self._held: list[Event] = []

    @property
    def has_started(self) -> bool:
        return self.phase not in (LegPhase.NEW, LegPhase.OPENING)

    @property
    def is_over(self) -> bool:
        return self.phase in (LegPhase.FINISHED, LegPhase.FAILED)

    def change(self, event: LegEvent) -> None:
        """Change the phase. This is the only place that does."""
        self.phase = LEG_TRANSITIONS[self.phase][event]

    def notice_start(self, events: Sequence[Event]) -> None:
        """Record that the leg has started, if these events begin with Started."""
        if events and type(events[0]) is Started:
            self.change(LegEvent.STARTED)

    def deliver(self, events: list[Event]) -> list[Event]:
        """Return the events that the client gets now: none while they are held, else with those held before."""
        self.reply += [event.part for event in events if type(event) is PartEnd]
        self.notice_start(events)
        if self.notes and self.has_started:
            place = 1 if type(events[0]) is Started else 0
            events[place:place] = self.notes
            self.notes = []
        if self.phase is not LegPhase.DELIVERING:
            self._held += events
            if all(type(event) in _HELD for event in events):
                return []
            events, self._held = self._held, []
        self._notice_content(events[-1])
        return events

    def _notice_content(self, last: Event) -> None:
        if self.phase is LegPhase.STARTED and type(last) is not Failed:
            self.change(LegEvent.CONTENT)
        if type(last) is Finished:
            self.change(LegEvent.FINISHED)
        elif type(last) is Failed:
            self.change(LegEvent.FAILED)
