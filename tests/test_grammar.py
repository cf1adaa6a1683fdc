"""The check of the grammar itself: it takes what is allowed and refuses the rest."""

import pytest

from tests.each import each
from tests.grammar import check
from tieline.model.content import Foreign, Image, Text, Thinking, ToolCall
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Started,
    StopReason,
    Usage,
)

STARTED = Started(id="m", model="x")
FINISHED = Finished(reason=StopReason.END_TURN)
FAILED = Failed(kind="upstream", message="gone")
TEXT: list[Event] = [
    PartStart(index=0, part=Text()),
    PartDelta(index=0, text="a"),
    PartEnd(index=0, part=Text(text="a")),
]
CALL = ToolCall(id="a", name="read")
FOREIGN = Foreign(protocol="p", kind="k", json="{}")


@pytest.mark.parametrize(
    "events",
    [
        [FAILED],
        [STARTED, FAILED],
        [STARTED, FINISHED],
        [STARTED, Usage(), *TEXT, Note(kind="k", message="m"), Usage(input=1), FINISHED],
        [STARTED, *TEXT[:2], FAILED],
        [STARTED, TEXT[0], Usage(), *TEXT[1:], FINISHED],
        [STARTED, *TEXT, PartStart(index=1, part=CALL), PartEnd(index=1, part=CALL), FINISHED],
        [STARTED, PartStart(index=0, part=Image(media_type="a/b")), PartEnd(index=0, part=Image(url="u")), FINISHED],
        [STARTED, PartStart(index=0, part=FOREIGN), PartEnd(index=0, part=FOREIGN), FINISHED],
    ],
)
def test_a_leg_that_keeps_the_grammar_passes(events: list[Event]) -> None:
    check(events)


@each(
    "events",
    [
        [],
        [STARTED],
        [FINISHED],
        [Usage(), FAILED],
        [STARTED, STARTED, FINISHED],
        [STARTED, FINISHED, FINISHED],
        [STARTED, FINISHED, Usage()],
        [STARTED, *TEXT[:2], FINISHED],
        [STARTED, TEXT[1], FINISHED],
        [STARTED, TEXT[2], FINISHED],
        [STARTED, *TEXT, *TEXT, FINISHED],
        [STARTED, TEXT[0], PartStart(index=1, part=Text()), FAILED],
        [STARTED, PartStart(index=1, part=Text()), PartEnd(index=1, part=Text()), FINISHED],
        [STARTED, TEXT[0], PartDelta(index=1, text="a"), TEXT[2], FINISHED],
        [STARTED, TEXT[0], PartDelta(index=0, text=""), *TEXT[1:], FINISHED],
        [STARTED, TEXT[0], TEXT[2], FINISHED],
        [STARTED, PartStart(index=0, part=Text(text="a")), TEXT[2], FINISHED],
        [STARTED, PartStart(index=0, part=Thinking()), *TEXT[1:], FINISHED],
        [STARTED, PartStart(index=0, part=Thinking()), PartEnd(index=0, part=Thinking(redacted=True)), FINISHED],
        [STARTED, PartStart(index=0, part=CALL), PartEnd(index=0, part=ToolCall(id="b", name="read")), FINISHED],
        [STARTED, PartStart(index=0, part=FOREIGN), TEXT[1], PartEnd(index=0, part=FOREIGN), FINISHED],
    ],
)
def test_a_leg_that_breaks_the_grammar_is_refused(events: list[Event]) -> None:
    with pytest.raises(AssertionError):
        check(events)
