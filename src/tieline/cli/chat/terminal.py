"""The terminal of a chat: reads keys or lines without blocking the event loop, and draws the line being typed."""

import asyncio
import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

from rich.console import Console

from tieline.cli.chat.keys import INTERRUPT, QUIT, RESIZED, Key, KeyDecoder
from tieline.cli.chat.line_editor import LineEditor
from tieline.cli.terminal import watch_lines, watch_signals

try:
    import termios

    CAN_READ_KEYS = True
except ImportError:  # Windows: whole lines are read there
    CAN_READ_KEYS = False

READ = 64 << 10
BRACKETED_PASTE_ON, BRACKETED_PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"

_IFLAG, _LFLAG = 0, 3
"""Positions in the list that `termios.tcgetattr` returns."""


def is_capable(env: Mapping[str, str], console: Console) -> bool:
    """Return whether single keys can be read from the terminal, and the terminal can move its cursor."""
    return CAN_READ_KEYS and console.is_terminal and env.get("TERM", "dumb") not in ("", "dumb", "unknown")


class Terminal:
    """Reads from the terminal `stream`, and writes to `console`.

    Keys are passed to `pressed`. If `is_capable` is false, whole lines are read and passed on as text and
    Enter; the terminal itself then edits and echoes the line.
    """

    def __init__(self, console: Console, stream: TextIO, pressed: Callable[[Key], None], *, is_capable: bool) -> None:
        self.console = console
        self.is_capable = is_capable
        self._stream = stream
        self._descriptor = stream.fileno()
        self._pressed = pressed
        self._decoder = KeyDecoder()
        self._drawn_rows = 0
        """Number of rows of the typed text above the row with the cursor."""
        self._is_drawn = False
        self._prompt = ""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Read keys until the context is left. Then restore the terminal settings."""
        saved = self._enter_key_mode()
        # When single keys are read, Ctrl-C is a key like any other. Other programs can still send SIGINT.
        keys = {"SIGINT": INTERRUPT, "SIGTERM": QUIT, "SIGHUP": QUIT, "SIGWINCH": RESIZED}
        stop_signals = watch_signals({name: partial(self._pressed, key) for name, key in keys.items()})
        stop_reading = self._watch_keys() if self.is_capable else watch_lines(self._stream, self._take_line, self._quit)
        try:
            yield
        finally:
            stop_reading()
            stop_signals()
            self.erase()
            self._leave_key_mode(saved)

    @property
    def height(self) -> int:
        """The number of rows that the typed text may use."""
        return max(2, self.console.height - 1)

    def draw(self, prompt: str, editor: LineEditor) -> None:
        """Draw the text being typed, in place of what was drawn before."""
        self._prompt = prompt
        if not self.is_capable:
            if not self._is_drawn:
                self._write(prompt)
            self._is_drawn = True
            return
        layout = editor.layout(prompt, self.console.width)
        first = max(0, min(layout.row - self.height + 1, len(layout.rows) - self.height))
        rows = layout.rows[first : first + self.height]
        if first == 0 and self.console.color_system and rows[0].startswith(prompt):
            rows[0] = f"\x1b[1m{prompt}\x1b[0m{rows[0][len(prompt) :]}"
        row = layout.row - first
        text = [self._erasing(), "\r\n".join(rows)]
        if len(rows) - 1 > row:
            text.append(f"\x1b[{len(rows) - 1 - row}A")
        text.append("\r")
        if layout.column:
            text.append(f"\x1b[{layout.column}C")
        self._write("".join(text))
        self._drawn_rows, self._is_drawn = row, True

    def erase(self) -> None:
        """Erase the text being typed from the screen, so that something else can be printed in its place."""
        if self._is_drawn:
            self._write(self._erasing() if self.is_capable else "\n")
        self._drawn_rows, self._is_drawn = 0, False

    def leave_line(self, editor: LineEditor, text: str, *, is_entered: bool) -> None:
        """Draw the complete text once more, and move below it, so that it stays on the screen.

        If `is_entered` is true, the user pressed Enter, which a terminal in line mode has already echoed.
        """
        if self.is_capable:
            editor.set(text)
            self.draw(self._prompt, editor)
            self._write("\r\n")  # the cursor is in the last row, at the end of the text
            editor.set("")
        elif not is_entered:
            self._write("\n")
        self._drawn_rows, self._is_drawn = 0, False

    def suspend(self) -> None:
        """Stop this program, as Ctrl-Z does in a shell, and return when it is continued."""
        self.erase()
        saved = termios.tcgetattr(self._descriptor)
        self._leave_key_mode(self._original)
        os.kill(os.getpid(), signal.SIGSTOP)
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, saved)
        self._write(BRACKETED_PASTE_ON)

    def _erasing(self) -> str:
        if not self._is_drawn:
            return "\r"
        return (f"\x1b[{self._drawn_rows}A" if self._drawn_rows else "") + "\r\x1b[J"

    def _read_typed_ahead(self) -> None:
        """Read what was typed while the program was starting, when the terminal still sent Enter as a line feed."""
        if select.select([self._descriptor], [], [], 0)[0]:
            for key in self._decoder.feed(os.read(self._descriptor, READ).replace(b"\n", b"\r")):
                self._pressed(key)

    def _watch_keys(self) -> Callable[[], object]:
        """Read keys as they are typed. Return a function that stops this."""
        loop = asyncio.get_running_loop()
        self._read_typed_ahead()
        loop.add_reader(self._descriptor, self._read)
        return partial(loop.remove_reader, self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # the terminal was closed
        if not data:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            self._quit()
            return
        for key in self._decoder.feed(data):
            self._pressed(key)

    def _take_line(self, line: str) -> None:
        if text := line.removesuffix("\n"):
            self._pressed(Key("text", text))
        self._pressed(Key("enter"))

    def _quit(self) -> None:
        self._pressed(QUIT)

    def _enter_key_mode(self) -> list[Any] | None:
        if not self.is_capable:
            return None
        self._original = termios.tcgetattr(self._descriptor)
        settings = termios.tcgetattr(self._descriptor)
        settings[_IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IXON)
        settings[_LFLAG] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, settings)
        self._write(BRACKETED_PASTE_ON)
        return self._original

    def _leave_key_mode(self, saved: list[Any] | None) -> None:
        if saved is not None:
            self._write(BRACKETED_PASTE_OFF)
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, saved)

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()
