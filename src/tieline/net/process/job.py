"""A program and all its descendants as a job object (Windows).

Windows ends all processes in a job when the last handle to the job is closed, so they end with the gateway, however it
ends. A program is added to its job before it runs; otherwise processes that it starts first would not be in the job.
"""

import ctypes
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tieline.net.process import exits
from tieline.net.process.search import find_program

KILLED = 1
"""The exit status of processes that are killed."""

_CREATE_SUSPENDED = 0x00000004
_CREATE_NEW_PROCESS_GROUP = 0x00000200
_KILL_ON_CLOSE = 0x2000
_EXTENDED_LIMITS = 9
_BREAK_EVENT = 1
"""The number of CTRL_BREAK_EVENT, which the module `signal` defines on Windows only."""

Popen = Callable[..., "subprocess.Popen[bytes]"]


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("BasicLimitInformation", BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class JobApi:
    """The Windows functions for job objects. They take handles as integers.

    `create`, `assign` and `resume` raise OSError if they fail; `terminate` and `close` ignore errors.
    """

    def __init__(self) -> None:
        self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]  # Windows only
        self._kernel.CreateJobObjectW.restype = ctypes.c_void_p
        self._native = ctypes.WinDLL("ntdll")  # type: ignore[attr-defined]  # Windows only

    def create(self) -> int:
        """Return a new job, whose processes end when the job is closed."""
        job = int(self._kernel.CreateJobObjectW(None, None) or 0)
        self._check(job)
        limits = ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_CLOSE
        size = ctypes.c_uint32(ctypes.sizeof(limits))
        self._check(self._kernel.SetInformationJobObject(_handle(job), _EXTENDED_LIMITS, ctypes.byref(limits), size))
        return job

    def assign(self, job: int, process: int) -> None:
        """Add a process to a job."""
        self._check(self._kernel.AssignProcessToJobObject(_handle(job), _handle(process)))

    def resume(self, process: int) -> None:
        """Resume a process that was started suspended."""
        if self._native.NtResumeProcess(_handle(process)) < 0:
            raise OSError("a suspended process cannot be resumed")

    def terminate(self, job: int) -> None:
        """End all processes in a job at once."""
        self._kernel.TerminateJobObject(_handle(job), ctypes.c_uint32(KILLED))

    def close(self, job: int) -> None:
        """Close a job, which ends its processes."""
        self._kernel.CloseHandle(_handle(job))

    def _check(self, result: int) -> None:
        if not result:
            raise ctypes.WinError(ctypes.get_last_error())  # type: ignore[attr-defined]  # Windows only


class ProcessJob:
    """A program and the job that contains it and its descendants."""

    def __init__(self, popen: subprocess.Popen[bytes], job: int, api: JobApi) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._job = job
        self._api = api

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        *,
        stderr: int = subprocess.PIPE,
        api: JobApi | None = None,
        popen: Popen | None = None,
    ) -> "ProcessJob":
        """Start a program in the directory `cwd`. Raise OSError or ValueError if that fails.

        `api` and `popen` provide the system functions; tests replace them.
        """
        api = api or JobApi()
        # Windows itself would search the gateway's PATH, and would not find scripts such as `npx.cmd`.
        program = find_program(argv[0], env)
        if program is None:
            raise FileNotFoundError(f"{argv[0]} was not found")
        started, job = start_in_job(
            [program, *argv[1:]],
            api,
            popen or _asyncio_popen(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=cwd,
            env=dict(env),
            creationflags=_CREATE_NEW_PROCESS_GROUP,
        )
        return cls(started, job, api)

    def terminate(self) -> None:
        """Ask the program to end, as Ctrl-Break does in a console."""
        # An error means that the process has ended or has no console.
        with suppress(OSError):
            self.popen.send_signal(_BREAK_EVENT)

    def kill(self) -> None:
        """End all processes in the job."""
        if self._job:
            self._api.terminate(self._job)

    def exited(self) -> None:
        """End the processes that the program has left behind."""
        self.kill()

    def conclude(self) -> int | None:
        """Return the exit status of the program, or None if it is unknown. Close the job."""
        returncode = self.popen.poll()
        if self._job:
            self._api.close(self._job)
            self._job = 0
        return returncode

    async def reaped(self) -> None:
        """Wait for the program to end."""
        await exits.reaped(self.popen)

    def reap_now(self) -> None:
        """Wait up to one second for the program to end. This blocks the event loop."""
        exits.reap_now(self.popen)


def start_in_job(
    argv: Sequence[str], api: JobApi, popen: Popen, *, creationflags: int = 0, **more: Any
) -> "tuple[subprocess.Popen[bytes], int]":
    """Start a program in a new job, and return both. Raise OSError or ValueError if that fails.

    `popen` starts the program. It receives `argv`, `creationflags` and the other arguments.
    """
    job = api.create()
    started: subprocess.Popen[bytes] | None = None
    try:
        started = popen(argv, creationflags=creationflags | _CREATE_SUSPENDED, **more)
        process = int(started._handle)  # type: ignore[attr-defined]  # exists on Windows only
        api.assign(job, process)
        api.resume(process)
    except BaseException:
        if started is not None:
            started.kill()
            exits.reap_now(started)
            exits.close_pipes(started)
        api.close(job)
        raise
    return started, job


def _handle(number: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(number)


def _asyncio_popen() -> Any:
    """Return the Popen class whose pipes work with asyncio on Windows."""
    from asyncio import windows_utils  # noqa: PLC0415 - can be imported on Windows only

    return windows_utils.Popen  # type: ignore[attr-defined]  # exists on Windows only
