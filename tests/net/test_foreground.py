"""A program in the foreground: how it ends when this process is asked to stop."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.net.programs import ENV, LIVE, STUBBORN, Presence, gone, python
from tieline.net.process import foreground
from tieline.net.process.exits import Exit
from tieline.net.process.foreground import run_in_foreground

LEAVING = (
    LIVE
    + """
    subprocess.Popen([sys.executable, "-I", "-S", "-c", sys.argv[2], sys.argv[1]])
    connection = live()
    signal.pause()
"""
)


@pytest.fixture
def presence() -> Iterator[Presence]:
    with Presence() as presence:
        yield presence


async def started(
    presence: Presence, command: list[str], count: int = 1
) -> "tuple[asyncio.Task[Exit], list[socket.socket]]":
    """Run a program, and return when its processes have begun."""
    running = asyncio.create_task(run_in_foreground(command, ENV))
    return running, [await presence.next() for _ in range(count)]


async def test_a_program_that_does_not_stop_is_killed(presence: Presence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreground, "STOP_TIMEOUT", 0.1)
    running, [connection] = await started(presence, python(STUBBORN, presence.port))
    os.kill(os.getpid(), signal.SIGTERM)
    assert await running == Exit(signal=signal.SIGTERM)
    await gone(connection)


async def test_what_a_stopped_program_leaves_behind_is_killed(presence: Presence) -> None:
    stubborn = python(STUBBORN)[-1]
    running, connections = await started(presence, python(LEAVING, presence.port, stubborn), 2)
    os.kill(os.getpid(), signal.SIGHUP)
    assert await running == Exit(signal=signal.SIGHUP)
    for connection in connections:
        await gone(connection)


async def test_a_cancelled_program_is_killed(presence: Presence) -> None:
    running, [connection] = await started(presence, python(STUBBORN, presence.port))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await gone(connection)


async def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_in_foreground([str(tmp_path / "nothing")], ENV)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
