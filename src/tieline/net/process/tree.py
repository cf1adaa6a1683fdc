"""A program and all its descendants, including those that moved to another session (Linux).

The program is started by a warden, a small process (see `warden.py`) that becomes the parent of every orphan. A socket
connects the gateway to the warden: a byte sent through it makes the warden terminate or kill all descendants. The
warden also ends them when the socket is closed, for example because the gateway has died. It exits when no descendant
is left.
"""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tieline.net.process import exits

GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL after the program has exited or the gateway has died."""

_WARDEN = str(Path(__file__).with_name("warden.py"))
_TERMINATE, _KILL = b"T", b"K"


class ProcessTree:
    """A program that was started by a warden, which reports how the program ended.

    The standard streams of the program are connected to the gateway, not to the warden.
    """

    def __init__(self, popen: subprocess.Popen[bytes], lifeline: socket.socket) -> None:
        self.popen = popen
        """The warden's process, but with the program's standard streams. It exits after all descendants."""
        self._lifeline = lifeline
        self._reported = b""

    @staticmethod
    def is_possible() -> bool:
        """Return whether this system can find all descendants of a program."""
        return sys.platform == "linux" and bool(sys.executable)

    @classmethod
    async def start(
        cls, argv: Sequence[str], env: Mapping[str, str], cwd: str, *, stderr: int = subprocess.PIPE
    ) -> "ProcessTree":
        """Start a program in the directory `cwd`. Raise OSError or ValueError if that fails.

        `stderr` says where its standard error goes, as for `subprocess.Popen`.
        """
        entries = _entries(env)
        tree = _start_warden(argv, cwd, stderr)
        try:
            await tree._begin(entries)
        except BaseException:
            tree._abandon()
            raise
        return tree

    @property
    def pid(self) -> int:
        """The pid of the program, which is also the id of its process group and session."""
        return self._facts()["group"]

    def terminate(self) -> None:
        """Send SIGTERM to all descendants."""
        self._send(_TERMINATE)

    def kill(self) -> None:
        """Send SIGKILL to all descendants."""
        self._send(_KILL)

    def exited(self) -> None:
        """Handle the exit of the warden. If it was killed, kill at least the process group of the program."""
        self._read_report()
        facts = self._facts()
        if "group" in facts and not facts.keys() & {"exit", "signal"}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(facts["group"], signal.SIGKILL)

    def conclude(self) -> int | None:
        """Return the exit status of the program. Call this only after all descendants have ended.

        If a signal ended the program, the status is the negated signal number. Return None if the status is
        unknown.
        """
        self.popen.poll()
        self._read_report()
        self._lifeline.close()
        facts = self._facts()
        return -facts["signal"] if "signal" in facts else facts.get("exit")

    async def reaped(self) -> None:
        """Wait for the warden to exit, and reap it."""
        await exits.reaped(self.popen)

    def reap_now(self) -> None:
        """Reap the warden without awaiting anything."""
        exits.reap_now(self.popen)

    async def _begin(self, entries: bytes) -> None:
        """Send the encoded environment, and wait until the warden reports that the program is running."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(self._lifeline, entries)
            while more := await loop.sock_recv(self._lifeline, 4096):
                self._reported += more
                facts = self._facts()
                if "error" in facts:
                    raise OSError(facts["error"], os.strerror(facts["error"]))
                if "runs" in facts:
                    return
        raise OSError("the supervising process has exited")

    def _abandon(self) -> None:
        """Kill all processes and free all resources after a failed start."""
        self.kill()
        exits.close_pipes(self.popen)
        exits.reap_now(self.popen)
        self.exited()
        self._lifeline.close()

    def _send(self, request: bytes) -> None:
        # Sending fails if the warden has exited.
        with contextlib.suppress(OSError):
            self._lifeline.send(request)

    def _read_report(self) -> None:
        """Read the status lines that the warden has already sent, without waiting for more."""
        with contextlib.suppress(OSError):
            while more := self._lifeline.recv(4096):
                self._reported += more

    def _facts(self) -> dict[str, int]:
        lines = self._reported.decode().split("\n")[:-1]
        return {name: int(number) for name, number in map(str.split, lines)}


def _start_warden(argv: Sequence[str], cwd: str, stderr: int) -> ProcessTree:
    with contextlib.ExitStack() as held:
        directory = os.open(cwd, os.O_PATH | os.O_DIRECTORY)
        held.callback(os.close, directory)
        ours, theirs = socket.socketpair()
        held.enter_context(theirs)
        ours.setblocking(False)
        descriptors = (directory, theirs.fileno())
        numbers = [str(number) for number in (*descriptors, theirs.fileno(), GRACE)]
        try:
            popen = subprocess.Popen(  # noqa: S603 - runs what the user configured
                [sys.executable, "-I", "-S", _WARDEN, *numbers, *argv],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # The environment is sent through the socket; the warden itself must not see it.
                env={},
                pass_fds=descriptors,
                # A signal to our process group must not reach the warden.
                start_new_session=True,
            )
        except OSError as error:
            # A plain OSError, so that the caller does not take it for a missing program.
            ours.close()
            raise OSError(f"{sys.executable} cannot be run: {error.strerror}") from error
        except BaseException:
            ours.close()
            raise
        return ProcessTree(popen, ours)


def _entries(env: Mapping[str, str]) -> bytes:
    """Encode an environment for the warden. Raise ValueError if it contains an invalid variable."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ValueError(f"{name!r} is not a valid environment variable")
    return b"".join(os.fsencode(f"{name}={value}\0") for name, value in env.items()) + b"\0"
