"""The short cut for runs of like events: the same texts as without it, or none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codecs import apart
from tieline.model.assemble import PartsWriter
from tieline.model.content import Text
from tieline.model.events import BORDER, PartDelta
from tieline.wire.shared.delta_frames import TRIAL, Template, frames, in_frames

BEFORE = '{"type": "delta", "text": '
AFTER = ', "index": 0}'


def event(text: str) -> bytes:
    return raw(json.dumps(text, ensure_ascii=False).encode())


def raw(spelled: bytes) -> bytes:
    return BEFORE.encode() + spelled + AFTER.encode()


def learned(text: str = "hello") -> Template:
    template = Template()

    def means_same(data: bytes) -> bool:
        return bool(json.loads(data) == {"type": "delta", "text": TRIAL, "index": 0})

    template.learn("part", event(text), "text", text, means_same)
    return template


def blocks(*events: bytes) -> bytes:
    return b"".join(one + b"\n\n" for one in events)


def read(text: bytes, at: int = 0) -> tuple[list[str], int]:
    """The texts, one for each block, and where the next begins."""
    texts, pieces, end = learned().read(text, at)
    if not pieces:
        return texts, end
    apart = [json.loads(b'"' + piece + b'"') for piece in pieces.split(BORDER)]
    assert ["".join(apart)] == texts
    return apart, end


def test_a_run_of_like_events_is_read_at_once() -> None:
    texts = ["one", 'a "quote"', "back\\slash", "two\nlines", "ä 😀", "]", '","']
    text = blocks(*map(event, texts))
    whole, pieces, end = learned().read(text, 0)
    assert (whole, end) == (["".join(texts)], len(text))
    assert pieces.count(BORDER) == len(texts) - 1
    assert read(text) == (texts, len(text))


def test_one_event_alone_is_no_run() -> None:
    text = blocks(event("ä"))
    assert learned().read(text, 0) == (["ä"], b"", len(text))


def test_a_run_ends_at_the_first_event_of_another_frame() -> None:
    run, rest = blocks(event("one"), event("two")), blocks(b'{"type": "stop"}', event("three"))
    assert read(run + rest) == (["one", "two"], len(run))
    assert read(run + rest, len(run)) == ([], len(run))
    assert read(b"ping\n\n" + run, 6) == (["one", "two"], 6 + len(run))


@pytest.mark.parametrize(
    "odd",
    [
        raw(b'"a", "finish": "b"'),  # more to say, however it looks
        raw(b'"a\\"'),  # a string that does not end: never joined with the next
        raw(b'"a\\u00"'),
        raw(b'"'),  # too short for the frame
        raw(b"null"),
        raw(b'"a\n"'),
        raw(b'"\xff"'),
        raw(b'"\\ud83d"'),  # half a character
        b'stray"' + AFTER.encode(),  # ends like the frame, and begins otherwise
    ],
)
def test_an_event_that_is_no_plain_delta_ends_the_run(odd: bytes) -> None:
    run = blocks(event("one"), event("two"))
    assert read(run + blocks(odd, event("00"))) == (["one", "two"], len(run))
    assert read(blocks(odd, event("00"))) == ([], 0)


@pytest.mark.parametrize("odd", ["", "\x7f", "a\x7fb"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_text_that_could_be_taken_for_a_border_is_read_apart(odd: str, place: int) -> None:
    texts = ["one", "two"]
    texts.insert(place, odd)
    text = blocks(*map(event, texts))
    assert learned().read(text, 0) == (texts, b"", len(text))


def test_a_last_block_that_is_cut_is_not_read_by_its_frame() -> None:
    run = blocks(event("one"))
    for cut in range(1, len(event("two")) + 2):
        assert read(run + blocks(event("two"))[:cut]) == (["one"], len(run))


WORDS = st.lists(st.text(st.sampled_from('ab"\\/n\n\x7f\u2028é😀,:{}[]')), max_size=6)


@given(st.lists(st.one_of(WORDS, st.just(None)), max_size=5), st.booleans())
def test_by_frame_or_block_by_block_a_stream_says_the_same(runs: list[list[str] | None], ascii_only: bool) -> None:
    said: list[str] = []
    others = 0
    text = b""
    for run in runs:
        if run is None:
            others += 1
            text += blocks(b"event: ping")
        else:
            said += run
            text += blocks(*(raw(json.dumps(word, ensure_ascii=ascii_only).encode()) for word in run))
    parts = PartsWriter()
    parts.start("part", Text())
    assert [*learned().unframed(text, parts)] == [b"event: ping"] * others
    deltas = [delta for delta in apart(parts.take()) if isinstance(delta, PartDelta)]
    assert [delta.text for delta in deltas] == [word for word in said if word]


@given(st.lists(st.text(min_size=1).filter(lambda text: "\x7f" not in text), min_size=2))
def test_pieces_are_written_each_in_its_frame(texts: list[str]) -> None:
    pieces = BORDER.join(json.dumps(text).encode()[1:-1] for text in texts)
    lines = in_frames(pieces, b'{"text":', b"}\n").decode().splitlines()
    assert [json.loads(line) for line in lines] == [{"text": text} for text in texts]


def test_a_frame_that_does_not_mean_the_same_is_not_taken_up() -> None:
    template = Template()
    template.learn("part", event("hello"), "text", "hello", lambda data: False)
    assert template.key is None


def test_a_text_that_occurs_elsewhere_does_not_mislead() -> None:
    """The first place with this text may be another field: the trial shows it."""
    data = b'{"text": "hello", "other": {"text": "hello"}}'
    template = Template()
    template.learn(
        "part",
        data,
        "text",
        "hello",
        lambda data: bool(json.loads(data) == {"text": "hello", "other": {"text": TRIAL}}),
    )
    assert template.key is None


def test_a_forgotten_frame_can_be_learned_again() -> None:
    template = learned()
    template.forget("another")
    assert template.key == "part"
    template.forget("part")
    assert template.key is None


def test_texts_are_written_each_in_its_frame() -> None:
    texts = ["one", 'a "quote"', "back\\slash\\", '","', 'ends with ",', "ä 😀", "two\nlines", '\\","']
    lines = b"".join(frames(texts, b'{"text":', b"}\n")).decode().splitlines()
    assert [json.loads(line) for line in lines] == [{"text": text} for text in texts]


def test_one_block_alone_has_its_frame_and_its_blank_line() -> None:
    template = learned()
    assert template.only(event('a "quote" ä') + b"\n\n") == 'a "quote" ä'
    assert template.only(event("one") + b"\n") is None
    assert template.only(event("one") + b"\n\n" + event("two") + b"\n\n") is None
    assert template.only(raw(b'"a"\n') + b"\n\n") is None
    assert template.only(raw(b'"a\rb"') + b"\n\n") is None
    assert template.only(raw(b"null") + b"\n\n") is None


def test_a_frame_can_be_taken_up_for_another_part() -> None:
    frame = learned().frame
    assert frame is not None
    template = Template()
    template.take_up("other", frame)
    assert template.key == "other"
    assert template.only(event("one") + b"\n\n") == "one"
