"""A program whose process group is ended when the gateway dies, for systems on which `tree.py` does not work.

A watchdog is a shell that reads from a pipe whose other end only the gateway holds. The first line through the pipe is
the number of the process group, and a second line dismisses the watchdog. If the pipe is closed after the first line,
the gateway has died, and the watchdog sends SIGTERM to the group, and SIGKILL a second later. On a system without a
shell there is no watchdog.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tieline.net.process import exits

SHELL = "/bin/sh"

_SCRIPT = """\
trap '' INT TERM HUP
read -r group || exit 0
read -r dismissed && exit 0
kill -s TERM -- "-$group"
sleep 1
kill -s KILL -- "-$group"
"""


class ProcessGroup:
    """A program and its process group. Processes that leave the group are not tracked."""

    def __init__(self, popen: subprocess.Popen[bytes], watchdog: "Watchdog") -> None:
        self.popen = popen
        """The program's process. It is reaped after its group has ended."""
        self.pid = popen.pid
        self._watchdog = watchdog

    @classmethod
    async def start(
        cls, argv: Sequence[str], env: Mapping[str, str], cwd: str, *, stderr: int = subprocess.PIPE
    ) -> "ProcessGroup":
        """Start a program in the directory `cwd`. Raise OSError or ValueError if that fails.

        `stderr` says where its standard error goes, as for `subprocess.Popen`.
        """
        watchdog = Watchdog()
        try:
            popen = subprocess.Popen(  # noqa: S603, ASYNC220 - runs what the user configured; starting is fast
                list(argv),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        except (OSError, ValueError):
            watchdog.dismiss()
            await exits.reaped(watchdog.process)
            raise
        watchdog.guard(popen.pid)
        return cls(popen, watchdog)

    def terminate(self) -> None:
        """Send SIGTERM to the group."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the group."""
        self._signal(signal.SIGKILL)

    def exited(self) -> None:
        """Terminate the other processes in the group after the program has exited, but before it is reaped."""
        self.terminate()

    def conclude(self) -> int | None:
        """Dismiss the watchdog, and return the exit status of the program. Call this only after its group has ended.

        If a signal ended the program, the status is the negated signal number. Return None if the status is
        unknown.
        """
        returncode = self.popen.poll()
        self._watchdog.dismiss()
        return returncode

    async def reaped(self) -> None:
        """Wait for the watchdog to exit, and reap it."""
        await exits.reaped(self._watchdog.process)

    def reap_now(self) -> None:
        """Reap the watchdog without awaiting anything."""
        exits.reap_now(self._watchdog.process)

    def _signal(self, number: int) -> None:
        # These errors mean that no process is left or, on some systems, only zombies.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class Watchdog:
    """A shell that ends a process group when the gateway dies. It is started before the program."""

    def __init__(self) -> None:
        self._shell = self._start()
        self._is_guarding = False

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The shell, which the caller has to reap after dismissing it; None if this system has no shell."""
        return self._shell

    def guard(self, group: int) -> None:
        """Start guarding a process group."""
        self._is_guarding = True
        self._send(f"{group}\n")

    def dismiss(self) -> None:
        """Stop guarding, and let the shell exit."""
        if self._is_guarding:
            self._send("dismissed\n")
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):
                self._shell.stdin.close()

    def _start(self) -> subprocess.Popen[bytes] | None:
        try:
            return subprocess.Popen(  # noqa: S603 - a fixed script
                [SHELL, "-c", _SCRIPT],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=Path("/"),
                env={"PATH": os.defpath},
                # A signal to our process group must not reach the watchdog.
                start_new_session=True,
            )
        except OSError:
            return None

    def _send(self, line: str) -> None:
        if self._shell is not None and self._shell.stdin is not None and not self._shell.stdin.closed:
            with contextlib.suppress(OSError):
                self._shell.stdin.write(line.encode())
