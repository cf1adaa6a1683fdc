"""Programs in a job object, as on Windows, with substitutes for the functions of the system."""

import asyncio
import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tieline.net.process.exits import close_pipes
from tieline.net.process.job import ExtendedLimits, JobApi, ProcessJob

ENV = {"PATH": str(Path(sys.executable).parent)}
SUSPENDED, NEW_GROUP = 0x4, 0x200


class Job(JobApi):
    """A system with one job. It records what happens, and ends the program as a real job does."""

    def __init__(self, *, fails_to: str = "") -> None:
        self.happened: list[str] = []
        self.started: subprocess.Popen[bytes] | None = None
        self._fails_to = fails_to

    def create(self) -> int:
        return self._do("create") or 7

    def assign(self, job: int, process: int) -> None:
        assert (job, process) == (7, 99)
        self._do("assign")

    def resume(self, process: int) -> None:
        assert process == 99
        self._do("resume")

    def terminate(self, job: int) -> None:
        self._do("terminate")
        self._end()

    def close(self, job: int) -> None:
        self._do("close")
        self._end()

    def _do(self, what: str) -> int:
        self.happened.append(what)
        if what == self._fails_to:
            raise OSError(f"cannot {what}")
        return 0

    def _end(self) -> None:
        if self.started is not None:
            self.started.kill()

    def popen(self, argv: list[str], *, creationflags: int, **more: Any) -> "subprocess.Popen[bytes]":
        assert creationflags == SUSPENDED | NEW_GROUP
        self.happened.append("start")
        self.started = subprocess.Popen(argv, **more)  # noqa: S603 - what the test starts
        vars(self.started)["_handle"] = 99
        return self.started


async def start(system: Job, tmp_path: Path, program: str = "input()") -> ProcessJob:
    name = Path(sys.executable).name
    return await ProcessJob.start([name, "-c", program], ENV, str(tmp_path), api=system, popen=system.popen)


async def test_a_program_runs_only_after_it_has_joined_its_job(tmp_path: Path) -> None:
    system = Job()
    processes = await start(system, tmp_path)
    assert system.happened == ["create", "start", "assign", "resume"]
    assert processes.popen.poll() is None
    processes.kill()
    await processes.reaped()
    assert processes.conclude() == -9
    assert system.happened[4:] == ["terminate", "close"]
    processes.kill()
    assert processes.conclude() == -9
    assert system.happened[4:] == ["terminate", "close"]
    close_pipes(processes.popen)


async def test_what_a_program_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    system = Job()
    processes = await start(system, tmp_path, "raise SystemExit(3)")
    assert await asyncio.to_thread(processes.popen.wait, 60) == 3
    processes.exited()
    assert "terminate" in system.happened
    assert processes.conclude() == 3
    close_pipes(processes.popen)


@pytest.mark.parametrize("step", ["assign", "resume"])
async def test_a_program_that_cannot_join_its_job_does_not_stay(step: str, tmp_path: Path) -> None:
    system = Job(fails_to=step)
    with pytest.raises(OSError, match=f"cannot {step}"):
        await start(system, tmp_path)
    assert system.happened[-1] == "close"
    assert system.started is not None
    assert system.started.wait(60) == -9


async def test_a_program_that_is_not_on_the_path_is_not_started(tmp_path: Path) -> None:
    system = Job()
    with pytest.raises(FileNotFoundError, match="absent was not found"):
        await ProcessJob.start(["absent"], ENV, str(tmp_path), api=system, popen=system.popen)
    assert system.happened == []


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="the sizes are those of a 64-bit system")
def test_the_limits_of_a_job_are_laid_out_as_windows_expects_them() -> None:
    limits = ExtendedLimits()
    limits.BasicLimitInformation.LimitFlags = 0x2000
    data = bytes(limits)
    assert len(data) == 144
    assert data[16:20] == (0x2000).to_bytes(4, "little")
    assert ExtendedLimits.IoInfo.offset == 64
