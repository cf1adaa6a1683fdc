"""SseReader: the same events however the bytes are spelled and cut (catalogue 55 to 62)."""

import random
from collections.abc import Iterable

import pytest

from tests.each import each
from tieline.wire.framing.sse import STRAY_LIMIT, SseEvent, SseOverflow, SseReader


def fed(reader: SseReader, *reads: bytes) -> list[SseEvent]:
    """The events of some reads."""
    blocks = [block for data in reads for block in reader.feed(data)]
    return [event for block in blocks if (event := reader.event(block)) is not None]


def closed(reader: SseReader) -> list[SseEvent]:
    return [event for block in reader.close() if (event := reader.event(block)) is not None]


def read(*reads: bytes) -> list[SseEvent]:
    reader = SseReader()
    return fed(reader, *reads) + closed(reader)


def data_of(*reads: bytes) -> list[bytes]:
    return [data for _, data in read(*reads)]


def cuttings(stream: bytes, count: int = 50) -> Iterable[list[bytes]]:
    """Byte by byte, and `count` seeded random cuttings."""
    yield [stream[i : i + 1] for i in range(len(stream))]
    chance = random.Random(len(stream))
    for _ in range(count):
        places = sorted(chance.randrange(len(stream) + 1) for _ in range(chance.randint(1, 9)))
        yield [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]


STREAMS = {
    "lf": b"data: one\n\ndata: two\n\n",
    "crlf": b"event: a\r\ndata: one\r\n\r\ndata: two\r\n\r\n",
    "cr": b"event: a\rdata: one\r\rdata: two\r\r",
    "mixed": b"data: one\r\n\rdata: two\n\r\ndata: three\r\r\n",
    "no space": b"event:a\ndata:one\n\ndata:  two\n\n",
    "several lines": b"data: one\ndata: two\ndata\ndata:\n\n",
    "other fields": b"id: 1\nretry: 3\nid\nevent: a\nvendor: x\ndata: one\n\n",
    "comments": b": hello\n\n:\ndata: one\n: between\ndata: two\n\n:\n:\n\n",
    "mark": b"\xef\xbb\xbfdata: one\n\ndata: \xef\xbb\xbf\n\n",
    "mark at the end": b"\xef\xbb\xbfdata: one",
    "separators": "data: a\u2028b\u2029c\x85d\x0be\n\n".encode(),
    "wide characters": "event: ä\ndata: 日本 😀\n\n".encode(),
    "stray": b'data: one\n\n{\n  "error": {\n\n    "message": "no"\n  }\n}\n',
    "unfinished": b"data: one\n\nevent: a\ndata: two",
    "unfinished with a line end": b"data: one\n\nevent: a\ndata: two\r\n",
    "blank lines": b"\n\n\r\n\n\ndata: one\n\n\n\n\ndata: two\n\n\n",
    "nothing": b"\n",
}


@each("name", STREAMS)
def test_060_any_cutting_gives_the_same_events(name: str) -> None:
    stream = STREAMS[name]
    whole = SseReader()
    expected = fed(whole, stream) + closed(whole)
    for cut in cuttings(stream):
        reader = SseReader()
        assert fed(reader, *cut) + closed(reader) == expected, cut
        assert reader.stray == whole.stray, cut


def test_055_a_character_split_over_reads_stays_whole() -> None:
    stream = "data: 😀\n\n".encode()
    assert data_of(stream[:8], stream[8:]) == ["😀".encode()]


def test_056_only_cr_and_lf_end_a_line() -> None:
    text = "a\u2028b\u2029c\x85d\x0be\x0cf"
    assert data_of(f"data: {text}\n\n".encode()) == [text.encode()]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_057_every_line_end_of_the_standard_counts(end: bytes) -> None:
    stream = end.join([b"event: a", b"data: one", b"", b"data: two", b"", b""])
    assert read(stream) == [(b"a", b"one"), (b"", b"two")]


def test_057_a_crlf_split_over_reads_is_one_line_end() -> None:
    assert data_of(b"data: one\r", b"\ndata: two\r\n\r", b"\ndata: three\r", b"\n\r\n") == [b"one\ntwo", b"three"]


def test_057_an_event_that_ends_with_a_cr_is_given_at_once() -> None:
    """Ours: whoever waits to see whether a LF follows holds the last event back until the next one."""
    reader = SseReader()
    assert [data for _, data in fed(reader, b"data: one\r\r")] == [b"one"]
    assert [data for _, data in fed(reader, b"\ndata: two\n\n")] == [b"two"]


def test_058_the_space_after_the_colon_is_optional_and_only_one_is_dropped() -> None:
    assert read(b"event:a\ndata:one\n\nevent: b\ndata:  two\n\n") == [(b"a", b"one"), (b"b", b" two")]


def test_059_data_lines_are_joined_with_line_feeds() -> None:
    assert data_of(b"data: {\ndata:  1\ndata\ndata: }\n\n") == [b"{\n 1\n\n}"]


def test_059_ids_retries_and_comments_are_no_data_and_not_stray() -> None:
    reader = SseReader()
    assert fed(reader, b": hi\n\nid: 1\nretry: 5\nid\n\n:\ndata: x\n\n") == [(b"", b"x")]
    assert reader.stray == b""


def test_an_event_without_data_is_none() -> None:
    assert read(b"event: ping\n\ndata: x\n\n") == [(b"", b"x")]


def test_the_name_of_an_event_is_not_inherited_by_the_next() -> None:
    assert [name for name, _ in read(b"event: a\ndata: 1\n\ndata: 2\n\n")] == [b"a", b""]


def test_only_a_byte_order_mark_at_the_very_beginning_is_dropped() -> None:
    assert data_of(b"\xef", b"\xbb", b"\xbfdata: \xef\xbb\xbf\n\n") == [b"\xef\xbb\xbf"]


def test_061_a_bare_json_error_is_kept_as_stray() -> None:
    reader = SseReader()
    assert fed(reader, b'data: x\n\n{\n  "error": {"message": "no"}\n}\n') == [(b"", b"x")]
    assert closed(reader) == []
    assert reader.stray == b'{\n  "error": {"message": "no"}\n}\n'


def test_061_stray_bytes_are_capped() -> None:
    reader = SseReader()
    for _ in range(30):
        fed(reader, b"<p>" * 1000 + b"\n\n")
    assert len(reader.stray) == STRAY_LIMIT


def test_062_a_huge_event_passes_below_the_limit() -> None:
    text = b"x" * 3_000_000
    stream = b"data: " + text + b"\n\n"
    assert data_of(*(stream[i : i + 65536] for i in range(0, len(stream), 65536))) == [text]


def test_062_an_event_over_the_limit_raises() -> None:
    reader = SseReader(limit=100)
    reader.feed(b"data: " + b"x" * 90)
    with pytest.raises(SseOverflow, match="100 bytes"):
        reader.feed(b"x" * 90)


def test_062_events_before_the_one_that_is_too_large_are_not_lost() -> None:
    reader = SseReader(limit=100)
    assert fed(reader, b"data: one\n\ndata: " + b"x" * 200) == [(b"", b"one")]
    with pytest.raises(SseOverflow):
        reader.feed(b"x")


def test_062_the_limit_is_for_one_event_and_not_for_the_stream() -> None:
    reader = SseReader(limit=100)
    given = [event for _ in range(50) for event in fed(reader, b"data: 1234567890\n\n")]
    assert len(given) == 50


def test_the_last_event_may_lack_its_blank_line() -> None:
    assert data_of(b"data: one\n\ndata: [DONE]") == [b"one", b"[DONE]"]


def test_many_events_in_one_read_come_together_and_at_once() -> None:
    assert len(SseReader().feed(b"data: x\n\n" * 1000)) == 1000
