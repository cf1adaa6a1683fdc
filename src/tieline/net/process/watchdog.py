"""A program whose process group dies with us, for systems on which no more than the group can be found.

A watchdog is a shell that waits on a pipe whose other end only we hold. A word through the pipe dismisses it. If the
pipe closes without one we are gone, and nobody but the kernel could tell: it asks the group to end, and after a moment
ends it. Where there is no shell there is no watchdog.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tieline.net.process.exits import reap_now, reaped

SHELL = "/bin/sh"

_SCRIPT = """\
trap '' INT TERM HUP
read -r group || exit 0
read -r dismissed && exit 0
kill -s TERM -- "-$group"
sleep 1
kill -s KILL -- "-$group"
"""


class Group:
    """A program and its group; what leaves the group is not followed. The program is reaped after the group ended."""

    def __init__(self, popen: subprocess.Popen[bytes], watchdog: "Watchdog") -> None:
        self.popen = popen
        """What has the streams of the program, and ends when it does."""
        self.pid = popen.pid
        self._watchdog = watchdog

    @classmethod
    async def start(cls, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> "Group":
        """Start a program; raises OSError or ValueError."""
        watchdog = Watchdog()
        try:
            popen = subprocess.Popen(  # noqa: S603, ASYNC220 - what the user configured; starting it takes a moment
                list(argv),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
            )
        except (OSError, ValueError):
            watchdog.dismiss()
            await reaped(watchdog.process)
            raise
        watchdog.guard(popen.pid)
        return cls(popen, watchdog)

    def ask(self) -> None:
        """Ask everything to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End everything."""
        self._signal(signal.SIGKILL)

    def exited(self) -> None:
        """What has the streams has ended, and is not reaped: now for those it leaves behind."""
        self.ask()

    def conclude(self) -> int | None:
        """Everything has been ended: how the program did, a signal as a negative number; None if nobody knows."""
        returncode = self.popen.poll()
        self._watchdog.dismiss()
        return returncode

    async def gone(self) -> None:
        """Until nothing of ours is left of it."""
        await reaped(self._watchdog.process)

    def gone_now(self) -> None:
        """The same without leaving the event loop."""
        reap_now(self._watchdog.process)

    def _signal(self, number: int) -> None:
        # Nobody is left (or, on some systems, only zombies are): that is what was wanted.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


class Watchdog:
    """Starts before what it guards; ends when it is dismissed, or soon after us."""

    def __init__(self) -> None:
        self._shell = self._start()
        self._is_guarding = False

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The shell, to be waited for after it was dismissed; None if there is none on this machine."""
        return self._shell

    def guard(self, group: int) -> None:
        """From now on this group dies with us."""
        self._is_guarding = True
        self._say(f"{group}\n")

    def dismiss(self) -> None:
        """There is nothing to guard any more."""
        if self._is_guarding:
            self._say("dismissed\n")
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):
                self._shell.stdin.close()

    def _start(self) -> subprocess.Popen[bytes] | None:
        try:
            return subprocess.Popen(  # noqa: S603 - a fixed script, nothing of it comes from outside
                [SHELL, "-c", _SCRIPT],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=Path("/"),
                env={"PATH": os.defpath},
                # In a session of its own: whatever ends our group must not end it.
                start_new_session=True,
            )
        except OSError:
            return None

    def _say(self, word: str) -> None:
        if self._shell is not None and self._shell.stdin is not None and not self._shell.stdin.closed:
            with contextlib.suppress(OSError):
                self._shell.stdin.write(word.encode())
