"""Supervises one command and ends all its descendants with it. This is a separate program, started once per command.

    warden.py DIRECTORY LIFELINE STATUS GRACE COMMAND…

The first three arguments are open file descriptors. The lifeline first carries the environment of the command as
`NAME=value` entries, each terminated by a zero byte, and an empty entry at the end. After that, the byte `T` sends
SIGTERM to all descendants, and `K` kills them. When the lifeline is closed, because its holder closed it or died, the
command is ended. If the lifeline is standard input, the command receives no input; otherwise all three standard streams
belong to the command.

These lines are written to STATUS: `group N`, the process group; `runs 1` when the command is running, or `error ERRNO`
if it could not be started; and `exit N` or `signal N`, its result.

When the command has exited or is to be ended, all its descendants receive SIGTERM, and SIGKILL after GRACE seconds. On
Linux the command has a session of its own and orphans become children of this process (subreaper), so that descendants
in other sessions are found as well. On other systems this process shares the process group with the command, and as its
last action it kills the group, including itself.

The program must start fast and stay small, so it imports nothing from this project. It runs without site packages and
is never imported.
"""

# The module `signal` imports `enum`, which takes nearly as long as everything else here.
import _signal as signal  # type: ignore[import-not-found]  # a CPython module without type stubs
import ctypes
import os
import select
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
KILL_TIMEOUT = 5.0
"""Seconds to wait for killed processes to exit. A process that hangs in the kernel may never exit."""
_ON_LINUX = sys.platform == "linux"
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores at startup but the command must not ignore."""


def main() -> None:
    """Run the command in the arguments of this program, and end its descendants."""
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
    """Read the environment from the lifeline. Exit if it is closed or already carries a request to end the command."""
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
    """Starts the command, waits for its end, and ends its descendants."""

    def __init__(self, lifeline: int, status: int) -> None:
        self.lifeline = lifeline
        self.status = status
        self.child = 0
        self.is_over = False
        """Whether the command has exited."""
        self.is_released = False
        """Whether the lifeline is closed."""
        self.is_kill_requested = False
        """Whether to send SIGKILL at once, without waiting for processes that received SIGTERM."""
        self.terminated: set[int] = set()
        self.wake, waking = os.pipe()
        for end in (self.wake, waking):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def start(self, command: list[str], environment: dict[bytes, bytes]) -> None:
        """Start the command, then close the warden's own copies of the standard streams.

        Otherwise the gateway would not see the end of the streams when the command closes them.
        """
        nothing = os.open(os.devnull, os.O_RDWR)
        failed, failing = os.pipe()
        self.child = os.fork()
        if not self.child:
            self.become(command, environment, nothing, failing)
        os.close(failing)
        for stream in (0, 1, 2):
            if stream != self.lifeline:
                os.dup2(nothing, stream)
        # `exec` closes the other end of this pipe; an error is written to it.
        self.report(os.read(failed, 100) or b"runs 1\n")
        os.close(failed)

    def become(self, command: list[str], environment: dict[bytes, bytes], nothing: int, failing: int) -> None:
        """Replace the child process with the command. This never returns.

        `nothing` is an open descriptor of /dev/null. If the command cannot be started, the error is written to the
        descriptor `failing`.
        """
        try:
            signal.set_wakeup_fd(-1)
            if _ON_LINUX:
                os.setsid()
            self.report(b"group %d\n" % os.getpgrp())  # before the command can interfere with the warden
            for number in (*_IGNORED, *_IGNORED_BY_PYTHON, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            if self.lifeline == 0:
                os.dup2(nothing, 0)
            os.execvpe(command[0], command, environment)  # noqa: S606 - runs the caller's command
        except OSError as error:
            os.write(failing, b"error %d\n" % (error.errno or 0))
        finally:
            os._exit(127)

    def watch(self) -> None:
        """Wait until the command has exited or is to be ended."""
        while not (self.is_over or self.is_released or self.is_kill_requested):
            self.pause(None)
            self.reap()

    def end(self, grace: float) -> None:
        """Send SIGTERM to all descendants, and SIGKILL after `grace` seconds, until none is left."""
        if _ON_LINUX and not self.reap():
            return
        if not self.is_kill_requested:
            self.terminate()
            self.wait(grace)
        if not _ON_LINUX:
            time.sleep(0.1)  # orphans are not our children here, so we cannot wait for them
            os.killpg(0, signal.SIGKILL)
        deadline = time.monotonic() + KILL_TIMEOUT
        while self.reap() and time.monotonic() < deadline:
            for process in descendants():
                send_signal(process, signal.SIGKILL)
            self.pause(0.05)

    def terminate(self) -> None:
        """Send SIGTERM to all descendants, but only once to each: a second signal makes some programs skip cleanup."""
        if not _ON_LINUX:
            os.killpg(0, signal.SIGTERM)
        for process in descendants():
            if process not in self.terminated:
                self.terminated.add(process)
                send_signal(process, signal.SIGTERM)

    def wait(self, seconds: float) -> None:
        """Wait until no child is left or a kill is requested, but no longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while self.reap() and not self.is_kill_requested and (left := deadline - time.monotonic()) > 0:
            self.pause(left)

    def pause(self, seconds: float | None) -> None:
        """Wait until a child has exited or the lifeline has data, but no longer than `seconds`."""
        poller = select.poll()  # unlike `select` it accepts large descriptor numbers
        for descriptor in [self.wake] if self.is_released else [self.wake, self.lifeline]:
            poller.register(descriptor, select.POLLIN)
        ready = poller.poll(None if seconds is None else seconds * 1000)
        if any(descriptor == self.lifeline for descriptor, _ in ready):
            self.handle(read(self.lifeline))

    def handle(self, requests: bytes) -> None:
        """Process bytes from the lifeline. Empty bytes mean that the lifeline is closed."""
        self.is_released = not requests
        if b"K" in requests:
            self.is_kill_requested = True
        elif b"T" in requests:
            self.terminate()

    def reap(self) -> bool:
        """Reap exited children and report the command's result. Return whether any child is left."""
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

    def report(self, line: bytes) -> None:
        """Write a status line. Ignore errors, because the gateway may have died."""
        try:
            os.write(self.status, line)
        except OSError:
            return


def read(lifeline: int) -> bytes:
    """Wait for data from the lifeline and return it, or b"" if the lifeline is closed."""
    try:
        return os.read(lifeline, 65536)
    except OSError:
        return b""


def descendants() -> list[int]:
    """Return the pids of all descendants, or an empty list if the system cannot list them."""
    if not _ON_LINUX:
        return []
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 (importing pathlib takes as long as everything else)
        if name.isdigit() and (parent := parent_of(name)):
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for process in found:
        found += children.get(process, ())
    return found


def parent_of(process: str) -> int:
    """Return the pid of a process's parent, or 0 if the process has ended."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stat:  # noqa: PTH123 (as above)
            # The process name is in parentheses and may itself contain parentheses.
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def send_signal(process: int, number: int) -> None:
    """Send a signal to a process. Ignore errors, because the process may have ended."""
    try:
        os.kill(process, number)
    except OSError:
        return


if __name__ == "__main__":
    main()
    os._exit(0)
