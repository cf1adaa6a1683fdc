"""Runs one command and leaves nothing of it behind: a program of its own, started once for each command.

    warden.py DIRECTORY_FD STATUS_FD GRACE COMMAND…

Standard input is its lifeline. First comes the environment of the command, `NAME=value` entries each ended by a zero
byte, closed by an empty entry; then nothing more, and when the lifeline ends (its holder let go of it, or died) the
command is ended too. How the command went is written to STATUS_FD: `exit N`, `signal N`, or `error ERRNO` when it could
not be started.

When the command is over, or is to be, everything it started gets TERM, and after GRACE seconds KILL. On Linux orphans
become children of this process, so that also those are found that went away into a session of their own. Elsewhere
there is the process group, which this process shares: its last act is to kill it, itself included.

It must start quickly and import nothing of ours: it runs without site packages.
"""

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
LAST_WORDS = 5.0
"""How long to wait for what was killed: a process that hangs in the kernel cannot be waited for."""
_ON_LINUX = sys.platform == "linux"
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_OF_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""What Python ignores for itself, and a command must not."""


def main() -> None:
    """Run the command of the command line to its end."""
    directory, status, grace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    os.set_inheritable(status, False)
    if _ON_LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    environment = read_environment()
    try:
        os.fchdir(directory)
    except OSError as error:
        os.write(status, b"error %d\n" % (error.errno or 0))
        return
    os.close(directory)
    warden = Warden(status)
    warden.start(sys.argv[4:], environment)
    warden.watch()
    warden.end(grace)


def read_environment() -> dict[bytes, bytes]:
    """What comes first on the lifeline; if it ends before that, there is nothing to do."""
    data = b""
    while not (data.endswith(b"\0\0") or data == b"\0"):
        more = os.read(0, 65536)
        if not more:
            os._exit(0)
        data += more
    return dict(entry.split(b"=", 1) for entry in data.split(b"\0") if entry)


class Warden:
    """The command and everything that came of it."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.child = 0
        self.is_over = False
        self.wake, waking = os.pipe()
        for end in (self.wake, waking):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def start(self, command: list[str], environment: dict[bytes, bytes]) -> None:
        """Start the command, and keep nothing open that it may write to: its reader waits for the last one."""
        nothing = os.open(os.devnull, os.O_RDWR)
        self.child = os.fork()
        if not self.child:
            self.become(command, environment, nothing)
        for stream in (1, 2):
            os.dup2(nothing, stream)

    def become(self, command: list[str], environment: dict[bytes, bytes], nothing: int) -> None:
        """Turn into the command; runs in the child and never returns."""
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_IGNORED, *_OF_PYTHON, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.dup2(nothing, 0)
            os.execvpe(command[0], command, environment)  # noqa: S606 - running the command is the job
        except OSError as error:
            os.write(self.status, b"error %d\n" % (error.errno or 0))
        finally:
            os._exit(127)

    def watch(self) -> None:
        """Wait until the command is over or the lifeline ends."""
        while not self.is_over:
            ready, _, _ = select.select([0, self.wake], [], [])
            self.reap()
            if 0 in ready and not os.read(0, 4096):
                return

    def end(self, grace: float) -> None:
        """TERM, then KILL, until nothing is left."""
        if _ON_LINUX and not self.reap():
            return
        os.killpg(0, signal.SIGTERM)
        for process in descendants():
            if group_of(process) != os.getpgrp():  # a second TERM makes some programs leave in a hurry
                tell(process, signal.SIGTERM)
        self.wait(grace)
        if not _ON_LINUX:
            time.sleep(0.1)  # orphans are no children of ours here: nothing says when they are gone
            os.killpg(0, signal.SIGKILL)
        deadline = time.monotonic() + LAST_WORDS
        while self.reap() and time.monotonic() < deadline:
            for process in descendants():
                tell(process, signal.SIGKILL)
            self.wait(0.05)

    def wait(self, seconds: float) -> None:
        """Wait until no child is left, at most this long."""
        deadline = time.monotonic() + seconds
        while self.reap() and (left := deadline - time.monotonic()) > 0:
            select.select([self.wake], [], [], left)

    def reap(self) -> bool:
        """Take note of what has ended; whether any child is left."""
        try:
            while os.read(self.wake, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not process:
                return True
            if process == self.child:
                self.is_over = True
                code = os.waitstatus_to_exitcode(status)
                os.write(self.status, b"exit %d\n" % code if code >= 0 else b"signal %d\n" % -code)


def descendants() -> list[int]:
    """Every process that comes from this one, as far as the system tells."""
    if not _ON_LINUX:
        return []
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (pathlib takes as long to import as all the rest)
        if name.isdigit() and (parent := parent_of(name)):
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for process in found:
        found += children.get(process, ())
    return found


def parent_of(process: str) -> int:
    """The parent of a process; 0 if it is gone."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:  # noqa: PTH123 (as above)
            # The name stands in parentheses and may itself contain some.
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def group_of(process: int) -> int:
    """The process group of a process; 0 if it is gone."""
    try:
        return os.getpgid(process)
    except OSError:
        return 0


def tell(process: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(process, number)
    except OSError:
        return


if __name__ == "__main__":
    main()
