"""A message in progress can be taken up by a client that joins later."""

from tieline.core.sessions.message_draft import MessageDraft
from tieline.model.content import Text, Thinking
from tieline.model.events import (
    Activity,
    Event,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    PlanEntry,
    Started,
    StopReason,
    Usage,
)

EVENTS: list[Event] = [
    Started(id="l", model="m"),
    PartStart(index=0, part=Thinking()),
    PartDelta(index=0, text="Hm"),
    PartDelta(index=0, text="m."),
    PartEnd(index=0, part=Thinking(text="Hmm.", signature="s")),
    PartStart(index=1, part=Text()),
    PartDelta(index=1, text="Let me look."),
    PartEnd(index=1, part=Text(text="Let me look.")),
    Activity(id="a", kind="read", title="read_file x", status="in_progress"),
    Activity(id="a", kind="read", title="read_file x", status="completed", output="y"),
    Plan(entries=(PlanEntry(content="look", status="completed"),)),
    PartStart(index=2, part=Text()),
    PartDelta(index=2, text="Do"),
    PartDelta(index=2, text="ne."),
    PartEnd(index=2, part=Text(text="Done.")),
    Usage(input=1, output=2),
    Finished(reason=StopReason.END_TURN),
]


def test_a_message_that_is_taken_up_anywhere_ends_the_same() -> None:
    whole = MessageDraft("A", "U", "m", 1.0)
    whole.add(EVENTS, 2.0)
    for cut in range(len(EVENTS) + 1):
        begun = MessageDraft("A", "U", "m", 1.0)
        begun.add(EVENTS[:cut], 2.0)
        resumed = MessageDraft.resume(begun.turn())
        assert resumed.turn() == begun.turn(), cut
        resumed.add(EVENTS[cut:], 2.0)
        assert resumed.turn() == whole.turn(), cut
