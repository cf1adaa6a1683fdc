"""Programs on the console of Windows, with substitutes for the functions of the system."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.net.test_process_job import Job
from tieline.net.process.console import run_on_console
from tieline.net.process.exits import Exit

ENV = {"PATH": os.defpath}
SUSPENDED = 0x4


class Console(Job):
    """A system whose programs share the standard streams of this process."""

    def popen(self, argv: list[str], *, creationflags: int, **more: Any) -> "subprocess.Popen[bytes]":
        assert creationflags == SUSPENDED
        self.started = subprocess.Popen(argv, **more)  # noqa: S603 - what the test starts
        vars(self.started)["_handle"] = 99
        return self.started


def program(text: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text]


async def test_the_status_of_the_program_is_returned() -> None:
    system = Console()
    ended = await run_on_console(program("raise SystemExit(3)"), ENV, api=system, popen=system.popen)
    assert ended == Exit(status=3)
    assert system.happened == ["create", "assign", "resume", "close"]


async def test_ctrl_c_is_left_to_the_program(tmp_path: Path) -> None:
    """On Windows, Ctrl-C reaches both processes. This one must survive until the program has decided what to do."""
    before = signal.getsignal(signal.SIGINT)
    system = Console()
    running = asyncio.create_task(
        run_on_console(program("import time; time.sleep(600)"), ENV, api=system, popen=system.popen)
    )
    async with asyncio.timeout(60):
        while "resume" not in system.happened:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0)
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert system.started is not None
    assert system.started.wait(60) == -9
    assert signal.getsignal(signal.SIGINT) is before


async def test_a_program_that_cannot_be_started_changes_nothing(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    system = Console()
    with pytest.raises(FileNotFoundError):
        await run_on_console([str(tmp_path / "absent")], ENV, api=system, popen=system.popen)
    assert system.happened == ["create", "close"]
    assert signal.getsignal(signal.SIGINT) is before
