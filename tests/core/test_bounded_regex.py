"""Patterns of others: the same answers as Python's matcher gives, in bounded time."""

import re
import time

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.each import each
from tieline.core.inbox.bounded_regex import MAX_PATTERN, MAX_TEXT, UnsupportedPattern, matches

pieces = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", "^", "$", "-", r"\.", "[a-c-]", "(?:)"])
quantifiers = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"])
rows = st.lists(st.tuples(pieces, quantifiers).map("".join), max_size=4).map("".join)
groups = st.recursive(
    rows,
    lambda inner: st.tuples(st.lists(inner, min_size=1, max_size=3).map("|".join), quantifiers).map(
        "({0[0]}){0[1]}".format
    ),
)


@given(groups, st.text("ab1-.", max_size=8))
def test_the_answer_is_that_of_pythons_matcher(pattern: str, text: str) -> None:
    try:
        found = matches(pattern, text)
    except UnsupportedPattern:
        reject()  # which fails if it is the case for most patterns
    assert found == (re.search(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"^[a-z0-9-]+$", "my-name-1", "My Name"),
        (r"^\d{4}-\d{2}-\d{2}$", "2026-11-16", "2026-11-6"),
        (r"^https?:\/\/.+$", "https://a.example", "ftp://a.example"),
        (r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "a@b.example", "a@b"),
        (r"^(main|release/.*|v\d+(\.\d+){0,2})$", "v1.2.3", "v1.2.3.4"),
        (r"^[\w.\-\u00e4]+$", "käse.txt", "a b"),
        (r"^[[&|~]+$", "[&|~", "]"),
        ("", "anything", None),
    ],
)
def test_patterns_that_forms_use_are_checked(pattern: str, right: str, wrong: str | None) -> None:
    assert matches(pattern, right)
    assert wrong is None or not matches(pattern, wrong)


@each(
    "pattern",
    [
        r"(a)\1",
        "(?=a)b",
        r"\bword",
        "(?<name>a)",
        "(?i)a",
        "a**",
        "*a",
        "[",
        "(",
        ")",
        "[]",
        "[^]",
        "a{2,1}{3}",
        "\\",
        "[z-a]",
    ],
)
def test_what_cannot_be_matched_with_states_is_not_supported(pattern: str) -> None:
    with pytest.raises(UnsupportedPattern):
        matches(pattern, "aa")


@each(
    ("pattern", "text", "expected"),
    [
        ("^" + r"(?:\w|\w)" * 27 + "$", "a" * 27 + "!", False),
        ("a*a*a*b", "a" * 256, False),
        ("(a?){27}a{27}", "a" * 26, False),
        ("(a|aa)*$", "a" * 255 + "!", True),
        ("(a*)*$", "a" * 255 + "!", True),
        ("(a|b)*(c|d)*(a|b)*!", "ab" * 128, False),
        ("(((a*)*)*)*b", "a" * 256, False),
        (".*" * 120 + "!", "a" * 256, None),
        ("(" * 20 + "a" + "?)*" * 20 + "b", "a" * 256, None),
        ("((((){99}){99}){99}){99}b", "a", None),
        ("((((a{99}){99}){99}){99}){99}", "a" * 256, None),
        ("[" + "a" * 498 + "]", "b" * 256, False),
        ("(a|" * 160 + ")" * 20, "a" * 256, None),
    ],
)
def test_no_pattern_takes_long(pattern: str, text: str, expected: bool | None) -> None:
    """By construction: at most 256 states, for each of at most 256 characters. Nothing is expected of too many."""
    assert len(pattern) <= MAX_PATTERN
    assert len(text) <= MAX_TEXT
    began = time.process_time()
    try:
        found = matches(pattern, text)
    except UnsupportedPattern:
        found = None
    assert time.process_time() - began < 1
    assert found is expected


def test_long_patterns_and_texts_are_not_tried() -> None:
    for pattern, text in (("a" * (MAX_PATTERN + 1), "a"), ("a", "a" * (MAX_TEXT + 1))):
        with pytest.raises(UnsupportedPattern):
            matches(pattern, text)
