"""Deltas read by their frame: the same text as by decoding the event, or none."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tieline.model.content import Text
from tieline.model.events import PartEnd
from tieline.wire.framing.stream_reader import TRIAL, DeltaFrame
from tieline.wire.openai_responses.reader import ResponseReader

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


def blocks(*events: bytes) -> bytes:
    return b"".join(event + b"\n\n" for event in events)


TEXTS = ["one", 'a "quote"', "back\\slash", "two\nlines", "ä 😀", "]", '","', "", "\x7f", "ends with \\"]
ODD = [
    raw(b'"a", "finish": "b"'),  # it contains more than text
    raw(b'"a","b"'),  # two strings
    raw(b'"a\\"'),  # the string does not end
    raw(b'"a\\u00"'),
    raw(b'"'),  # shorter than the frame
    raw(b"null"),
    raw(b'"a\n"'),
    raw(b'"\xff"'),
    raw(b'"\\ud83d"'),  # a lone surrogate
    b'stray"' + AFTER.encode(),  # it ends like the frame, but begins differently
]


def test_the_texts_of_blocks_are_read_by_their_frame() -> None:
    for text in TEXTS:
        block = blocks(event(text))
        assert learned().texts_in(block, 0) == ([text], len(block))


def test_deltas_of_one_read_are_decoded_together() -> None:
    plain = blocks(*map(event, ["one", "two", "ä 😀", "", "three"]))
    assert learned().texts_in(b"skipped" + plain, 7) == (["one", "two", "ä 😀", "", "three"], 7 + len(plain))


def test_a_run_ends_at_the_first_block_of_another_frame() -> None:
    run, rest = blocks(event("one"), event("two")), blocks(b'{"type": "stop"}', event("three"))
    assert learned().texts_in(run + rest, 0) == (["one", "two"], len(run))
    assert learned().texts_in(run + rest, len(run)) == ([], len(run))


def test_a_block_that_is_not_a_plain_delta_is_never_read_by_its_frame() -> None:
    run = blocks(event("one"), event("two"))
    for odd in ODD:
        assert learned().texts_in(blocks(odd), 0) == ([], 0), odd
        assert learned().texts_in(blocks(odd, event("00")), 0) == ([], 0), odd
        texts, end = learned().texts_in(run + blocks(odd), 0)
        assert (texts, end) in ((["one", "two"], len(run)), (["one"], len(blocks(event("one"))))), odd


def test_a_block_that_is_cut_is_not_read_by_its_frame() -> None:
    block = blocks(event("one"))
    for cut in range(1, len(block)):
        assert learned().texts_in(block[:cut], 0) == ([], 0)


@given(st.lists(st.text(st.sampled_from('ab"\\/n\n\x7f\u2028é😀,:{}[]')), min_size=1, max_size=8), st.booleans())
def test_by_frame_or_by_decoding_blocks_say_the_same(texts: list[str], ascii_only: bool) -> None:
    text = blocks(*(raw(json.dumps(text, ensure_ascii=ascii_only).encode()) for text in texts))
    frame, read, start = learned(), list[str](), 0
    while start < len(text):
        found, start = frame.texts_in(text, start)
        assert found, "every block has the frame"
        read += found
    assert read == texts


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


def test_the_frame_of_every_part_is_learned_however_many_there_are() -> None:
    frame = DeltaFrame()
    for part in range(100):
        frame.learn(part, event("hello"), "text", "hello", lambda data: True)
        assert frame.key == part


def test_a_part_without_a_frame_does_not_harm_the_next() -> None:
    frame = DeltaFrame()
    for _ in range(100):
        frame.learn("odd", event("hello"), "text", "hello", lambda data: False)
    frame.learn("part", event("hello"), "text", "hello", lambda data: True)
    assert frame.key == "part"


def response_frames(items: int) -> list[dict[str, Any]]:
    """The events of a Responses answer with this many texts, each in ten deltas."""
    frames: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1", "model": "m"}}]
    output = [{"id": f"msg_{place}", "type": "message", "role": "assistant", "content": []} for place in range(items)]
    for place, item in enumerate(output):
        where = {"output_index": place, "item_id": item["id"]}
        frames.append({"type": "response.output_item.added", "output_index": place, "item": item})
        frames += [{"type": "response.output_text.delta", **where, "delta": letter} for letter in "0123456789"]
        frames.append({"type": "response.output_item.done", "output_index": place, "item": item})
    return [*frames, {"type": "response.completed", "response": {"id": "resp_1", "output": output}}]


def test_the_deltas_of_a_late_part_are_read_as_fast_as_those_of_the_first() -> None:
    decoded: list[bytes] = []

    class Counting(ResponseReader):
        def _receive(self, block: bytes) -> None:
            decoded.append(block)
            super()._receive(block)

    frames = [{"sequence_number": number, **frame} for number, frame in enumerate(response_frames(20))]
    stream = b"".join(b"data: %b\n\n" % json.dumps(frame).encode() for frame in frames)
    fast = Counting().feed(stream)
    assert len(decoded) == len(frames) - 20 * 9, "one delta of each part is decoded, to learn how the others are framed"
    slow = ResponseReader().feed(stream.replace(b'"delta": ', b'"delta"  : '))
    assert [*fast] == [*slow]
    assert [event.part for event in fast if isinstance(event, PartEnd)] == [Text(text="0123456789")] * 20
