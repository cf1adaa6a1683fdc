"""Connect envelopes: cut, joined, compressed, and those that are none."""

import gzip
import random

import pytest

from tests.chance import seeds
from tests.each import each
from tieline.wire.framing.connect import COMPRESSED, END, TRAILERS, Frame, FrameReader, FramingError, frame

FRAMES = [
    Frame(0, b"\x3a\x00"),
    Frame(0, b""),
    Frame(0, bytes(range(256)) * 3),
    Frame(0x40, b"a flag nobody knows"),
    Frame(TRAILERS, b"grpc-status: 0\r\n"),
    Frame(END, b"{}"),
]
STREAM = b"".join(frame(payload, flags) for flags, payload in FRAMES)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (frame(b"\x3a\x00"), "00000000023a00"),
        (frame(b"{}", END), "02000000027b7d"),
        (frame(b"", TRAILERS), "8000000000"),
    ],
)
def test_a_frame_is_flags_length_and_payload(made: bytes, expected: str) -> None:
    """Spec: the published byte sequences."""
    assert made.hex() == expected


def test_frames_that_come_together_are_cut_apart() -> None:
    reader = FrameReader()
    assert reader.feed(STREAM) == FRAMES
    assert reader.pending == 0


def test_frames_that_come_byte_by_byte_are_put_together() -> None:
    reader = FrameReader()
    got = [one for at in range(len(STREAM)) for one in reader.feed(STREAM[at : at + 1])]
    assert got == FRAMES


@each("seed", seeds(50))
def test_any_cutting_gives_the_same_frames(seed: int) -> None:
    chance = random.Random(seed)
    places = sorted(chance.randrange(len(STREAM) + 1) for _ in range(chance.randint(1, 40)))
    reader = FrameReader()
    got = [one for a, b in zip([0, *places], [*places, len(STREAM)], strict=True) for one in reader.feed(STREAM[a:b])]
    assert got == FRAMES


def test_nothing_gives_nothing() -> None:
    reader = FrameReader()
    assert reader.feed(b"") == []
    assert reader.feed(STREAM[:3]) == []
    assert reader.feed(b"") == []
    assert reader.pending == 3


def test_what_is_held_of_an_unfinished_frame_is_told() -> None:
    reader = FrameReader()
    reader.feed(frame(b"whole") + frame(b"half of it")[:8])
    assert reader.pending == 8


def test_a_large_frame_in_small_pieces_is_joined_once() -> None:
    """Ours: joining at every read would take minutes for a frame of this size."""
    payload = b"x" * (8 << 20)
    data = frame(payload)
    reader = FrameReader()
    got = [one for at in range(0, len(data), 512) for one in reader.feed(data[at : at + 512])]
    assert got == [Frame(0, payload)]


def test_a_compressed_frame_is_given_as_it_was() -> None:
    data = frame(gzip.compress(b"hello" * 1000), COMPRESSED) + frame(gzip.compress(b"{}"), END | COMPRESSED)
    assert FrameReader().feed(data) == [Frame(0, b"hello" * 1000), Frame(END, b"{}")]


def test_an_empty_frame_may_call_itself_compressed() -> None:
    assert FrameReader().feed(frame(b"", COMPRESSED)) == [Frame(0, b"")]


BAD = {
    "too large": frame(b"x" * 101),
    "larger than anything": b"\x00\xff\xff\xff\xff",
    "expands too far": frame(gzip.compress(b"x" * 1001), COMPRESSED),
    "not compressed at all": frame(b"hello", COMPRESSED),
    "compressed data that breaks off": frame(gzip.compress(b"hello" * 9)[:-9], COMPRESSED),
    "compressed in a way nobody agreed upon": frame(b"\x1f\x8b\x09" + b"\0" * 9, COMPRESSED),
}


@each("name", BAD)
@each("step", [1, 4, 1 << 20])
def test_what_is_no_frame_is_an_error_and_the_frames_before_it_are_not_lost(name: str, step: int) -> None:
    data = frame(b"good") + BAD[name]
    reader = FrameReader(limit=100, expanded=1000)
    got, error = fed_until_broken(reader, data, step)
    assert got == [Frame(0, b"good")]
    assert error.rest == BAD[name][: len(error.rest)] != b""


def fed_until_broken(reader: FrameReader, data: bytes, step: int) -> tuple[list[Frame], FramingError]:
    got: list[Frame] = []
    for at in range(0, len(data), step):
        try:
            got += reader.feed(data[at : at + step])
        except FramingError as error:
            return got + error.frames, error
    raise AssertionError("this was taken for frames")


def test_after_an_error_nothing_is_read_any_more() -> None:
    reader = FrameReader(limit=100)
    with pytest.raises(FramingError):
        reader.feed(BAD["too large"])
    with pytest.raises(FramingError) as again:
        reader.feed(frame(b"good"))
    assert again.value.frames == []


def test_frames_at_the_limit_are_good() -> None:
    reader = FrameReader(limit=100, expanded=1000)
    assert reader.feed(frame(b"x" * 100)) == [Frame(0, b"x" * 100)]
    assert reader.feed(frame(gzip.compress(b"x" * 1000), COMPRESSED)) == [Frame(0, b"x" * 1000)]


def test_without_compression_agreed_upon_a_compressed_frame_is_an_error() -> None:
    with pytest.raises(FramingError, match="compress"):
        FrameReader(gzip=False).feed(frame(gzip.compress(b"hello"), COMPRESSED))


def test_a_small_frame_that_expands_to_very_much_takes_no_memory() -> None:
    bomb = frame(gzip.compress(b"\0" * (64 << 20)), COMPRESSED)
    assert len(bomb) < 1 << 17
    with pytest.raises(FramingError, match="more than 1048576 bytes"):
        FrameReader(expanded=1 << 20).feed(bomb)
