"""A program and everything that comes of it, also what went away into a session of its own (Linux).

Between us and the program stands a warden, a small process (see `warden.py`) that started it and becomes the parent of
every orphan it leaves. We hold the warden by a socket: a word through it asks everything to end, or ends it; when the
socket closes, because we are gone, everything is ended too. The warden itself ends when nothing else is left.
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

from tieline.net.process.exits import reap_now, reaped

GRACE = 0.5
"""How many seconds everything else has to end once the program has, or once we are gone."""

_WARDEN = str(Path(__file__).with_name("warden.py"))
_ASK, _KILL = b"T", b"K"


class Tree:
    """A program under a warden. Its streams are its own; how it ended is what the warden reports."""

    def __init__(self, popen: subprocess.Popen[bytes], lifeline: socket.socket) -> None:
        self.popen = popen
        """What has the streams of the program, and ends when all of it has."""
        self._lifeline = lifeline
        self._reported = b""

    @staticmethod
    def is_possible() -> bool:
        """Whether this system can find everything that comes of a program."""
        return sys.platform == "linux" and bool(sys.executable)

    @classmethod
    async def start(cls, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> "Tree":
        """Start a program; raises OSError or ValueError."""
        entries = _entries(env)
        tree = _under_a_warden(argv, cwd)
        try:
            await tree._begin(entries)
        except BaseException:
            tree._abandon()
            raise
        return tree

    @property
    def pid(self) -> int:
        """Of the program, and of its group and its session."""
        return self._facts()["group"]

    def ask(self) -> None:
        """Ask everything to end."""
        self._say(_ASK)

    def kill(self) -> None:
        """End everything."""
        self._say(_KILL)

    def exited(self) -> None:
        """The warden has ended. If somebody killed it, the group of the program is all that we know of."""
        self._hear()
        facts = self._facts()
        if "group" in facts and not facts.keys() & {"exit", "signal"}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(facts["group"], signal.SIGKILL)

    def conclude(self) -> int | None:
        """Everything has been ended: how the program did, a signal as a negative number; None if nobody knows."""
        self.popen.poll()
        self._hear()
        self._lifeline.close()
        facts = self._facts()
        return -facts["signal"] if "signal" in facts else facts.get("exit")

    async def gone(self) -> None:
        """Until nothing of ours is left of it."""
        await reaped(self.popen)

    def gone_now(self) -> None:
        """The same without leaving the event loop."""
        reap_now(self.popen)

    async def _begin(self, entries: bytes) -> None:
        """Hand over the environment; the program runs when the warden says so."""
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
        raise OSError("the process that was to watch it has ended")

    def _abandon(self) -> None:
        """Nobody will need it."""
        self.kill()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                stream.close()
        reap_now(self.popen)
        self.exited()
        self._lifeline.close()

    def _say(self, word: bytes) -> None:
        # A warden that is gone needs nobody to tell it anything.
        with contextlib.suppress(OSError):
            self._lifeline.send(word)

    def _hear(self) -> None:
        """Take what the warden has reported."""
        with contextlib.suppress(OSError):
            while more := self._lifeline.recv(4096):
                self._reported += more

    def _facts(self) -> dict[str, int]:
        lines = self._reported.decode().split("\n")[:-1]
        return {name: int(number) for name, number in map(str.split, lines)}


def _under_a_warden(argv: Sequence[str], cwd: str) -> Tree:
    with contextlib.ExitStack() as held:
        directory = os.open(cwd, os.O_PATH | os.O_DIRECTORY)
        held.callback(os.close, directory)
        ours, theirs = socket.socketpair()
        held.enter_context(theirs)
        ours.setblocking(False)
        descriptors = (directory, theirs.fileno())
        numbers = [str(number) for number in (*descriptors, theirs.fileno(), GRACE)]
        try:
            popen = subprocess.Popen(  # noqa: S603 - to run what the user configured is what this is for
                [sys.executable, "-I", "-S", _WARDEN, *numbers, *argv],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # The environment comes through the socket: nothing in it is meant for the warden.
                env={},
                pass_fds=descriptors,
                # Whatever ends our group must not end the warden.
                start_new_session=True,
            )
        except OSError as error:
            # Not the program's fault: it must not look as if the program could not be found.
            ours.close()
            raise OSError(f"{sys.executable} cannot be run: {error.strerror}") from error
        except BaseException:
            ours.close()
            raise
        return Tree(popen, ours)


def _entries(env: Mapping[str, str]) -> bytes:
    """An environment as the warden reads it."""
    for name, value in env.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ValueError(f"{name!r} cannot be a variable of the environment")
    return b"".join(os.fsencode(f"{name}={value}\0") for name, value in env.items()) + b"\0"
