"""A program as a pipe: bytes to its standard input, bytes from its standard output, and a certain end.

A program runs in a process group of its own, with exactly the environment it is given. What it writes to its standard
error is always read, so that it never stands still for that, and the last of it is kept.

What is guaranteed about its end:

- `aclose` closes its standard input, waits, asks all of it to end, waits, and ends all of it.
- When the program ends by itself, whatever it leaves is asked to end and is ended half a second later.
- When we are killed, even by a signal that nobody can catch, all of it is ended within about a second.
- On Linux "all of it" is everything that came of the program, also what left its group or its session (see `tree.py`).
  Elsewhere it is the group: a daemon is not followed (see `watchdog.py`). It cannot hold us up either: once the program
  itself has ended, its output ends too, no matter who still holds the pipe.
"""

import asyncio
import errno
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tieline.net.process.exits import Exit, on_exit, reap_now
from tieline.net.process.stdio import Input, Output
from tieline.net.process.tail import Tail
from tieline.net.process.tree import Tree
from tieline.net.process.watchdog import Group

__all__ = ["Exit", "Patience", "Process", "ProcessError"]

HIGH_WATER = 256 * 1024
"""Reading pauses when more than this waits to be taken."""

STRAGGLE = 0.5
"""How many seconds what a program leaves has to end, and its output to be read, once the program has ended."""

TAIL = 64 * 1024
"""How much of the standard error is kept."""

Reason = Literal["not_found", "not_executable", "no_folder", "failed", "ended", "timeout"]


class ProcessError(Exception):
    """A program did not start, or takes nothing any more: `reason` says what kind, `message` how to tell a person."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class Patience:
    """How many seconds `aclose` waits after closing the input, after asking to end, and after ending."""

    eof: float = 5
    term: float = 3
    kill: float = 3


DEFAULT_PATIENCE = Patience()


class Process:
    """A running program. One reader takes from it; any number of senders write to it, each a whole message."""

    def __init__(self, name: str, kin: Tree | Group, tail: int) -> None:
        self._name = name
        self._kin = kin
        self._loop = asyncio.get_running_loop()
        self._tail = Tail(tail)
        self._stdin = Input()
        self._stdout = Output(self._keep, self._output_ended)
        self._stderr = Output(self._tail.add, self._output_ended)
        self._chunks: list[bytes] = []
        self._is_discarding = False
        self._waiter: asyncio.Future[None] | None = None
        self._has_exited = False
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._straggling: asyncio.TimerHandle | None = None
        self._stop_watching: Callable[[], None] | None = None
        self.buffered = 0
        """How many bytes of output wait to be taken."""

    @classmethod
    async def start(cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, tail: int = TAIL) -> "Process":
        """Start a program; its name is looked up on the PATH of `env`. Raises ProcessError."""
        kin = await _spawn(argv, env, cwd)
        process = cls(Path(argv[0]).name, kin, tail)
        try:
            await process._connect()
        except BaseException:
            process._kill()
            raise
        return process

    # ── what it is ──

    @property
    def pid(self) -> int:
        return self._kin.pid

    @property
    def exit(self) -> Exit | None:
        """How the program ended; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    @property
    def stderr(self) -> str:
        """The last lines it wrote to its standard error, without colours."""
        return self._tail.text()

    # ── what it takes and gives ──

    async def send(self, data: bytes, within: float = 60) -> None:
        """Write a message whole, once the program has taken most of the earlier ones.

        Whoever is cancelled while waiting has written nothing. Raises ProcessError if the program has ended, or does
        not make room in so many seconds.
        """
        if not await self._stdin.has_room(within):
            raise ProcessError("timeout", f"{self._name} has not read its input for {within:g} seconds")
        if not self._stdin.write(data):
            ending = f": it {self.exit}" if self.exit else ""
            raise ProcessError("ended", f"{self._name} takes no more input{ending}")

    async def chunk(self) -> bytes:
        """Everything that has arrived since the last call, waiting for something if need be; b"" at the end."""
        while not self._chunks and not self._stdout.is_ended:
            linger = STRAGGLE if self._ended.done() else None
            if not await self._woken(linger):
                self._stdout.close()
        data = b"".join(self._chunks)
        self._chunks.clear()
        self.buffered = 0
        self._stdout.resume()
        return data

    async def wait(self) -> Exit:
        """Until the program and all that came of it have ended."""
        return await asyncio.shield(self._ended)

    # ── its end ──

    async def aclose(self, patience: Patience = DEFAULT_PATIENCE) -> None:
        """End the program and all that came of it; when this returns they are gone."""
        self._is_discarding = True
        self._chunks.clear()
        self.buffered = 0
        self._stdout.resume()
        try:
            await self._end(patience)
            await self._kin.gone()
            await self._disconnect()
        except BaseException:
            self._kill()
            raise

    async def _end(self, patience: Patience) -> None:
        self._stdin.close()
        if await self._ends_within(patience.eof):
            return
        self._kin.ask()
        if await self._ends_within(patience.term):
            return
        self._kin.kill()
        await self._ends_within(patience.kill)

    async def _ends_within(self, seconds: float) -> bool:
        await asyncio.wait([self._ended], timeout=seconds)
        return self._ended.done()

    def _kill(self) -> None:
        """End it now, without leaving the event loop: whoever was waiting has been cancelled."""
        if not self._ended.done():
            self._kin.kill()
            reap_now(self._kin.popen)
            self._conclude()
        self._kin.gone_now()
        self._close_pipes()

    # ── what happens to it ──

    async def _connect(self) -> None:
        popen = self._kin.popen
        await self._stdin.connect(popen.stdin)
        await self._stdout.connect(popen.stdout)
        await self._stderr.connect(popen.stderr)
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
        """The program itself has ended; what it leaves behind, if there still is any, is asked to end."""
        self._has_exited = True
        self._kin.exited()
        if self._stdout.is_ended and self._stderr.is_ended:
            self._finish()
        else:
            self._straggling = self._loop.call_later(STRAGGLE, self._finish)

    def _finish(self) -> None:
        if not self._ended.done():
            self._kin.kill()
        self._conclude()

    def _conclude(self) -> None:
        """All of it has been ended."""
        if self._straggling is not None:
            self._straggling.cancel()
        if self._stop_watching is not None:
            self._stop_watching()
        if self._ended.done():
            return
        returncode = self._kin.conclude()
        self._ended.set_result(Exit.of(returncode if returncode is not None else -signal.SIGKILL))
        self._stdin.abort()
        self._wake()

    # ── waiting ──

    async def _woken(self, seconds: float | None) -> bool:
        """Wait until something happens to the output; False if nothing does in that time."""
        waiter = self._waiter = self._loop.create_future()
        if seconds is None:
            await waiter
            return True
        await asyncio.wait([waiter], timeout=seconds)
        return waiter.done()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def _spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> Tree | Group:
    name = argv[0] if argv else ""
    if not name:
        raise ProcessError("not_found", "there is no command to run")
    kind = Tree if Tree.is_possible() else Group
    try:
        return await kind.start(argv, env, cwd)
    except (OSError, ValueError) as error:
        raise _start_error(name, env, cwd, error) from error


def _start_error(name: str, env: Mapping[str, str], cwd: str, error: Exception) -> ProcessError:
    if not isinstance(error, OSError):
        return ProcessError("failed", f"{name!r} could not be started: {error}")
    if not Path(cwd).is_dir():
        return ProcessError("no_folder", f"{name} was not started: {cwd} is not a folder")
    if isinstance(error, FileNotFoundError):
        if shutil.which(name, path=env.get("PATH", os.defpath)):
            return ProcessError("not_executable", f"{name} is a script for an interpreter that was not found")
        return ProcessError("not_found", f"{name} was not found" + ("" if "/" in name else " on the PATH it was given"))
    if isinstance(error, PermissionError):
        return ProcessError("not_executable", f"{name} is not a program that may be run: {error.strerror}")
    if error.errno == errno.ENOEXEC:
        return ProcessError("not_executable", f"{name} is not a program: it has no format that this system knows")
    return ProcessError("failed", f"{name} could not be started: {error}")
