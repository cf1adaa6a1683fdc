"""Histories as upstreams accept them: catalogue 23 and 84 to 89."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tieline.core.history.tidy import INTERRUPTED, tidy
from tieline.model.content import File, Image, Message, Part, Text, ToolCall, ToolResult


def call(call_id: str, name: str = "read", arguments: str = "{}") -> ToolCall:
    return ToolCall(id=call_id, name=name, arguments=arguments)


def result(call_id: str, text: str = "ok") -> ToolResult:
    return ToolResult(call_id=call_id, content=(Text(text=text),))


def interrupted(call_id: str) -> ToolResult:
    return ToolResult(call_id=call_id, content=(Text(text=INTERRUPTED),), is_error=True)


def text(words: str) -> Text:
    return Text(text=words)


def user(*parts: Part) -> Message:
    return Message(role="user", parts=parts)


def said(*parts: Part) -> Message:
    return Message(role="assistant", parts=parts)


def system(words: str) -> Message:
    return Message(role="system", parts=(text(words),))


def tidied(*messages: Message) -> list[Message]:
    history, notes = tidy(messages)
    assert notes
    return list(history)


ASKED = user(text("go"))

TIDY: list[tuple[Message, ...]] = [
    (),
    (system("s"), ASKED),
    (ASKED, said(text("hi"))),
    (ASKED, said(text("t"), call("a"), call("b")), user(result("a"), result("b"), text("and"))),
    (ASKED, said(call("a")), user(result("a")), said(call("b")), user(result("b"), text("x")), said(text("done"))),
    (ASKED, said(call("a")), user(result("a")), system("note"), user(text("more")), user(text("still"))),
    (ASKED, said(text("one")), said(text("two")), user()),
]


@pytest.mark.parametrize("messages", TIDY)
def test_a_tidy_history_is_the_very_same_tuple(messages: tuple[Message, ...]) -> None:
    history, notes = tidy(messages)
    assert history is messages
    assert notes == ()


@pytest.mark.parametrize("arguments", ["", "{", "not json", "[1]"])
def test_023_invalid_arguments_keep_their_pair(arguments: str) -> None:
    messages = (ASKED, said(call("a", arguments=arguments)), user(result("a")))
    assert tidy(messages) == (messages, ())


def test_084_results_come_first_in_the_user_message() -> None:
    turn = said(call("a"))
    assert tidied(turn, user(text("wait"), result("a"), text("then"))) == [
        turn,
        user(result("a"), text("wait"), text("then")),
    ]


def test_085_results_take_the_order_of_their_calls() -> None:
    """Seen: Claude Code answers in the order of completion."""
    turn = said(call("a"), call("b"))
    assert tidied(turn, user(result("b"), result("a"))) == [turn, user(result("a"), result("b"))]


def test_085_results_in_a_message_each_are_gathered() -> None:
    turn = said(call("a"), call("b"))
    assert tidied(turn, user(result("a")), user(result("b"), text("x")), ASKED) == [
        turn,
        user(result("a"), result("b")),
        user(text("x")),
        ASKED,
    ]


def test_085_results_behind_a_user_message_are_put_in_front_of_its_words() -> None:
    turn = said(call("a"), call("b"))
    assert tidied(turn, user(text("info")), user(result("a"), result("b")), said(text("done"))) == [
        turn,
        user(result("a"), result("b"), text("info")),
        said(text("done")),
    ]


def test_085_results_behind_a_system_message_get_a_message_in_front_of_it() -> None:
    """Seen: Claude Code puts system messages between."""
    turn = said(call("a"))
    assert tidied(turn, system("reminder"), user(result("a"), text("x"))) == [
        turn,
        user(result("a")),
        system("reminder"),
        user(text("x")),
    ]


def test_085_parallel_calls_in_a_message_each_are_one_message_again() -> None:
    history = tidied(ASKED, said(text("t")), said(call("a")), said(call("b")), user(result("a"), result("b")))
    assert history == [ASKED, said(text("t")), said(call("a"), call("b")), user(result("a"), result("b"))]


def test_086_a_result_without_its_call_becomes_text_in_its_place() -> None:
    picture = Image(media_type="image/png", data="AA==")
    orphan = ToolResult(call_id="gone", content=(text("42"), picture, text("end")))
    assert tidied(user(text("summary"), orphan, text("go on"))) == [
        user(
            text("summary"),
            text("Result of an earlier tool call (id gone): 42"),
            picture,
            text("end"),
            text("go on"),
        )
    ]


@pytest.mark.parametrize(
    ("content", "expected"), [((), "(empty)"), ((Image(url="u"),), "[image]"), ((File(url="u"),), "[file]")]
)
def test_086_a_result_inside_an_assistant_message_becomes_text_only(content: Any, expected: str) -> None:
    (message,) = tidied(said(text("t"), ToolResult(call_id="a", content=content)))
    assert message == said(text("t"), text(f"Result of an earlier tool call (id a): {expected}"))


def test_086_a_result_that_is_only_an_image_keeps_it() -> None:
    picture = Image(url="u")
    (message,) = tidied(user(ToolResult(call_id="a", content=(picture,))))
    assert message == user(text("Result of an earlier tool call (id a):"), picture)


def test_086_a_result_before_its_call_is_not_its_result() -> None:
    history = tidied(user(result("a", "early")), said(call("a")), user(result("a", "late")))
    assert history[0] == user(text("Result of an earlier tool call (id a): early"))
    assert history[2] == user(result("a", "late"))


def test_086_a_result_that_comes_a_turn_too_late_becomes_text() -> None:
    """Ours: the turn it belongs to was sent upstream as interrupted already, and that must stay as it was."""
    turn, stop, fine = said(call("a")), user(text("stop")), said(text("fine"))
    early = tidied(ASKED, turn, stop, fine)
    late = tidied(ASKED, turn, stop, fine, user(result("a", "late")))
    assert late == [*early, user(text("Result of an earlier tool call (id a): late"))]


@pytest.mark.parametrize("after", [(), (said(text("prefill")),)])
def test_087_a_call_at_the_end_gets_an_error_in_a_new_message(after: tuple[Message, ...]) -> None:
    turn = said(call("a"), call("b"))
    assert tidied(ASKED, turn, *after) == [ASKED, turn, user(interrupted("a"), interrupted("b")), *after]


def test_087_a_call_without_a_result_gets_an_error_beside_the_others() -> None:
    """Seen: gptme runs only the first of two calls."""
    turn = said(call("a"), call("b"))
    assert tidied(turn, user(result("b"), text("go on"))) == [
        turn,
        user(interrupted("a"), result("b"), text("go on")),
    ]


def test_088_of_several_results_the_last_counts_at_the_first_place() -> None:
    turn = said(call("a"), call("b"))
    assert tidied(turn, user(result("a", "1"), result("b")), user(result("a", "2"))) == [
        turn,
        user(result("a", "2"), result("b")),
    ]


def test_088_the_same_call_twice_in_one_message_is_one() -> None:
    assert tidied(said(call("a"), text("t"), call("a")), user(result("a"), result("a"))) == [
        said(call("a"), text("t")),
        user(result("a")),
    ]


def test_088_different_calls_with_one_id_get_ids_of_their_own_and_results_by_order() -> None:
    one, two, three = call("a", "x"), call("a", "y"), call("a_2", "z")
    assert tidied(said(one, two, three), user(result("a", "1"), result("a", "2"), result("a_2", "3"))) == [
        said(one, replace(two, id="a_2"), replace(three, id="a_2_2")),
        user(result("a", "1"), result("a_2", "2"), result("a_2_2", "3")),
    ]


def test_088_an_id_used_again_pairs_with_the_result_after_it() -> None:
    """Seen upstream: ids must be unique in the whole request, so the later one gets a number."""
    first = (said(call("a")), user(result("a", "1")))
    history = tidied(*first, said(call("a")), user(result("a", "2")), said(call("a")), user(result("a", "3")))
    assert history == [
        *first,
        said(call("a_2")),
        user(result("a_2", "2")),
        said(call("a_3")),
        user(result("a_3", "3")),
    ]


def test_089_results_without_an_id_are_matched_by_order() -> None:
    turn = said(call("a"), call("b"), call("c"))
    assert tidied(turn, user(result("b"), result("", "1")), user(result("", "2"))) == [
        turn,
        user(result("a", "1"), result("b"), result("c", "2")),
    ]


def test_089_results_without_an_id_that_could_be_anything_become_text() -> None:
    turn = said(call("a"), call("b"))
    assert tidied(turn, user(result("", "1"))) == [
        turn,
        user(interrupted("a"), interrupted("b"), text("Result of an earlier tool call (id unknown): 1")),
    ]


def test_089_calls_without_an_id_get_one() -> None:
    one, two = call("", "x"), call("", "x")
    assert tidied(said(one, two), user(result("", "1"), result("", "2"))) == [
        said(replace(one, id="call_2"), replace(two, id="call_3")),
        user(result("call_2", "1"), result("call_3", "2")),
    ]


def test_what_a_message_carries_beside_its_parts_is_kept() -> None:
    mark = {"wire": {"cache": True}}
    answer = replace(user(text("x"), replace(result("a"), meta=mark)), meta=mark)
    _, changed = tidied(said(call("a")), answer)
    assert changed.meta == mark
    assert changed.parts[0] == replace(result("a"), meta=mark)


def test_a_long_history_with_one_id_takes_no_time() -> None:
    turns = [message for _ in range(20_000) for message in (said(call("a")), user(result("a")))]
    assert len(tidied(*turns)) == len(turns)
    crowded = said(*(call("a", arguments=str(number)) for number in range(20_000)))
    assert len(tidied(crowded)[1].parts) == 20_000


# ── Properties ───────────────────────────────────────────────────────────────────────────────────

ids = st.sampled_from(["", "a", "b", "c", "a_2", "call_2"])
words = st.integers(0, 999).map(lambda number: text(f"words {number};"))
calls = st.builds(call, ids, st.sampled_from(["x", "y"]))
results = st.builds(result, ids, st.sampled_from(["1", "2", "3"]))
roles = st.sampled_from(["user", "user", "assistant", "assistant", "system"])
messages_of_all_kinds = st.builds(
    lambda role, parts: Message(role=role, parts=tuple(parts)),
    roles,
    st.lists(words | calls | results | results, max_size=5),
)
histories = st.lists(messages_of_all_kinds, max_size=10)


def plausible(history: Iterable[Message]) -> tuple[Message, ...]:
    """Only assistants call: a parser makes nothing else."""
    return tuple(
        message
        if message.role == "assistant"
        else replace(message, parts=tuple(part for part in message.parts if not isinstance(part, ToolCall)))
        for message in history
    )


def check_tidy(history: tuple[Message, ...]) -> None:
    seen: set[str] = set()
    expected: list[str] = []
    for message in history:
        found = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        assert found == expected
        assert all(isinstance(part, ToolResult) for part in message.parts[: len(found)])
        assert not expected or message.role == "user"
        expected = [part.id for part in message.parts if isinstance(part, ToolCall)]
        assert all(expected)
        assert seen.isdisjoint(expected)
        assert len(set(expected)) == len(expected)
        seen.update(expected)
    assert not expected


def words_of(history: Iterable[Message]) -> list[str]:
    """What people and models said, without what tools said."""
    parts = (part for message in history for part in message.parts)
    return [part.text for part in parts if isinstance(part, Text) and part.text.startswith("words")]


@given(histories)
def test_any_history_becomes_tidy_and_stays_so(history: list[Message]) -> None:
    once, notes = tidy(plausible(history))
    check_tidy(once)
    again, more = tidy(once)
    assert again is once
    assert more == ()
    assert bool(notes) == (once != plausible(history))


@given(histories)
def test_no_words_are_ever_lost(history: list[Message]) -> None:
    messages = plausible(history)
    assert words_of(tidy(messages)[0]) == words_of(messages)


@given(histories)
def test_every_result_is_kept_unless_a_later_one_replaces_it(history: list[Message]) -> None:
    def contents(messages: Iterable[Message]) -> int:
        parts = [part for message in messages for part in message.parts]
        real = [part for part in parts if isinstance(part, ToolResult) and not part.is_error]
        return len(real) + sum(isinstance(part, Text) and part.text.startswith("Result of") for part in parts)

    after, notes = tidy(plausible(history))
    replaced = sum("more than one result" in note.message for note in notes)
    assert contents(after) + replaced == contents(plausible(history))


@given(histories, st.lists(st.sampled_from(["ask", "call", "two calls"]), max_size=8), st.integers(0, 24))
def test_a_growing_conversation_keeps_its_beginning(mess: list[Message], turns: list[str], at: int) -> None:
    """Ours: whatever stood in front, what is sent again is sent in the same bytes."""
    history = [*plausible(mess), ASKED]
    ends = [len(history)]
    for number, turn in enumerate(turns):
        ids = {"ask": [], "call": [f"n{number}"], "two calls": [f"n{number}", f"m{number}"]}[turn]
        history += [said(text("t"), *map(call, ids)), user(*map(result, ids), text("next"))]
        ends.append(len(history))
    early, _ = tidy(tuple(history[: ends[at % len(ends)]]))
    late, _ = tidy(tuple(history))
    assert late[: len(early)] == early


def test_an_id_that_was_used_early_in_a_long_history_is_used() -> None:
    known = (*([ASKED] * 50), said(call("a")), user(result("a")))
    assert tidy(known) == (known, ())
    assert tidied(*known, said(call("a")), user(result("a")))[-1] == user(result("a_2"))
