"""A child process as a byte stream: its standard input and output, and a guarantee that it is ended.

A program runs in a process group of its own, with exactly the environment that the caller passes. Its standard error is
always read, so that the program never blocks on it, and the last part of it is kept.

Guarantees about the end of a program:

- `aclose` closes its standard input, waits, sends SIGTERM to all its processes, waits, and sends SIGKILL.
- When the program exits by itself, the processes it leaves behind receive SIGTERM, and SIGKILL half a second later.
- When the gateway is killed, even by SIGKILL, all processes are ended within about a second.
- On Linux these guarantees cover all descendants, even outside the process group or session (see `tree.py`).
  On Windows they cover all descendants as well, but Ctrl-Break replaces SIGTERM, and the termination of a job object
  replaces SIGKILL; processes that a program leaves behind are terminated at once (see `job.py`). Elsewhere they cover
  the process group only (see `watchdog.py`).
- Once the program itself has exited, its output ends, even if another process still holds the pipe.
"""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from tieline.net.process.exits import Exit, on_exit, reap_now
from tieline.net.process.job import ProcessJob
from tieline.net.process.stdio import OutputPipe, StdinPipe
from tieline.net.process.tail import Tail
from tieline.net.process.tree import ProcessTree
from tieline.net.process.watchdog import ProcessGroup

__all__ = ["Exit", "Process", "ProcessError", "StopTimeouts"]

HIGH_WATER = 256 * 1024
"""If more than this many bytes of output are unread, reading from the program pauses."""

STRAGGLER_TIMEOUT = 0.5
"""Seconds between the exit of a program and the moment when its output is closed and its other processes are killed."""

MAX_STDERR = 64 * 1024
"""Number of bytes of a program's standard error that are kept by default."""

KILLED = 9
"""The number of SIGKILL, which the module `signal` lacks on Windows."""

ProcessKind = ProcessTree | ProcessGroup | ProcessJob
Reason = Literal["not_found", "not_executable", "no_folder", "failed", "ended", "timeout"]


class ProcessError(Exception):
    """A program could not be started or does not accept input. `message` is meant for the user."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class StopTimeouts:
    """Seconds that `aclose` waits after closing the input, after SIGTERM and after SIGKILL."""

    eof: float = 5
    term: float = 3
    kill: float = 3


DEFAULT_STOP_TIMEOUTS = StopTimeouts()


class Process:
    """A running program. One task reads from it; any number of tasks may write whole messages to it."""

    def __init__(self, name: str, processes: ProcessKind, tail: int) -> None:
        self._name = name
        self._processes = processes
        self._loop = asyncio.get_running_loop()
        self._tail = Tail(tail)
        self._stdin = StdinPipe()
        self._stdout = OutputPipe(self._keep, self._output_ended)
        self._stderr = OutputPipe(self._tail.add, self._output_ended)
        self._chunks: list[bytes] = []
        self._is_discarding = False
        self._waiter: asyncio.Future[None] | None = None
        self._has_exited = False
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._straggler_timer: asyncio.TimerHandle | None = None
        self._stop_watching: Callable[[], None] | None = None
        self.buffered = 0
        """How many bytes of output have not been read yet."""

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        tail: int = MAX_STDERR,
        merges_stderr: bool = False,
    ) -> "Process":
        """Start a program, which is looked up on the PATH of `env`. Raise ProcessError if that fails.

        `tail` is the number of bytes of its standard error to keep. If `merges_stderr` is true, its standard error is
        part of its output instead.
        """
        processes = await _spawn(argv, env, cwd, subprocess.STDOUT if merges_stderr else subprocess.PIPE)
        process = cls(Path(argv[0]).name, processes, tail)
        try:
            await process._connect()
        except BaseException:
            process._kill()
            raise
        return process

    @property
    def pid(self) -> int:
        return self._processes.pid

    @property
    def exit(self) -> Exit | None:
        """How the program ended, or None while it runs."""
        return self._ended.result() if self._ended.done() else None

    @property
    def stderr(self) -> str:
        """The last lines of the program's standard error, without escape sequences."""
        return self._tail.text()

    # ── input and output ──

    async def send(self, data: bytes, within: float = 60) -> None:
        """Wait until there is room in the pipe, then write a whole message.

        If the call is cancelled while it waits, nothing is written. Raise ProcessError if the program has ended or does
        not read its input for `within` seconds.
        """
        if not await self._stdin.has_room(within):
            raise ProcessError("timeout", f"{self._name} has not read its input for {within:g} seconds")
        if not self._stdin.write(data):
            ending = f": it {self.exit}" if self.exit else ""
            raise ProcessError("ended", f"{self._name} accepts no more input{ending}")

    def close_input(self) -> None:
        """Close the program's standard input, so that the program reads end-of-file."""
        self._stdin.close()

    async def chunk(self) -> bytes:
        """Wait for output. Return all output since the last call, or b"" at the end of the output."""
        while not self._chunks and not self._stdout.is_ended:
            linger = STRAGGLER_TIMEOUT if self._ended.done() else None
            if not await self._woken(linger):
                self._stdout.close()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self.buffered = 0
        self._stdout.resume()
        return data

    async def wait(self) -> Exit:
        """Wait until the program and its descendants have ended, and return how the program ended."""
        return await asyncio.shield(self._ended)

    # ── stopping ──

    async def aclose(self, timeouts: StopTimeouts = DEFAULT_STOP_TIMEOUTS) -> None:
        """End the program and its descendants, and return when they have ended."""
        self._is_discarding = True
        self._chunks.clear()
        self.buffered = 0
        self._stdout.resume()
        try:
            await self._stop(timeouts)
            await self._processes.reaped()
            await self._disconnect()
        except BaseException:
            self._kill()
            raise

    async def _stop(self, timeouts: StopTimeouts) -> None:
        self._stdin.close()
        if await self._has_ended_within(timeouts.eof):
            return
        self._processes.terminate()
        if await self._has_ended_within(timeouts.term):
            return
        self._processes.kill()
        await self._has_ended_within(timeouts.kill)

    async def _has_ended_within(self, seconds: float) -> bool:
        await asyncio.wait([self._ended], timeout=seconds)
        return self._ended.done()

    def _kill(self) -> None:
        """Kill all processes without awaiting anything. This is used after a cancellation."""
        if not self._ended.done():
            self._processes.kill()
            reap_now(self._processes.popen)
            self._conclude()
        self._processes.reap_now()
        self._close_pipes()

    # ── events ──

    async def _connect(self) -> None:
        popen = self._processes.popen
        unconnected: deque[tuple[StdinPipe | OutputPipe, IO[bytes] | None]]
        unconnected = deque([(self._stdin, popen.stdin), (self._stdout, popen.stdout)])
        if popen.stderr is not None:
            unconnected.append((self._stderr, popen.stderr))
        else:
            self._stderr.close()
        try:
            while unconnected:
                pipe, stream = unconnected[0]
                await pipe.connect(stream)
                unconnected.popleft()
        finally:
            for _, stream in unconnected:  # left if the start was cancelled
                if stream is not None:
                    stream.close()
        self._stop_watching = on_exit(popen, self._exited)

    async def _disconnect(self) -> None:
        self._close_pipes()
        for pipe in (self._stdin, self._stdout, self._stderr):
            await pipe.closed()

    def _close_pipes(self) -> None:
        self._stdin.abort()
        self._stdout.close()
        self._stderr.close()

    def _keep(self, data: bytes) -> None:
        if self._is_discarding:
            return
        self._chunks.append(data)
        self.buffered += len(data)
        if self.buffered > HIGH_WATER:
            self._stdout.pause()
        self._wake()

    def _output_ended(self) -> None:
        self._wake()
        if self._has_exited and self._stdout.is_ended and self._stderr.is_ended:
            self._finish()

    def _exited(self) -> None:
        """Handle the exit of the program itself: end the processes that it has left behind."""
        self._has_exited = True
        self._processes.exited()
        if self._stdout.is_ended and self._stderr.is_ended:
            self._finish()
        else:
            self._straggler_timer = self._loop.call_later(STRAGGLER_TIMEOUT, self._finish)

    def _finish(self) -> None:
        if not self._ended.done():
            self._processes.kill()
        self._conclude()

    def _conclude(self) -> None:
        """Record the exit status after all processes have ended."""
        if self._straggler_timer is not None:
            self._straggler_timer.cancel()
        if self._stop_watching is not None:
            self._stop_watching()
        if self._ended.done():
            return
        returncode = self._processes.conclude()
        self._ended.set_result(Exit.of(returncode if returncode is not None else -KILLED))
        self._stdin.abort()
        self._wake()

    # ── waiting ──

    async def _woken(self, seconds: float | None) -> bool:
        """Wait for output or its end. Return False if that takes longer than `seconds`."""
        waiter = self._waiter = self._loop.create_future()
        if seconds is None:
            await waiter
            return True
        await asyncio.wait([waiter], timeout=seconds)
        return waiter.done()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def _spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str, stderr: int) -> ProcessKind:
    name = argv[0] if argv else ""
    if not name:
        raise ProcessError("not_found", "no command was given")
    kind: type[ProcessKind] = ProcessTree if ProcessTree.is_possible() else ProcessGroup
    if sys.platform == "win32":
        kind = ProcessJob
    try:
        return await kind.start(argv, env, cwd, stderr=stderr)
    except (OSError, ValueError) as error:
        raise _start_error(name, env, cwd, error) from error


def _start_error(name: str, env: Mapping[str, str], cwd: str, error: Exception) -> ProcessError:
    if not isinstance(error, OSError):
        return ProcessError("failed", f"{name!r} could not be started: {error}")
    if not Path(cwd).is_dir():
        return ProcessError("no_folder", f"{name} was not started: {cwd} is not a directory")
    if isinstance(error, FileNotFoundError):
        if shutil.which(name, path=env.get("PATH", os.defpath)):
            return ProcessError("not_executable", f"{name} is a script whose interpreter was not found")
        return ProcessError("not_found", f"{name} was not found" + ("" if "/" in name else " on the PATH it was given"))
    if isinstance(error, PermissionError):
        return ProcessError("not_executable", f"{name} cannot be executed: {error.strerror}")
    if error.errno == errno.ENOEXEC:
        return ProcessError("not_executable", f"{name} cannot be executed: its format is not supported by this system")
    return ProcessError("failed", f"{name} could not be started: {error}")
