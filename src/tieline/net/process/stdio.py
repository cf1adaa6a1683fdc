"""The standard streams of a program as asyncio protocols with flow control."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import IO, cast

HIGH_WATER = 256 * 1024
"""If more than this many bytes wait for the program to read them, writing pauses."""


class StdinPipe(asyncio.BaseProtocol):
    """The pipe to a program's standard input."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._lost = asyncio.Event()
        self._is_aborted = False

    async def connect(self, pipe: IO[bytes] | None) -> None:
        await asyncio.get_running_loop().connect_write_pipe(lambda: self, pipe)

    async def has_room(self, within: float) -> bool:
        """Wait until there is room for a message or the pipe is closed. Return False after waiting `within` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not self._room.is_set():
                    await self._room.wait()
        return self._room.is_set()

    def write(self, data: bytes) -> bool:
        """Write a message. Return False if the pipe is closed."""
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(data)
        return True

    def close(self) -> None:
        """Close the pipe after all written data has been delivered."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the pipe and drop data that was not delivered."""
        transport = self._transport
        if transport is None or self._is_aborted or self._lost.is_set():
            return
        # A closing transport with an empty buffer is about to be lost; aborting it again makes asyncio fail.
        if not transport.is_closing() or transport.get_write_buffer_size():
            self._is_aborted = True
            transport.abort()

    async def closed(self) -> None:
        """Wait until the pipe is closed."""
        if self._transport is not None:
            await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        self._transport = None
        self._lost.set()
        self._room.set()


class OutputPipe(asyncio.Protocol):
    """The pipe from a program's standard output or standard error."""

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.is_ended = False
        """Whether the output has ended, so that no more data will arrive."""
        self._on_data = on_data
        self._on_end = on_end
        self._transport: asyncio.ReadTransport | None = None
        self._is_paused = False
        self._lost = asyncio.Event()

    async def connect(self, pipe: IO[bytes] | None) -> None:
        await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)

    def pause(self) -> None:
        if self._transport is not None and not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def close(self) -> None:
        """Stop reading and close the pipe."""
        self.is_ended = True
        if self._transport is not None:
            self._transport.close()

    async def closed(self) -> None:
        """Wait until the pipe is closed."""
        if self._transport is not None:
            await self._lost.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature is asyncio's
        self._transport = None
        self._lost.set()
        self.is_ended = True
        self._on_end()
