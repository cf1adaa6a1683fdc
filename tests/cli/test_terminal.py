"""What is typed at a terminal, on POSIX systems and on Windows."""

import asyncio
import os
import pty
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from tieline.cli.terminal import discard_typed, watch_lines

Terminal = tuple[int, TextIO]


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    """The keyboard, as a descriptor to write to, and the input of a program."""
    keyboard, screen = pty.openpty()
    with os.fdopen(screen, encoding="utf-8") as stream:
        yield keyboard, stream
    os.close(keyboard)


async def watched(terminal: Terminal) -> None:
    keyboard, stream = terminal
    lines: asyncio.Queue[str] = asyncio.Queue()
    stop = watch_lines(stream, lines.put_nowait)
    async with asyncio.timeout(60):
        os.write(keyboard, "ja, größer\n".encode())
        assert await lines.get() == "ja, größer\n"
        os.write(keyboard, b"n\n")
        assert await lines.get() == "n\n"
    stop()
    os.write(keyboard, b"late\n")
    await asyncio.sleep(0)
    assert lines.empty()


async def test_lines_arrive_as_they_are_typed(terminal: Terminal) -> None:
    await watched(terminal)


async def test_lines_arrive_where_the_loop_cannot_watch_files(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_reader(*_: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", add_reader)
    await watched(terminal)


def test_what_was_typed_before_is_discarded(terminal: Terminal) -> None:
    keyboard, stream = terminal
    os.write(keyboard, b"y\n")
    discard_typed(stream)
    os.write(keyboard, b"n\n")
    assert stream.readline() == "n\n"


def test_keys_that_were_pressed_before_are_discarded_on_windows(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ["y", "\r"]
    console = SimpleNamespace(kbhit=lambda: bool(keys), getwch=lambda: keys.pop(0))
    monkeypatch.setitem(sys.modules, "termios", None)
    monkeypatch.setitem(sys.modules, "msvcrt", console)
    discard_typed(terminal[1])
    assert keys == []
