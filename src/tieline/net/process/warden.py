"""Runs one program and leaves nothing of it behind: a program of its own, started once for each.

    warden.py DIRECTORY LIFELINE STATUS GRACE COMMAND…

The first three are open file descriptors. On the lifeline comes first the environment of the command, `NAME=value`
entries each ended by a zero byte, closed by an empty entry; then, if ever, a word: `T` asks everything to end, `K` ends
everything at once. When the lifeline itself ends (its holder let go of it, or died) the command is ended. A lifeline
that is standard input stays here, and the command has no input; else all three streams are the command's.

To STATUS is written the process group, `group N`; that the command runs, `runs 1`, or `error ERRNO` if it could not be
started; and how it went, `exit N` or `signal N`.

When the command is over, or is to be, everything it started gets TERM, and after GRACE seconds KILL. On Linux the
command has a session of its own, and orphans become children of this process, so that also those are found that went
away into another session. Elsewhere there is the process group, which this process shares: its last act is to kill it,
itself included.

It must start quickly, stay small and import nothing of ours: it runs without site packages, and nobody imports it.
"""

# The module `signal` itself brings `enum`, which takes nearly as long to load as all the rest.
import _signal as signal  # type: ignore[import-not-found]  # a module of CPython without types
import ctypes
import os
import select
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
    directory, lifeline, status, grace = *map(int, sys.argv[1:4]), float(sys.argv[4])
    os.set_inheritable(lifeline, False)
    os.set_inheritable(status, False)
    if _ON_LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    warden = Warden(lifeline, status)
    environment = read_environment(lifeline)
    try:
        os.fchdir(directory)
    except OSError as error:
        warden.report(b"error %d\n" % (error.errno or 0))
        return
    os.close(directory)
    warden.start(sys.argv[5:], environment)
    warden.watch()
    warden.end(grace)


def read_environment(lifeline: int) -> dict[bytes, bytes]:
    """What comes first on the lifeline; if it ends before that, or a word follows already, there is nothing to do."""
    data = b""
    while not (data.startswith(b"\0") or b"\0\0" in data):
        more = read(lifeline)
        if not more:
            os._exit(0)
        data += more
    if not data.endswith(b"\0"):
        os._exit(0)
    return dict(entry.split(b"=", 1) for entry in data.split(b"\0") if entry)


class Warden:
    """The command and everything that came of it."""

    def __init__(self, lifeline: int, status: int) -> None:
        self.lifeline = lifeline
        self.status = status
        self.child = 0
        self.is_over = False
        """The command has ended."""
        self.is_released = False
        """The lifeline has ended."""
        self.is_hurried = False
        """Nobody waits for what was asked to end."""
        self.asked: set[int] = set()
        self.wake, waking = os.pipe()
        for end in (self.wake, waking):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def start(self, command: list[str], environment: dict[bytes, bytes]) -> None:
        """Start the command, and keep nothing open that it may read or write: others wait for it to close that."""
        nothing = os.open(os.devnull, os.O_RDWR)
        failed, failing = os.pipe()
        self.child = os.fork()
        if not self.child:
            self.become(command, environment, nothing, failing)
        os.close(failing)
        for stream in (0, 1, 2):
            if stream != self.lifeline:
                os.dup2(nothing, stream)
        # A command that runs has closed its end of this pipe without a word.
        self.report(os.read(failed, 100) or b"runs 1\n")
        os.close(failed)

    def become(self, command: list[str], environment: dict[bytes, bytes], nothing: int, failing: int) -> None:
        """Turn into the command; runs in the child and never returns."""
        try:
            signal.set_wakeup_fd(-1)
            if _ON_LINUX:
                os.setsid()
            self.report(b"group %d\n" % os.getpgrp())  # before the command can do anything to this program
            for number in (*_IGNORED, *_OF_PYTHON, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            if self.lifeline == 0:
                os.dup2(nothing, 0)
            os.execvpe(command[0], command, environment)  # noqa: S606 - running the command is the job
        except OSError as error:
            os.write(failing, b"error %d\n" % (error.errno or 0))
        finally:
            os._exit(127)

    def watch(self) -> None:
        """Wait until the command is over or is to be."""
        while not (self.is_over or self.is_released or self.is_hurried):
            self.pause(None)
            self.reap()

    def end(self, grace: float) -> None:
        """TERM, then KILL, until nothing is left."""
        if _ON_LINUX and not self.reap():
            return
        if not self.is_hurried:
            self.ask()
            self.wait(grace)
        if not _ON_LINUX:
            time.sleep(0.1)  # orphans are no children of ours here: nothing says when they are gone
            os.killpg(0, signal.SIGKILL)
        deadline = time.monotonic() + LAST_WORDS
        while self.reap() and time.monotonic() < deadline:
            for process in descendants():
                tell(process, signal.SIGKILL)
            self.pause(0.05)

    def ask(self) -> None:
        """TERM for everything, and for each only once: a second one makes some programs leave in a hurry."""
        if not _ON_LINUX:
            os.killpg(0, signal.SIGTERM)
        for process in descendants():
            if process not in self.asked:
                self.asked.add(process)
                tell(process, signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Wait until no child is left or there is no time for that, at most this long."""
        deadline = time.monotonic() + seconds
        while self.reap() and not self.is_hurried and (left := deadline - time.monotonic()) > 0:
            self.pause(left)

    def pause(self, seconds: float | None) -> None:
        """Until a child has ended or a word has come, at most this long."""
        poller = select.poll()  # unlike `select` it takes descriptors of any number, and these come from elsewhere
        for descriptor in [self.wake] if self.is_released else [self.wake, self.lifeline]:
            poller.register(descriptor, select.POLLIN)
        ready = poller.poll(None if seconds is None else seconds * 1000)
        if any(descriptor == self.lifeline for descriptor, _ in ready):
            self.hear(read(self.lifeline))

    def hear(self, words: bytes) -> None:
        """Do what the holder of the lifeline wants."""
        self.is_released = not words
        if b"K" in words:
            self.is_hurried = True
        elif b"T" in words:
            self.ask()

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
                self.report(b"exit %d\n" % code if code >= 0 else b"signal %d\n" % -code)

    def report(self, fact: bytes) -> None:
        """Tell whoever started this, who may be gone."""
        try:
            os.write(self.status, fact)
        except OSError:
            return


def read(lifeline: int) -> bytes:
    """What came on the lifeline; nothing when it has ended, in whatever way."""
    try:
        return os.read(lifeline, 65536)
    except OSError:
        return b""


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


def tell(process: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    try:
        os.kill(process, number)
    except OSError:
        return


if __name__ == "__main__":
    main()
    os._exit(0)
