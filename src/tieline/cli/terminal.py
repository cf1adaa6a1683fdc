"""Terminal input and signals, on POSIX systems and on Windows."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any, TextIO

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


def watch_signals(handlers: Mapping[str, Callable[[], None]]) -> Callable[[], None]:
    """Call each handler in the event loop whenever the signal it belongs to arrives. Return a function that stops this.

    Signals that the system does not have are ignored.
    """
    loop = asyncio.get_running_loop()
    known = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    previous: dict[int, Any] = {}
    for number, handler in known.items():
        try:
            loop.add_signal_handler(number, handler)
        except NotImplementedError:  # the Windows event loop cannot handle signals
            previous[number] = signal.signal(number, lambda *_, handler=handler: loop.call_soon_threadsafe(handler))

    def stop() -> None:
        for number in known:
            if number in previous:
                signal.signal(number, previous[number])
            else:
                loop.remove_signal_handler(number)

    return stop


def watch_lines(
    stream: TextIO, take: Callable[[str], None], ended: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """Call `take` with each line that is typed at a terminal, and `ended` when its input ends.

    Return a function that stops this. `watch_lines` must be called in the event loop, which also runs the callbacks.
    """
    loop, number = asyncio.get_running_loop(), stream.fileno()

    def read() -> None:
        # One read is enough, because a terminal delivers one complete line at a time.
        try:
            data = os.read(number, MAX_LINE)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # the terminal was closed
        if data:
            take(data.decode("utf-8", "replace"))
        else:
            loop.remove_reader(number)
            ended()

    try:
        loop.add_reader(number, read)
    except NotImplementedError:  # the Windows event loop can watch only sockets
        return _watch_in_thread(loop, stream, take, ended)

    def stop() -> None:
        loop.remove_reader(number)

    return stop


def _watch_in_thread(
    loop: asyncio.AbstractEventLoop, stream: TextIO, take: Callable[[str], None], ended: Callable[[], None]
) -> Callable[[], None]:
    stopped = threading.Event()

    def deliver(line: str) -> None:
        if stopped.is_set():
            return
        if line:
            take(line)
        else:
            ended()

    def read() -> None:
        line = "\n"
        while line and not stopped.is_set():
            line = stream.readline(MAX_LINE)
            try:
                loop.call_soon_threadsafe(deliver, line)
            except RuntimeError:  # the loop is closed
                return

    # A daemon thread, because a read from the console cannot be interrupted.
    threading.Thread(target=read, name="typed lines", daemon=True).start()
    return stopped.set
