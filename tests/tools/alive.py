"""Tells whether anything a command started is still there, without looking at process ids.

A command opens a named pipe for writing, and everything it starts inherits it. The reading end comes to its end in the
moment the last of them is gone.
"""

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Self

SECONDS = 60.0


class Alive:
    """The reading end of a named pipe `alive` in a folder; commands begin with `exec 9>alive`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "alive"
        self._reader = asyncio.StreamReader()
        self._transport: asyncio.BaseTransport | None = None
        self._own = -1

    async def __aenter__(self) -> Self:
        os.mkfifo(self._path)
        # As long as nobody else has opened the pipe, this keeps it from being over.
        self._own = os.open(self._path, os.O_RDWR)
        pipe = os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
        loop = asyncio.get_running_loop()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._own >= 0:
            os.close(self._own)

    async def says(self, word: str) -> None:
        """Wait until a process has written this word, on a line, to file descriptor 9."""
        async with asyncio.timeout(SECONDS):
            while (line := await self._reader.readline()) != f"{word}\n".encode():
                assert line, f"it is over, and nobody said {word}"
        if self._own >= 0:
            os.close(self._own)
            self._own = -1

    async def is_over(self) -> None:
        """Wait until nobody is left."""
        async with asyncio.timeout(SECONDS):
            await self._reader.read()
