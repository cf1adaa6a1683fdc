"""Activities and plans between the parts of a leg, for clients that know neither."""

from collections.abc import Sequence
from typing import Literal

import pytest
from msgspec.structs import replace

from tests.cases import STARTED
from tests.grammar import check
from tieline.core.legs.activity_text import MAX_OUTPUT, ActivityRenderer, ActivityStyle
from tieline.model.content import Part, Text, Thinking, ToolCall
from tieline.model.events import (
    Activity,
    Diff,
    Event,
    Failed,
    Finished,
    PartDelta,
    PartEnd,
    PartStart,
    Plan,
    PlanEntry,
    Status,
    StopReason,
    Usage,
)

DONE = Finished(reason=StopReason.END_TURN)
CALL = ToolCall(id="call_1", name="read", arguments="{}")


def part(index: int, whole: Text | Thinking | ToolCall, *pieces: str) -> list[Event]:
    empty: Part = replace(whole, arguments="") if isinstance(whole, ToolCall) else type(whole)()
    deltas = [PartDelta(index=index, text=piece) for piece in pieces]
    return [PartStart(index=index, part=empty), *deltas, PartEnd(index=index, part=whole)]


def words(index: int, text: str) -> list[Event]:
    return part(index, Text(text=text), text)


def reads(status: Status, output: str = "", name: str = "a") -> Activity:
    return Activity(id=name, kind="read", title=f"read {name}", status=status, output=output)


def plan(*entries: tuple[str, Status]) -> Plan:
    return Plan(entries=tuple(PlanEntry(content=content, status=status) for content, status in entries))


def shown(style: ActivityStyle, events: Sequence[Event], *, at_once: bool = True) -> list[Event]:
    """The events of a whole leg as a client gets them, and they keep the grammar."""
    showing = ActivityRenderer(style)
    batches = [events] if at_once else [[event] for event in events]
    out = [event for batch in batches for event in showing.apply(batch)]
    check(out)
    return out


def parts(events: Sequence[Event]) -> list[Part]:
    return [event.part for event in events if isinstance(event, PartEnd)]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_done_becomes_a_part_of_thinking_in_its_place(at_once: bool) -> None:
    leg: list[Event] = [
        STARTED,
        *words(0, "Look:\n"),
        reads("pending"),
        reads("completed", "1\n2\n"),
        *words(1, "Two."),
        DONE,
    ]
    out = shown("reasoning", leg, at_once=at_once)
    assert parts(out) == [Text(text="Look:\n"), Thinking(text="▸ read a\n  1\n  2\n"), Text(text="Two.")]


def test_words_before_and_after_something_was_done_do_not_run_into_each_other() -> None:
    """Chat clients write all text of a message one behind the other."""
    leg: list[Event] = [STARTED, *words(0, "Let me look."), reads("completed"), *words(1, "Two."), DONE]
    styles: list[ActivityStyle] = ["reasoning", "hidden"]
    for style in styles:
        texts = [one.text for one in parts(shown(style, leg)) if isinstance(one, Text)]
        assert "".join(texts) == "Let me look.\n\nTwo."


def test_texts_with_nothing_done_between_them_stay_as_they_are() -> None:
    leg: list[Event] = [STARTED, *words(0, "a"), *words(1, "b"), DONE]
    assert shown("reasoning", leg) == leg


def test_shown_as_text_it_stands_in_a_paragraph_of_its_own() -> None:
    leg: list[Event] = [STARTED, *words(0, "Let me look."), reads("completed", "1"), *words(1, "One."), DONE]
    texts = [one.text for one in parts(shown("text", leg)) if isinstance(one, Text)]
    assert "".join(texts) == "Let me look.\n\n✓ read a\n  1\n\nOne."


def test_thinking_of_the_model_and_what_is_shown_do_not_run_into_each_other() -> None:
    leg: list[Event] = [STARTED, *part(0, Thinking(text="Hm."), "Hm."), reads("pending"), *words(1, "x"), DONE]
    assert parts(shown("reasoning", leg))[1] == Thinking(text="\n\n▸ read a\n")


def test_thinking_is_never_altered_because_it_may_be_signed() -> None:
    signed = Thinking(text="Hm.", signature="c2ln")
    leg: list[Event] = [STARTED, *words(0, "a"), reads("completed"), *part(1, signed, "Hm."), *words(2, "b"), DONE]
    assert signed in parts(shown("reasoning", leg))


def test_hidden_nothing_is_seen_of_it() -> None:
    leg: list[Event] = [STARTED, reads("pending"), plan(("a", "pending")), reads("completed"), *words(0, "x"), DONE]
    assert shown("hidden", leg) == [STARTED, *words(0, "x"), DONE]


def test_who_knows_activities_gets_them_as_they_are() -> None:
    leg: list[Event] = [
        STARTED,
        reads("pending"),
        plan(("a", "pending")),
        *words(0, "x"),
        reads("completed"),
        *words(1, "y"),
        DONE,
    ]
    assert shown("events", leg) == leg


@pytest.mark.parametrize("whole", [Text(text="ab"), Thinking(text="ab")])
def test_what_happens_inside_an_open_part_waits_until_it_is_complete(whole: Text | Thinking) -> None:
    begin, first, second, end = part(0, whole, "a", "b")
    leg: list[Event] = [STARTED, begin, first, reads("pending"), reads("completed", "1"), second, end, DONE]
    out = shown("reasoning", leg, at_once=False)
    assert out[1:5] == [begin, first, second, end]
    distance = "\n\n" if isinstance(whole, Thinking) else ""
    assert parts(out) == [whole, Thinking(text=f"{distance}▸ read a\n  1\n")]


def test_one_part_holds_what_follows_one_another() -> None:
    leg: list[Event] = [STARTED, reads("pending"), Usage(input=1), reads("completed"), plan(("x", "pending")), DONE]
    assert parts(shown("reasoning", leg)) == [Thinking(text="▸ read a\nPlan:\n○ x\n")]


def test_an_activity_is_told_when_it_begins_and_when_it_ends_and_not_in_between() -> None:
    states: list[Status] = ["pending", "in_progress", "in_progress", "completed", "completed", "in_progress"]
    leg: list[Event] = [STARTED, *(reads(status, "out") for status in states), DONE]
    assert parts(shown("reasoning", leg)) == [Thinking(text="▸ read a\n  out\n")]


def test_a_title_that_changes_is_shown_again_but_not_for_ever() -> None:
    titles = ["Terminal", "make", "make test", "make test all", "make test all of it"]
    leg: list[Event] = [
        STARTED,
        *(Activity(id="a", kind="execute", title=title, status="in_progress") for title in titles),
        Activity(id="a", kind="execute", title="make install", status="completed", output="done"),
        DONE,
    ]
    lines = ["▸ Terminal", "▸ make", "▸ make test", "✓ make install", "  done"]
    assert parts(shown("reasoning", leg)) == [Thinking(text="".join(f"{line}\n" for line in lines))]


def test_activities_side_by_side_say_which_of_them_has_ended() -> None:
    leg: list[Event] = [
        STARTED,
        reads("pending"),
        reads("pending", name="b"),
        reads("completed", "1"),
        reads("failed", "no such file", name="b"),
        DONE,
    ]
    told = "▸ read a\n▸ read b\n✓ read a\n  1\n✗ read b\n  no such file\n"
    assert parts(shown("reasoning", leg)) == [Thinking(text=told)]


def test_a_failure_says_so() -> None:
    leg: list[Event] = [STARTED, reads("pending"), reads("failed", "no such file"), DONE]
    assert parts(shown("reasoning", leg)) == [Thinking(text="▸ read a\n✗ failed\n  no such file\n")]


def test_changed_files_are_named_and_long_output_is_cut() -> None:
    activity = Activity(
        id="a",
        kind="edit",
        title="edit\n  two files",
        status="completed",
        output="x" * (MAX_OUTPUT + 1),
        diffs=(Diff(path="a.py", old="1", new="2"), Diff(path="b.py", old=None, new="")),
    )
    told = f"✓ edit two files\n  changed a.py\n  changed b.py\n  {'x' * MAX_OUTPUT} …\n"
    assert parts(shown("reasoning", [STARTED, activity, DONE])) == [Thinking(text=told)]


def test_a_changed_file_that_is_named_already_is_not_named_again() -> None:
    output, diffs = "Replaced `a.py` (2 bytes).", (Diff(path="a.py", old="1", new="2"),)
    activity = Activity(id="a", kind="edit", title="edit a.py", status="completed", output=output, diffs=diffs)
    assert parts(shown("reasoning", [STARTED, activity, DONE])) == [Thinking(text=f"✓ edit a.py\n  {output}\n")]


def test_of_a_long_output_of_a_command_the_end_is_shown_too() -> None:
    output = "a" * MAX_OUTPUT + "z" * MAX_OUTPUT
    activity = Activity(id="a", kind="execute", title="run", status="completed", output=output)
    half = MAX_OUTPUT // 2
    told = f"✓ run\n  {'a' * half} …\n  … {'z' * half}\n"
    assert parts(shown("reasoning", [STARTED, activity, DONE])) == [Thinking(text=told)]


def test_a_plan_is_shown_whole_each_time_it_changes() -> None:
    first, second = plan(("look", "pending"), ("do", "pending")), plan(("look", "completed"), ("do\nit", "in_progress"))
    leg: list[Event] = [STARTED, first, first, second, plan(), DONE]
    told = "Plan:\n○ look\n○ do\nPlan:\n✓ look\n▸ do it\n"
    assert parts(shown("reasoning", leg)) == [Thinking(text=told)]


@pytest.mark.parametrize("style", ["reasoning", "text"])
def test_a_failing_leg_closes_what_is_shown(style: Literal["reasoning", "text"]) -> None:
    failed = Failed(kind="upstream", message="gone")
    out = shown(style, [STARTED, reads("pending"), failed])
    assert isinstance(out[-2], PartEnd)
    assert out[-1] is failed


def test_calls_of_the_client_pass_unchanged() -> None:
    leg: list[Event] = [STARTED, reads("completed"), *part(0, CALL, "{}"), Finished(reason=StopReason.TOOL_USE)]
    assert parts(shown("reasoning", leg))[1] is CALL


def test_it_is_known_which_parts_the_model_did_not_make() -> None:
    showing = ActivityRenderer("reasoning")
    out = showing.apply([STARTED, *part(0, Thinking(text="Hm."), "Hm."), reads("completed"), DONE])
    assert [showing.is_own(one) for one in parts(out)] == [False, True]
