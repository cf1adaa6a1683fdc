"""Input that is typed at the terminal, on POSIX systems and Windows."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TextIO

MAX_LINE = 65536


def discard_typed(stream: TextIO) -> None:
    """Discard what was typed at a terminal before this call."""
    try:
        import termios  # noqa: PLC0415 - missing on Windows
    except ImportError:
        _discard_keys()
    else:
        termios.tcflush(stream, termios.TCIFLUSH)


def _discard_keys() -> None:
    import msvcrt  # noqa: PLC0415 - exists on Windows only

    while msvcrt.kbhit():  # type: ignore[attr-defined]  # exists on Windows only
        msvcrt.getwch()  # type: ignore[attr-defined]  # exists on Windows only


def watch_lines(stream: TextIO, take: Callable[[str], None]) -> Callable[[], None]:
    """Call `take` with each line that is typed at a terminal, until its input ends. Return a function that stops this.

    It must be called, and calls `take`, in the event loop.
    """
    loop, number = asyncio.get_running_loop(), stream.fileno()

    def read() -> None:
        # One read is enough, because a terminal delivers one complete line at a time.
        if data := os.read(number, MAX_LINE):
            take(data.decode("utf-8", "replace"))
        else:
            loop.remove_reader(number)

    try:
        loop.add_reader(number, read)
    except NotImplementedError:  # the event loop of Windows watches sockets only
        return _watch_in_thread(loop, stream, take)

    def stop() -> None:
        loop.remove_reader(number)

    return stop


def _watch_in_thread(
    loop: asyncio.AbstractEventLoop, stream: TextIO, take: Callable[[str], None]
) -> Callable[[], None]:
    stopped = threading.Event()

    def deliver(line: str) -> None:
        if not stopped.is_set():
            take(line)

    def read() -> None:
        while not stopped.is_set() and (line := stream.readline(MAX_LINE)):
            try:
                loop.call_soon_threadsafe(deliver, line)
            except RuntimeError:  # the loop is closed
                return

    # A daemon, because a read from the console cannot be interrupted.
    threading.Thread(target=read, name="typed lines", daemon=True).start()
    return stopped.set
