"""The last of a program's standard error, as a person gets to see it."""

import pytest

from tests.each import each
from tieline.net.process.tail import Tail


@each(
    ("written", "shown"),
    [
        (b"", ""),
        (b"one\ntwo\n", "one\ntwo"),
        (b"no line end", "no line end"),
        (b"\x1b[1;31merror\x1b[0m: no\r\n", "error: no"),
        (b"\x1b]0;title\x07words", "words"),
        (b"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"10%\r50%\r100%\ndone", "100%\ndone"),
        (b"bell\x07 and\x00 others\x7f\ttab", "bell and others\ttab"),
        ("wide ä 😀".encode(), "wide ä 😀"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\n\n  indented\n\n", "  indented"),
    ],
)
def test_what_is_shown_is_fit_to_be_shown(written: bytes, shown: str) -> None:
    tail = Tail(1000)
    tail.add(written)
    assert tail.text() == shown


@pytest.mark.parametrize("piece", [1, 7, 100, 5000])
def test_the_last_whole_lines_are_kept(piece: int) -> None:
    data = b"".join(b"line %d\n" % n for n in range(1000))
    tail = Tail(100)
    for at in range(0, len(data), piece):
        tail.add(data[at : at + piece])
    lines = tail.text().splitlines()
    assert lines[-1] == "line 999"
    assert lines == [f"line {n}" for n in range(1000 - len(lines), 1000)]
    assert 8 <= len(lines) <= 11


def test_a_line_larger_than_all_is_kept_by_its_end() -> None:
    tail = Tail(10)
    tail.add(b"x" * 100 + b"the end")
    assert tail.text() == "xxxthe end"
