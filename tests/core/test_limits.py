"""Token limits and stop sequences that the gateway enforces, however the text is cut into deltas."""

import pytest

from tests import grammar
from tests.cases import leg
from tieline.core.emulation.limits import Limits
from tieline.model.content import Message, Text, Thinking, ToolCall
from tieline.model.events import Event, Finished, PartDelta, PartEnd, StopReason, Usage
from tieline.model.request import Request, Sampling


def limited(events: list[Event], max_tokens: int | None = None, *stop: str, batch: int = 1) -> list[Event]:
    question = Message(role="user", parts=(Text(text="Say something."),))
    request = Request(model="m", messages=(question,), sampling=Sampling(max_tokens=max_tokens, stop=stop))
    limits = Limits(request)
    batches = [events[at : at + batch] for at in range(0, len(events), batch)]
    given = [event for part in batches for event in limits.apply(part)]
    grammar.check(given)
    return given


def text_of(events: list[Event]) -> str:
    return "".join(event.part.text for event in events if isinstance(event, PartEnd) and isinstance(event.part, Text))


def said(text: str, size: int) -> list[Event]:
    return leg((Text(), [text[at : at + size] for at in range(0, len(text), size)]))


def ending(events: list[Event]) -> tuple[StopReason, str | None]:
    last = events[-1]
    assert isinstance(last, Finished)
    return last.reason, last.sequence


@pytest.mark.parametrize("stop", ["END", "E", "aaab", "\n\n"])
def test_text_ends_before_a_stop_sequence_however_it_is_cut(stop: str) -> None:
    for before in ("Hello aaa", "", "EN", "aa", "\n"):
        if stop in before:
            continue
        text = f"{before}{stop} and more {stop}"
        expected = text[: text.find(stop)]
        for size in (1, 2, 3, 5, 100):
            for batch in (1, 3, 100):
                events = limited(said(text, size), None, stop, batch=batch)
                assert (text_of(events), ending(events)) == (expected, (StopReason.STOP_SEQUENCE, stop))
                assert "".join(event.text for event in events if isinstance(event, PartDelta)) == expected


def test_what_only_begins_like_a_stop_sequence_arrives_whole() -> None:
    for size in (1, 2, 4, 100):
        events = limited(said("ENE ENDURE EN", size), None, "END!")
        assert (text_of(events), ending(events)[0]) == ("ENE ENDURE EN", StopReason.END_TURN)


def test_text_ends_at_the_token_limit_with_usage() -> None:
    for size in (1, 3, 8, 100):
        events = limited(said("x" * 100, size), 5)
        assert (text_of(events), ending(events)) == ("x" * 20, (StopReason.MAX_TOKENS, None))
        (usage,) = [event for event in events if isinstance(event, Usage)]
        assert usage.output == 5
        assert usage.input > 0
    assert ending(limited(said("x" * 20, 7), 5)) == (StopReason.END_TURN, None)


def test_the_earlier_of_two_ends_counts() -> None:
    assert ending(limited(said("x" * 30 + "END", 4), 5, "END")) == (StopReason.MAX_TOKENS, None)
    assert ending(limited(said("xxEND" + "x" * 30, 4), 5, "END")) == (StopReason.STOP_SEQUENCE, "END")
    assert ending(limited(said("one two", 2), None, "two", "one")) == (StopReason.STOP_SEQUENCE, "one")


def test_thinking_counts_but_has_no_stop_sequence_and_a_call_is_never_cut() -> None:
    events = limited(leg((Thinking(), ["x" * 30]), (Text(), ["Hello"])), 5, "x")
    assert (text_of(events), ending(events)) == ("", (StopReason.MAX_TOKENS, None))
    call = ToolCall(id="c", name="t")
    events = limited(leg((call, ['{"a":"', "x" * 90, '"}']), reason=StopReason.TOOL_USE), 5, "x")
    assert ending(events) == (StopReason.TOOL_USE, None)
