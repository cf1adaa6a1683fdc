"""Knowing a conversation again: with its words at hand or from digests alone, and without looking at every session."""

from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.backends.acp.fingerprint import (
    FARTHEST,
    SeenHistory,
    TextDigest,
    extend_history,
    fingerprint_of,
    match_history,
    position_of,
    positions_in,
)
from tieline.model.content import Message, Text
from tieline.model.request import Request

Said = tuple[Literal["user", "assistant"], str]

LONG = "It reads the file, counts its lines and prints the number."
TOLD: list[Said] = [("user", "count"), ("assistant", LONG), ("user", "again")]

history: st.SearchStrategy[list[Said]] = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(["a", "b", "ab", " "])),
    max_size=6,
)


def request(said: Sequence[Said]) -> Request:
    return Request(model="m", messages=tuple(Message(role=role, parts=(Text(text=text),)) for role, text in said))


def past(said: Sequence[Said], *, is_torn: bool = False) -> SeenHistory:
    """What a session has seen that was told all of this."""
    return SeenHistory(fingerprint_of(request(said)).history.items, is_torn)


def kept(past: SeenHistory) -> SeenHistory:
    """The same from the disk: without the words."""
    items = [
        item if isinstance(item, bytes) else tuple(TextDigest(one.length, one.checksum, one.digest) for one in item)
        for item in past.items
    ]
    return SeenHistory(tuple(items), past.is_torn)


@given(history, history, st.booleans(), st.booleans())
def test_a_session_that_a_request_goes_on_with_stands_where_the_request_comes_by(
    before: list[Said], more: list[Said], is_torn: bool, is_kept: bool
) -> None:
    for said in (before + more, more):
        reading, seen = fingerprint_of(request(said)), past(before, is_torn=is_torn)
        if match_history(kept(seen) if is_kept else seen, reading) is not None:
            assert position_of(seen) in positions_in(reading)


@given(history, history)
def test_digests_alone_know_what_the_words_know(before: list[Said], more: list[Said]) -> None:
    for said in (before + more, more):
        reading = fingerprint_of(request(said))
        assert match_history(kept(past(before)), reading) == match_history(past(before), reading)


@pytest.mark.parametrize(
    ("shown", "is_known"),
    [
        (LONG, True),
        (LONG.replace(" ", "\n "), True),
        (f"▸ Read a.py\n{LONG}\n▸ Done", True),
        ("𝄞\ud800 " + LONG, True),
        ("x" * FARTHEST + LONG, True),
        ("x" * (FARTHEST + 1) + LONG, False),
        (LONG[:-1], False),
        (LONG[:24] + LONG[:24], False),
        ("", False),
    ],
)
def test_words_are_found_among_others_by_their_digests(shown: str, is_known: bool) -> None:
    reading = fingerprint_of(request([("user", "count"), ("assistant", shown), ("user", "again")]))
    assert (match_history(kept(past(TOLD[:2])), reading) is not None) is is_known


@pytest.mark.parametrize(
    ("seen", "from_words", "from_digests"),
    [
        ("", True, True),
        (LONG[:40], True, True),
        (LONG[:20], True, False),
        ("Something else entirely, which is long enough.", False, False),
        ("No.", False, False),
    ],
)
def test_of_words_that_were_cut_off_the_beginning_has_to_be_there(
    seen: str, from_words: bool, from_digests: bool
) -> None:
    """Too little to tell from a checksum of the beginning is taken for something else: a new session is told all."""
    torn = extend_history(past(TOLD[:1]), [LONG], is_torn=True)
    answer: list[Said] = [("assistant", seen)] if seen else []
    reading = fingerprint_of(request([TOLD[0], *answer, ("user", "again")]))
    assert (match_history(torn, reading) is not None) is from_words
    assert (match_history(kept(torn), reading) is not None) is from_digests
