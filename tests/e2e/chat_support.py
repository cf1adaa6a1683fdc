"""A terminal in which `tieline chat` runs, and a page at the same gateway."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.e2e.cli_support import WAIT, environment
from tests.e2e.tools_support import KEY, PATIENCE, Stand

ROWS, COLUMNS = 40, 100
_CODES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])")


class Screen:
    """A terminal that `tieline chat` runs in. It keeps everything that was written to it, without control codes."""

    def __init__(self, home: Path, *arguments: str, **env: str) -> None:
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "tieline", "chat", *arguments],
            cwd=home,
            env=environment(home, **{"TERM": "xterm-256color", "TIELINE_KEY": KEY, **env}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self._theirs = theirs
        self.raw = b""
        self._seen = 0

    @property
    def text(self) -> str:
        """What was written after the words that were waited for last."""
        return _CODES.sub("", self.raw.decode("utf-8", "replace"))[self._seen :]

    async def until(self, *words: str) -> str:
        """Read until all of these words have been written, in any order; what was written up to the last of them."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not all(word in self.text for word in words):
                    await self.more()
        except TimeoutError:
            raise AssertionError(f"{words} not in:\n{self.text}") from None
        end = max(self.text.index(word) + len(word) for word in words)
        text = self.text[:end]
        self._seen += end
        return text

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    async def enter(self, text: str) -> None:
        """Type a message, and wait until the terminal shows it."""
        self.type(text)
        await self.until(text[-10:])
        self.type("\r")

    async def answer(self, text: str, *, until: str, enter: str = "\r") -> str:
        """Answer a question. What is typed within half a second after it appeared does not count: try again."""
        again = "Please answer again"
        while True:
            self.type(text + enter)
            async with asyncio.timeout(PATIENCE):
                while until not in self.text and again not in self.text:
                    await self.more()
            if again not in self.text:
                return await self.until(until)
            await self.until(again, "› ")

    async def leave(self) -> int:
        """Press Ctrl-D; the exit status."""
        self.type("\x04")
        return await self.left()

    async def left(self) -> int:
        """Read until the program has ended; the exit status."""
        async with asyncio.timeout(PATIENCE):
            while self.process.poll() is None:
                await self.more(0.05)
        settings = termios.tcgetattr(self._theirs)
        assert settings[3] & termios.ICANON, "the terminal has its settings back"
        assert settings[3] & termios.ECHO
        return self.process.returncode

    async def more(self, within: float = PATIENCE) -> None:
        """Read what has been written, or wait for it."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._own, readable.set)
        try:
            async with asyncio.timeout(within):
                await readable.wait()
            self.raw += os.read(self._own, 65536)
        except TimeoutError:
            if within == PATIENCE:
                raise
        finally:
            loop.remove_reader(self._own)

    def close(self) -> None:
        """End the program, whatever it is doing."""
        self.process.kill()
        self.process.wait(WAIT)
        os.close(self._theirs)
        os.close(self._own)


@asynccontextmanager
async def chatting(stand: Stand, home: Path, *arguments: str) -> AsyncIterator[Screen]:
    screen = Screen(home, "--url", stand.url, *arguments)
    try:
        await screen.until("Ctrl-D quits.")
        yield screen
    finally:
        screen.close()


async def page(stand: Stand, method: str, path: str, body: Any = None) -> Any:
    """What the page does."""
    token = (await stand.http.get("/api/state")).json()["token"]
    response = await stand.http.request(method, path, json=body, headers={"x-tieline-token": token})
    assert response.status_code == 200, response.text
    return response.json()
