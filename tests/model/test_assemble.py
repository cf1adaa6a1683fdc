"""PartsWriter, fold and unfold: parts in any order come out one after the other, and whole."""

import random

import pytest

from tests.chance import seeds
from tests.each import each
from tests.grammar import check
from tieline.model.assemble import PartsWriter, fold, reason_for, unfold
from tieline.model.content import Foreign, Part, Text, Thinking, ToolCall
from tieline.model.errors import LegFailed
from tieline.model.events import (
    Event,
    Failed,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    Reply,
    Started,
    StopReason,
    Usage,
)

CALL_A = ToolCall(id="a", name="read")
CALL_B = ToolCall(id="b", name="write")
KINDS: list[Part] = [Thinking(), CALL_A, Text()]
END = Finished(reason=StopReason.END_TURN)


def leg(parts: PartsWriter) -> list[Event]:
    """What was written, as a whole leg that keeps the grammar."""
    events = [Started(id="m", model="x"), *parts.take(), END]
    check(events)
    return events


def texts(parts: PartsWriter) -> list[str]:
    ends = [event.part for event in leg(parts) if isinstance(event, PartEnd)]
    return [part.arguments if isinstance(part, ToolCall) else getattr(part, "text", "") for part in ends]


def test_the_head_is_live() -> None:
    parts = PartsWriter()
    parts.start("t", Text())
    assert parts.take() == [PartStart(index=0, part=Text())]
    parts.add("t", "a")
    assert parts.take() == [PartDelta(index=0, text="a")]
    parts.add("t", "b")
    parts.end("t")
    assert parts.take() == [PartDelta(index=0, text="b"), PartEnd(index=0, part=Text(text="ab"))]


def test_014_interleaved_calls_come_one_after_the_other() -> None:
    parts = PartsWriter()
    parts.start(0, CALL_A)
    parts.start(1, CALL_B)
    for a, b in [("{", "["), ('"x":', "1"), ("1}", "]")]:
        parts.add(0, a)
        parts.add(1, b)
    parts.end(1)
    assert not any(isinstance(event, PartEnd) for event in parts.events)
    parts.end(0)
    assert parts.events[-3:] == [
        PartStart(index=1, part=CALL_B),
        PartDelta(index=1, text="[1]"),
        PartEnd(index=1, part=ToolCall(id="b", name="write", arguments="[1]")),
    ]
    assert texts(parts) == ['{"x":1}', "[1]"]


def test_a_held_part_becomes_live_when_its_turn_comes() -> None:
    parts = PartsWriter()
    parts.start(0, CALL_A)
    parts.start(1, Text())
    parts.add(1, "so ")
    parts.end(0)
    parts.take()
    parts.add(1, "far")
    assert parts.take() == [PartDelta(index=1, text="far")]
    parts.end(1)
    assert parts.take() == [PartEnd(index=1, part=Text(text="so far"))]


def test_a_key_can_be_used_again_while_its_first_part_is_still_held() -> None:
    """Ours: an upstream that numbers text and calls apart may reuse a number before the head has ended."""
    parts = PartsWriter()
    parts.start("head", CALL_A)
    parts.start("text", Text())
    parts.add("text", "one")
    parts.end("text")
    assert not parts.has("text")
    parts.start("text", Text())
    parts.add("text", "two")
    parts.end("text")
    parts.end("head")
    assert texts(parts) == ["", "one", "two"]


def test_starting_a_key_that_is_under_way_completes_its_part() -> None:
    parts = PartsWriter()
    parts.start(0, CALL_A)
    parts.add(0, "{}")
    parts.start(0, CALL_B)
    parts.end(0)
    assert texts(parts) == ["{}", ""]


def test_end_all_completes_parts_in_the_order_they_began() -> None:
    parts = PartsWriter()
    for key, part in enumerate(KINDS):
        parts.start(key, part)
        parts.add(key, str(key))
    parts.end_all()
    assert texts(parts) == ["0", "1", "2"]
    assert parts.calls == 1


@each("seed", seeds(50))
def test_any_interleaving_gives_the_same_parts(seed: int) -> None:
    chance = random.Random(seed)
    pieces = {key: [f"{key}.{n} " for n in range(chance.randint(0, 5))] for key in range(chance.randint(1, 6))}
    parts = PartsWriter()
    left = {key: list(text) for key, text in pieces.items()}
    begun = 0
    while begun < len(pieces) or left:
        if begun < len(pieces) and (not begun or chance.random() < 0.3):
            parts.start(begun, chance.choice(KINDS))
            begun += 1
            continue
        under_way = [key for key in left if key < begun]
        if not under_way:
            continue
        key = chance.choice(under_way)
        if left[key]:
            parts.add(key, left[key].pop(0))
        else:
            parts.end(key)
            del left[key]
    assert texts(parts) == ["".join(text) for text in pieces.values()]


def test_what_becomes_known_later_stands_in_the_end_only() -> None:
    parts = PartsWriter()
    parts.start(0, Text())
    parts.start(1, Thinking())
    parts.start(2, Foreign(protocol="p", kind="k", json=""))
    parts.revise(1, Thinking(signature="sig"))
    parts.revise(2, Foreign(protocol="p", kind="k", json="{}"))
    parts.end_all()
    events = leg(parts)
    assert [event.part for event in events if isinstance(event, PartStart)] == [
        Text(),
        Thinking(),
        Foreign(protocol="p", kind="k", json=""),
    ]
    assert [event.part for event in events if isinstance(event, PartEnd)][1:] == [
        Thinking(signature="sig"),
        Foreign(protocol="p", kind="k", json="{}"),
    ]


@pytest.mark.parametrize("held", [False, True])
def test_a_run_of_deltas_is_the_same_as_its_deltas_one_by_one(held: bool) -> None:
    texts_given = ["a", "", "é", "😀"]
    one_by_one, at_once = PartsWriter(), PartsWriter()
    for parts in (one_by_one, at_once):
        if held:
            parts.start("head", CALL_A)
        parts.start("text", Text())
    for text in texts_given:
        one_by_one.add("text", text)
    at_once.add_all("text", texts_given)
    for parts in (one_by_one, at_once):
        parts.end_all()
    assert at_once.events == one_by_one.events


def test_a_run_of_deltas_after_half_a_character_ends_it() -> None:
    parts = PartsWriter()
    parts.start("text", Text())
    parts.add("text", "\ud83d")
    parts.add_all("text", ["a", "b"])
    parts.end("text")
    assert texts(parts) == ["\ufffdab"]


def test_a_part_begins_the_same_whether_it_is_live_or_was_held() -> None:
    known = Thinking(signature="sig")
    live, held = PartsWriter(), PartsWriter()
    live.whole(known, "hm")
    held.start("head", Text())
    held.whole(known, "hm")
    held.end("head")
    assert [type(event) for event in live.events] == [type(event) for event in held.events[2:]]
    assert [event.part for event in live.events if isinstance(event, PartStart)] == [
        event.part for event in held.events[2:] if isinstance(event, PartStart)
    ]


def test_text_so_far_is_told_also_of_a_held_part() -> None:
    parts = PartsWriter()
    parts.start(0, Text())
    parts.start(1, CALL_A)
    parts.add(1, "{")
    parts.add(1, "}")
    assert parts.text_of(1) == "{}"


def test_empty_text_is_nothing() -> None:
    parts = PartsWriter()
    parts.whole(Text(), "")
    assert parts.events == [PartStart(index=0, part=Text()), PartEnd(index=0, part=Text())]


@pytest.mark.parametrize(
    ("fragments", "deltas"),
    [
        (["\ud83d", "\ude00"], ["😀"]),
        (["a\ud83d", "\ude00b"], ["a", "😀b"]),
        (["\ud83d", "x"], ["\ufffdx"]),
        (["\ude00"], ["\ufffd"]),
        (["a\ud83d"], ["a", "\ufffd"]),
        (["\ud83d", "\ud83d", "\ude00"], ["\ufffd", "😀"]),
        (["é😀", "日"], ["é😀", "日"]),
    ],
)
def test_064_a_character_cut_in_two_is_joined_and_a_lone_half_replaced(fragments: list[str], deltas: list[str]) -> None:
    parts = PartsWriter()
    parts.start(0, CALL_A)
    for fragment in fragments:
        parts.add(0, fragment)
    parts.end(0)
    assert [event.text for event in parts.events if isinstance(event, PartDelta)] == deltas
    assert texts(parts) == ["".join(deltas)]


REPLY = Reply(
    id="m",
    model="x",
    parts=(
        Thinking(text="hm", signature="sig"),
        Thinking(signature="data", redacted=True),
        Text(text="so"),
        Text(text="no", refusal=True),
        ToolCall(id="a", name="read", arguments="{}"),
        ToolCall(id="b", name="patch", arguments="raw", freeform=True),
        Foreign(protocol="p", kind="k", json="{}"),
    ),
    usage=Usage(input=3, output=5, cache_read=7, cache_write=11, reasoning=2),
    finished=Finished(reason=StopReason.STOP_SEQUENCE, sequence="!"),
    headers=(("request-id", "r"),),
)


def test_unfold_keeps_the_grammar_and_fold_undoes_it() -> None:
    events = unfold(REPLY)
    check(events)
    assert fold(events) == REPLY


def test_fold_takes_the_last_usage_and_leaves_out_notes() -> None:
    events: list[Event] = [
        Started(id="m", model="x"),
        Usage(input=1),
        Note(kind="repair", message="n"),
        Usage(input=2, output=3),
        END,
    ]
    assert fold(events) == Reply(id="m", model="x", parts=(), usage=Usage(input=2, output=3), finished=END)


def test_fold_raises_what_failed_with_all_its_facts() -> None:
    failed = Failed(
        kind="rate_limited",
        message="slow down",
        status=429,
        code="c",
        param="p",
        retry_after=2.5,
        headers=(("retry-after", "3"),),
    )
    with pytest.raises(LegFailed, match="slow down") as caught:
        fold([Started(id="m", model="x"), PartStart(index=0, part=Text()), failed])
    assert caught.value.failed() == failed


def test_fold_of_a_leg_without_an_ending_is_a_failure_of_ours() -> None:
    with pytest.raises(LegFailed) as caught:
        fold([Started(id="m", model="x")])
    assert (caught.value.kind, caught.value.status) == ("internal", 500)


@each(
    ("calls", "told", "expected"),
    [
        (0, StopReason.END_TURN, StopReason.END_TURN),
        (1, StopReason.END_TURN, StopReason.TOOL_USE),
        (2, StopReason.STOP_SEQUENCE, StopReason.TOOL_USE),
        (0, StopReason.STOP_SEQUENCE, StopReason.STOP_SEQUENCE),
        (1, StopReason.TOOL_USE, StopReason.TOOL_USE),
        (0, StopReason.TOOL_USE, StopReason.END_TURN),
        *(
            (calls, reason, reason)
            for calls in (0, 1)
            for reason in (
                StopReason.MAX_TOKENS,
                StopReason.CONTEXT_FULL,
                StopReason.REFUSAL,
                StopReason.PAUSED,
                StopReason.CANCELLED,
            )
        ),
    ],
)
def test_024_025_the_reason_fits_the_calls_but_being_cut_or_refused_wins(
    calls: int, told: StopReason, expected: StopReason
) -> None:
    assert reason_for(calls, told) is expected
