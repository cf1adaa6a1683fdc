"""Deltas read by their frame: the same text as by decoding the event, or none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline.wire.framing.stream_reader import TRIAL, DeltaFrame

BEFORE = '{"type": "delta", "text": '
AFTER = ', "index": 0}'


def event(text: str) -> bytes:
    return raw(json.dumps(text, ensure_ascii=False).encode())


def raw(literal: bytes) -> bytes:
    return BEFORE.encode() + literal + AFTER.encode()


def learned(text: str = "hello") -> DeltaFrame:
    frame = DeltaFrame()

    def means_same(data: bytes) -> bool:
        return bool(json.loads(data) == {"type": "delta", "text": TRIAL, "index": 0})

    frame.learn("part", event(text), "text", text, means_same)
    return frame


@pytest.mark.parametrize("text", ["one", 'a "quote"', "back\\slash", "two\nlines", "ä 😀", "]", '","', "", "\x7f"])
def test_the_text_of_a_block_is_read_by_its_frame(text: str) -> None:
    assert learned().text_in(event(text) + b"\n\n") == text


@pytest.mark.parametrize(
    "odd",
    [
        raw(b'"a", "finish": "b"'),  # it contains more than text
        raw(b'"a\\"'),  # the string does not end
        raw(b'"a\\u00"'),
        raw(b'"'),  # shorter than the frame
        raw(b"null"),
        raw(b'"a\n"'),
        raw(b'"\xff"'),
        raw(b'"\\ud83d"'),  # a lone surrogate
        b'stray"' + AFTER.encode(),  # it ends like the frame, but begins differently
    ],
)
def test_a_block_that_is_not_a_plain_delta_does_not_have_the_frame(odd: bytes) -> None:
    assert learned().text_in(odd + b"\n\n") is None


def test_only_one_whole_block_has_the_frame() -> None:
    frame, block = learned(), event("one") + b"\n\n"
    assert frame.text_in(block + block) is None
    for cut in range(1, len(block)):
        assert frame.text_in(block[:cut]) is None


@given(st.text(), st.booleans())
def test_by_frame_or_by_decoding_a_block_says_the_same(text: str, ascii_only: bool) -> None:
    block = raw(json.dumps(text, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))
    read = learned().text_in(block + b"\n\n")
    assert read in (text, None)
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert read == text


def test_a_frame_that_does_not_mean_the_same_is_not_used() -> None:
    frame = DeltaFrame()
    frame.learn("part", event("hello"), "text", "hello", lambda data: False)
    assert frame.key is None


def test_a_text_that_occurs_elsewhere_does_not_mislead() -> None:
    """The first occurrence of the text may be in another field: the trial shows that."""
    data = b'{"text": "hello", "other": {"text": "hello"}}'
    frame = DeltaFrame()
    frame.learn(
        "part",
        data,
        "text",
        "hello",
        lambda data: bool(json.loads(data) == {"text": "hello", "other": {"text": TRIAL}}),
    )
    assert frame.key is None


def test_a_frame_is_forgotten_with_its_part() -> None:
    frame = learned()
    frame.forget("another")
    assert frame.key == "part"
    frame.forget("part")
    assert frame.key is None


def test_an_upstream_without_frames_is_given_up_after_a_few_attempts() -> None:
    frame = DeltaFrame()
    attempts: list[bytes] = []

    def differs(data: bytes) -> bool:
        attempts.append(data)
        return False

    for _ in range(100):
        frame.learn("part", event("hello"), "text", "hello", differs)
    assert 1 < len(attempts) < 10
