"""Small programs for tests to run, and a place that tells whether they live."""

import asyncio
import os
import socket
import sys
import textwrap
from types import TracebackType
from typing import Self

from tieline.net.process.program import Process, StopTimeouts

SOON = 60
"""Seconds in which everything here happens on the slowest of machines."""

IMPATIENT = StopTimeouts(eof=0.05, term=0.05, kill=SOON)
"""For programs that are known to ignore what they are asked."""

PATIENT = StopTimeouts(eof=SOON, term=SOON, kill=SOON)

ENV = {"PATH": os.environ["PATH"]}
PYTHON = [sys.executable, "-I", "-S", "-c"]

LIVE = """
    import os, signal, socket, subprocess, sys
    def live():
        connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        connection.sendall(b"here")
        return connection
"""
"""A program that connects to `Presence` lives as long as it is connected, whoever its parent is."""

STUBBORN = (
    LIVE
    + """
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    connection = live()
    while True:
        signal.pause()
"""
)


def python(program: str, *arguments: str) -> list[str]:
    """The command that runs a Python program."""
    return [*PYTHON, textwrap.dedent(program), *arguments]


class Presence:
    """What programs connect to while they live."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = str(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    async def next(self) -> socket.socket:
        """The connection of the next program that has begun to live."""
        loop = asyncio.get_running_loop()
        connection, _ = await loop.sock_accept(self._listener)
        connection.setblocking(False)
        assert await loop.sock_recv(connection, 4) == b"here"
        return connection


async def gone(connection: socket.socket) -> bytes:
    """Until the program at the other end is gone: what it still said."""
    said = b""
    try:
        while more := await asyncio.get_running_loop().sock_recv(connection, 100):
            said += more
    except ConnectionResetError:
        pass
    finally:
        connection.close()
    return said


async def output(process: Process) -> bytes:
    """All that a program writes until it ends."""
    pieces = []
    while piece := await process.chunk():
        pieces.append(piece)
    return b"".join(pieces)


async def send_for_ever(process: Process) -> None:
    """Until it takes no more."""
    while True:
        await process.send(b"x" * 100_000)
