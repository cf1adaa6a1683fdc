"""Commands: run in the workspace, with bounds on time and output, and ended with everything they started.

Each command runs under a warden, a small process (see `warden.py`) that outlives it just long enough to end what it
left behind. The warden is held by a pipe: when the gateway lets go of it, for whatever reason, the command ends.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta

from tieline.model.content import Value
from tieline.tools.arguments import Form
from tieline.tools.failure import ToolFailed
from tieline.tools.workspace import Spot, Workspace

GRACE = 2.0
"""How long a command has after TERM before it gets KILL."""
LAST_WORDS = 8.0
"""How long the warden may take after that; then it is killed itself."""
PATIENCE = 1.0
"""How long to read on when the warden is gone, where it cannot find everything a command started."""
MAX_OUTPUT = 64 << 20
"""A command that writes more than this is ended: it would only keep the gateway busy."""
MAX_SECONDS = 600

_WARDEN = str(Path(__file__).with_name("warden.py"))


class RunTerminal(Value):
    """The arguments of run_terminal."""

    command: Annotated[
        str, Meta(min_length=1, max_length=30_000, description="The command line, as it would be typed into a shell.")
    ]
    cwd: Annotated[
        str,
        Meta(max_length=4096, description="The directory to run it in, relative to the workspace. Default: its root."),
    ] = "."
    timeout: Annotated[
        int, Meta(ge=1, le=MAX_SECONDS, description="Seconds after which the command is ended, 1 to 600.")
    ] = 120


RUN_TERMINAL = Form(
    "run_terminal",
    "Run a shell command in the workspace and get its exit code, its output and its errors. There is no input: a "
    "command that asks something gets nothing. Processes it leaves in the background are ended with it. Of long output "
    "the beginning and the end are kept.",
    RunTerminal,
)


class Captured:
    """What a stream said: the first bytes and the last bytes, and how many there were in all."""

    def __init__(self, head: int, tail: int) -> None:
        self.total = 0
        self._room = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """More of it."""
        self.total += len(data)
        begun = data[: self._room]
        self._head += begun
        self._room -= len(begun)
        self._tail += data[len(begun) :][-self._tail_limit :] if self._tail_limit else b""
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    @property
    def omitted(self) -> int:
        """How many bytes in the middle are lost."""
        return self.total - len(self._head) - min(len(self._tail), self._tail_limit)

    @property
    def head(self) -> bytes:
        """The beginning."""
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        """The end, without what is in the beginning already."""
        return bytes(self._tail[-self._tail_limit :]) if self._tail_limit else b""

    def text(self) -> str:
        """The whole as text, with a line that tells what was left out; lines and characters stay whole if they can."""
        if not self.omitted:
            return (self.head + self.tail).decode("utf-8", "replace")
        head, tail = _up_to_line(self.head), _from_line(self.tail)
        lost = self.total - len(head) - len(tail)
        begun = head.decode("utf-8", "replace").removesuffix("\n")
        return f"{begun}\n… {lost} bytes left out …\n{tail.decode('utf-8', 'replace')}"


class Outcome(Value):
    """How a command went. `exit_code` is None when a signal ended it; both are None when it was never seen to end."""

    exit_code: int | None = None
    signal: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    flooded: bool = False


class Keep(Value):
    """How much to keep of what a command writes: of each stream the first and the last bytes; `total` ends it."""

    head: int = 16 << 10
    tail: int = 32 << 10
    total: int = MAX_OUTPUT


class Command(asyncio.SubprocessProtocol):
    """A command under way; its output can be looked at any time. It ends at the latest when its holder says `end`."""

    def __init__(self, keep: Keep) -> None:
        self.stdout = Captured(keep.head, keep.tail)
        self.stderr = Captured(keep.head, keep.tail)
        self.flooded = False
        self._total = keep.total
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._status = -1
        self._reported = b""
        self._giving_up: asyncio.TimerHandle | None = None

    @classmethod
    async def start(
        cls, argv: Sequence[str], *, directory: int, environment: Mapping[str, str], keep: Keep | None = None
    ) -> "Command":
        """Start a command in a directory that is held open; the directory may be closed afterwards."""
        loop = asyncio.get_running_loop()
        entries = _entries(environment)
        status, reporting = os.pipe()
        try:
            os.set_blocking(status, False)
            program = [sys.executable, "-I", "-S", _WARDEN, str(directory), str(reporting), str(GRACE), *argv]
            spawn = partial(loop.subprocess_exec, pass_fds=(directory, reporting), start_new_session=True, env={})
            _, command = await spawn(partial(cls, keep or Keep()), *program)
        except BaseException as error:
            os.close(status)
            if isinstance(error, OSError | ValueError):  # too long, or with a character no command line can have
                raise ToolFailed(f"the command could not be started: {error}") from error
            raise
        finally:
            os.close(reporting)
        command._begin(status, entries)
        return command

    @property
    def is_over(self) -> bool:
        """Whether the command and all it started have ended."""
        return self._closed.done()

    async def wait(self, seconds: float | None = None) -> Outcome:
        """Wait for the end; after this many seconds, or when the waiting is cancelled, the command is ended."""
        timed_out = False
        try:
            await asyncio.wait([self._closed], timeout=seconds)
            timed_out = not self._closed.done()
        finally:
            await self.aclose()
        return self.outcome(timed_out=timed_out)

    async def aclose(self) -> None:
        """End the command and wait until nothing of it is left."""
        self.end()
        await asyncio.wait([self._closed], timeout=GRACE + LAST_WORDS)
        if not self._closed.done() and self._transport is not None:
            _kill_group(self._transport.get_pid())
            self._transport.close()
            await asyncio.wait([self._closed], timeout=PATIENCE)

    def end(self) -> None:
        """Let go of the lifeline: the warden ends what runs, and does so also if nobody waits for it."""
        if self._transport is not None and (lifeline := self._transport.get_pipe_transport(0)) is not None:
            lifeline.close()

    def outcome(self, *, timed_out: bool = False) -> Outcome:
        """How it went, as far as is known."""
        facts = dict(line.split() for line in self._reported.decode().splitlines())
        if "error" in facts:
            raise ToolFailed(f"the command could not be started: {os.strerror(int(facts['error']))}")
        return Outcome(
            exit_code=int(facts["exit"]) if "exit" in facts else None,
            signal=int(facts["signal"]) if "signal" in facts else None,
            stdout=self.stdout.text(),
            stderr=self.stderr.text(),
            timed_out=timed_out,
            flooded=self.flooded,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes | bytearray) -> None:
        stream = self.stdout if fd == 1 else self.stderr
        stream.feed(bytes(data))
        if stream.total > self._total and not self.flooded:
            self.flooded = True
            self.end()

    def process_exited(self) -> None:
        if self._transport is None:
            return
        if self._transport.get_returncode():
            _kill_group(self._transport.get_pid())  # the warden itself was killed: do what is left of its job
        # Whoever still holds the pipes now has got away; the rest of what was written is already on its way.
        self._giving_up = asyncio.get_running_loop().call_later(PATIENCE, self._transport.close)

    def connection_lost(self, _: Exception | None) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._status >= 0:
            with contextlib.suppress(BlockingIOError):
                self._reported = os.read(self._status, 4096)
            os.close(self._status)
            self._status = -1
        if not self._closed.done():
            self._closed.set_result(None)

    def _begin(self, status: int, entries: bytes) -> None:
        if self.is_over or self._transport is None:
            os.close(status)
            return
        self._status = status
        cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0)).write(entries)


async def run(
    workspace: Workspace,
    arguments: RunTerminal,
    *,
    interpreter: Sequence[str],
    environment: Mapping[str, str],
    keep: Keep,
) -> str:
    """What run_terminal answers; raises ToolFailed when the command did not come to its own end."""
    with contextlib.ExitStack() as held:
        reach = workspace.directory(arguments.cwd)
        spot: Spot = await asyncio.to_thread(held.enter_context, reach)
        argv = [*interpreter, arguments.command]
        command = await Command.start(argv, directory=spot.directory, environment=environment, keep=keep)
    outcome = await command.wait(arguments.timeout)
    told = report(outcome)
    if outcome.timed_out:
        raise ToolFailed(f"The command was ended after {arguments.timeout} seconds.\n{told}")
    if outcome.flooded:
        raise ToolFailed(f"The command was ended because it wrote more than {keep.total} bytes.\n{told}")
    if outcome.exit_code is None and outcome.signal is None:
        raise ToolFailed(f"It is not known how the command ended: the process that watched it was killed.\n{told}")
    return told


def report(outcome: Outcome) -> str:
    """An outcome for a model to read."""
    if outcome.exit_code is not None:
        ending = f"exit code: {outcome.exit_code}"
    elif outcome.signal is not None:
        ending = f"ended by signal {outcome.signal} ({signal.strsignal(outcome.signal) or 'unknown'})"
    else:
        ending = "exit code: unknown"
    streams = (("stdout", outcome.stdout), ("stderr", outcome.stderr))
    told = [f"{name}:\n{text.rstrip()}" for name, text in streams if text.strip()]
    return "\n".join([ending, *told]) if told else f"{ending}\n(no output)"


def _entries(environment: Mapping[str, str]) -> bytes:
    """An environment as the warden reads it."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ToolFailed(f"`{name}` cannot be a variable of the environment")
    try:
        return b"".join(os.fsencode(f"{name}={value}\0") for name, value in environment.items()) + b"\0"
    except UnicodeEncodeError:
        raise ToolFailed("the environment contains characters no variable can have") from None


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _up_to_line(head: bytes) -> bytes:
    end = head.rfind(b"\n") + 1
    return head[:end] if end > len(head) // 2 else head


def _from_line(tail: bytes) -> bytes:
    start = tail.find(b"\n") + 1
    return tail[start:] if 0 < start < len(tail) // 2 else tail
