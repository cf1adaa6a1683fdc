"""A watchdog for a process group: should we die, in whatever way, it ends the group that we leave behind.

It is a shell that waits on a pipe whose other end only we hold. A word through the pipe dismisses it. If the pipe
closes without one we are gone, and nobody but the kernel could tell: it asks the group to end, and after a moment ends
it. Where there is no shell there is no watchdog.
"""

import contextlib
import os
import subprocess
from pathlib import Path

SHELL = "/bin/sh"

_SCRIPT = """\
trap '' INT TERM HUP
read -r group || exit 0
read -r dismissed && exit 0
kill -s TERM -- "-$group"
sleep 1
kill -s KILL -- "-$group"
"""


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
