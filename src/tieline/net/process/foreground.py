"""Runs a program on this process's terminal, as a shell runs a foreground job.

The program has a process group of its own, which is moved to the terminal's foreground: Ctrl-C, Ctrl-Z and changes of
the window size reach the program and not this process. If standard input or output is not a terminal, the group is
moved to the foreground only when it uses the terminal, because another program in the pipeline may need it. Until then,
this process passes the terminal's signals on.

When this process is asked to stop, it stops the program first. When it is killed, a watchdog ends the program.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tieline.net.process import exits
from tieline.net.process.exits import Exit
from tieline.net.process.watchdog import Watchdog

STOP_TIMEOUT = 3.0
"""Seconds that the program has to exit after this process was asked to stop. After that, the program is killed."""

_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
"""Signals from the terminal. This process receives them only while the program is not in the foreground."""
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_NEEDS_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
"""The system stops a program with one of these signals if it uses the terminal from the background."""


async def run_in_foreground(argv: Sequence[str], env: Mapping[str, str]) -> Exit:
    """Run a program until it exits. `argv[0]` is its path. Raise OSError if it cannot be started.

    If this process receives SIGTERM or SIGHUP, the program receives it as well, and the result is that signal.
    """
    with _terminal() as terminal:
        job = _Job(terminal)
        with job.signals():
            return await job.run(argv, env)


class _Job:
    """A program, its process group, and the terminal that they share with this process."""

    def __init__(self, terminal: "_ForegroundTerminal") -> None:
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._group = 0
        self._ending: signal.Signals | None = None

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Handle signals to this process. The program does not inherit the handlers."""
        for number in _PASSED_ON:
            self._loop.add_signal_handler(number, self._send, number)
        for number in _ENDING:
            self._loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in (*_PASSED_ON, *_ENDING):
                self._loop.remove_signal_handler(number)

    async def run(self, argv: Sequence[str], env: Mapping[str, str]) -> Exit:
        """Run the program and return how it ended."""
        watchdog = Watchdog()
        try:
            popen = subprocess.Popen(list(argv), env=dict(env), process_group=0)  # noqa: S603, ASYNC220 - the user's command; starting is fast
            self._group = popen.pid
            watchdog.guard(self._group)
            self._terminal.give_to(self._group)
            self._send(signal.SIGCONT)  # in case it was stopped for using the terminal too early
            threading.Thread(target=self._wait, args=[popen], daemon=True).start()
            await self._end()
            if self._ending is not None:
                self._send(signal.SIGKILL)  # ends the processes that the program has left behind
                return Exit(signal=self._ending)
            return Exit.of(self._ended.result())
        finally:
            watchdog.dismiss()
            await exits.reaped(watchdog.process)

    async def _end(self) -> None:
        """Wait for the program to end, and take the terminal back. Kill the program if this call is cancelled."""
        try:
            await asyncio.wait([self._ended])
        finally:
            if not self._ended.done():
                self._send(signal.SIGKILL)
                await asyncio.wait([self._ended], timeout=STOP_TIMEOUT)
            self._terminal.take_back()

    def _wait(self, popen: "subprocess.Popen[bytes]") -> None:
        """Wait in a thread until the program has exited, and report each time it is stopped."""
        while True:
            _, status = os.waitpid(popen.pid, os.WUNTRACED)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                if os.WIFSTOPPED(status):
                    self._loop.call_soon_threadsafe(self._suspended, os.WSTOPSIG(status))
                    continue
                popen.returncode = os.waitstatus_to_exitcode(status)
                self._loop.call_soon_threadsafe(self._exited, popen.returncode)
            return

    def _exited(self, returncode: int) -> None:
        if not self._ended.done():
            self._ended.set_result(returncode)

    def _suspended(self, number: int) -> None:
        """Give the terminal to a program that was stopped because it needs it. Otherwise, stop this process as well.

        The shell then takes over. The program is resumed when the user resumes this job.
        """
        if number in _NEEDS_TERMINAL and self._terminal.is_ours():
            self._terminal.give_to(self._group, always=True)
        else:
            self._terminal.take_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._terminal.give_to(self._group)
        self._send(signal.SIGCONT)

    def _stop(self, number: signal.Signals) -> None:
        """Ask the program to exit. Kill it if it does not do so in time, or if this process is signalled again."""
        if self._ending is not None:
            self._send(signal.SIGKILL)
            return
        self._ending = number
        self._send(number)
        self._send(signal.SIGCONT)
        self._loop.call_later(STOP_TIMEOUT, self._send, signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._group and not (self._ended.done() and number != signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, number)


class _ForegroundTerminal:
    """This process's terminal. All methods do nothing if there is none, or if another job has it."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._own_modes = _modes(descriptor)
        self._job_modes: list[Any] | None = None
        self._is_interactive = all(_is_tty(stream) for stream in (0, 1))
        self._is_given = False

    def is_ours(self) -> bool:
        """Return whether this process is in the foreground of the terminal."""
        if self._descriptor is None:
            return False
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return False

    def give_to(self, group: int, *, always: bool = False) -> None:
        """Move a process group to the foreground, and restore the terminal modes that it had when it was last there.

        Do nothing if this process is not in the foreground itself or, unless `always` is true, if standard input or
        output is not a terminal.
        """
        if (self._is_interactive or always) and self.is_ours():
            self._set_modes(self._job_modes)
            self._is_given = self._move_to_foreground(group)

    def take_back(self) -> None:
        """If the terminal was given away, move this process to the foreground again and restore its terminal modes."""
        if self._is_given:
            self._is_given = False
            self._job_modes = _modes(self._descriptor)
            if self._move_to_foreground(os.getpgrp()):
                self._set_modes(self._own_modes)

    def _set_modes(self, modes: list[Any] | None) -> None:
        if self._descriptor is not None and modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSADRAIN, modes)

    def _move_to_foreground(self, group: int) -> bool:
        if self._descriptor is None:
            return False
        # The system stops a background process that does this with SIGTTOU, unless the signal is blocked.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
        try:
            os.tcsetpgrp(self._descriptor, group)
        except OSError:
            return False
        else:
            return True
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextlib.contextmanager
def _terminal() -> Iterator[_ForegroundTerminal]:
    """Open the controlling terminal of this process, if it has one."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        yield _ForegroundTerminal(None)
        return
    try:
        yield _ForegroundTerminal(descriptor)
    finally:
        os.close(descriptor)


def _modes(descriptor: int | None) -> list[Any] | None:
    try:
        return None if descriptor is None else termios.tcgetattr(descriptor)
    except termios.error:
        return None


def _is_tty(stream: int) -> bool:
    try:
        return os.isatty(stream)
    except OSError:
        return False
