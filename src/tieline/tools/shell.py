"""Commands: run in the workspace, with bounds on time and output, and ended with everything they started.

Each command runs under a warden, a small process (see `warden.py`) that outlives it just long enough to end what it
left behind. The warden is held by a pipe: when the gateway lets go of it, for whatever reason, the command ends.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta

from tieline.model.content import Value
from tieline.model.ports import Report, unheard
from tieline.tools.arguments import Form
from tieline.tools.bounded_output import Captured
from tieline.tools.errors import ToolFailed
from tieline.tools.live_output import Screen
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

Hear = Callable[[int, bytes], None]
"""Gets what a command writes as it comes, with the number of the stream: 1 or 2."""

_WARDEN = str(Path(__file__).parents[1] / "net" / "process" / "warden.py")


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

    def __init__(self, keep: Keep, hear: Hear | None = None) -> None:
        self.stdout = Captured(keep.head, keep.tail)
        self.stderr = Captured(keep.head, keep.tail)
        self.flooded = False
        self._hear = hear
        self._total = keep.total
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.SubprocessTransport | None = None
        self._status = -1
        self._reported = b""
        self._giving_up: asyncio.TimerHandle | None = None

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        directory: int,
        environment: Mapping[str, str],
        keep: Keep | None = None,
        hear: Hear | None = None,
    ) -> "Command":
        """Start a command in a directory that is held open; the directory may be closed afterwards."""
        loop = asyncio.get_running_loop()
        entries = _entries(environment)
        status, reporting = os.pipe()
        try:
            os.set_blocking(status, False)
            numbers = [str(number) for number in (directory, 0, reporting, GRACE)]
            program = [sys.executable, "-I", "-S", _WARDEN, *numbers, *argv]
            spawn = partial(loop.subprocess_exec, pass_fds=(directory, reporting), start_new_session=True, env={})
            _, command = await spawn(partial(cls, keep or Keep(), hear), *program)
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
            self._kill_group()
            self._transport.close()
            await asyncio.wait([self._closed], timeout=PATIENCE)

    def end(self) -> None:
        """Let go of the lifeline: the warden ends what runs, and does so also if nobody waits for it."""
        if self._transport is not None and (lifeline := self._transport.get_pipe_transport(0)) is not None:
            lifeline.close()

    def outcome(self, *, timed_out: bool = False) -> Outcome:
        """How it went, as far as is known."""
        facts = self._facts()
        if "error" in facts:
            raise ToolFailed(f"the command could not be started: {os.strerror(facts['error'])}")
        return Outcome(
            exit_code=facts.get("exit"),
            signal=facts.get("signal"),
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
        if self._hear is not None:
            self._hear(fd, bytes(data))
        if stream.total > self._total and not self.flooded:
            self.flooded = True
            self.end()

    def process_exited(self) -> None:
        if self._transport is None:
            return
        if self._transport.get_returncode():
            self._kill_group()  # the warden itself was killed: do what is left of its job
        # Whoever still holds the pipes now has got away; the rest of what was written is already on its way.
        self._giving_up = asyncio.get_running_loop().call_later(PATIENCE, self._transport.close)

    def connection_lost(self, _: Exception | None) -> None:
        if self._transport is not None:
            self._transport.close()
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._status >= 0:
            self._read_status()
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

    def _read_status(self) -> None:
        """Take what the warden has reported."""
        with contextlib.suppress(OSError):
            while more := os.read(self._status, 4096):
                self._reported += more

    def _facts(self) -> dict[str, int]:
        lines = self._reported.decode().split("\n")[:-1]
        return {name: int(number) for name, number in map(str.split, lines)}

    def _kill_group(self) -> None:
        """What can be done without the warden: end the group that the command began with."""
        self._read_status()
        if group := self._facts().get("group"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


async def run(
    workspace: Workspace,
    arguments: RunTerminal,
    *,
    interpreter: Sequence[str],
    environment: Mapping[str, str],
    keep: Keep,
    report: Report = unheard,
) -> str:
    """What run_terminal answers; raises ToolFailed when the command did not come to its own end."""
    with Screen(report) as screen:
        with contextlib.ExitStack() as held:
            reach = workspace.directory(arguments.cwd)
            spot: Spot = await asyncio.to_thread(held.enter_context, reach)
            command = await Command.start(
                [*interpreter, arguments.command],
                directory=spot.directory,
                environment=environment,
                keep=keep,
                hear=screen.write,
            )
        outcome = await command.wait(arguments.timeout)
        why = _cut_short(outcome, arguments, keep)
        code = None if why else outcome.exit_code
        screen.end(why or _ending(outcome), exit_code=code, is_failed=code != 0)
    if why:
        raise ToolFailed(f"{why}\n{told(outcome)}")
    return told(outcome)


def told(outcome: Outcome) -> str:
    """An outcome for a model to read."""
    streams = (("stdout", outcome.stdout), ("stderr", outcome.stderr))
    written = [f"{name}:\n{text.rstrip()}" for name, text in streams if text.strip()]
    return "\n".join([_ending(outcome), *(written or ["(no output)"])])


def _ending(outcome: Outcome) -> str:
    if outcome.exit_code is not None:
        return f"exit code: {outcome.exit_code}"
    if outcome.signal is not None:
        return f"ended by signal {outcome.signal} ({signal.strsignal(outcome.signal) or 'unknown'})"
    return "exit code: unknown"


def _cut_short(outcome: Outcome, arguments: RunTerminal, keep: Keep) -> str:
    """Why a command did not come to its own end; empty if it did."""
    if outcome.timed_out:
        return f"The command was ended after {arguments.timeout} seconds."
    if outcome.flooded:
        return f"The command was ended because it wrote more than {keep.total} bytes."
    if outcome.exit_code is None and outcome.signal is None:
        return "It is not known how the command ended: the process that watched it was killed."
    return ""


def _entries(environment: Mapping[str, str]) -> bytes:
    """An environment as the warden reads it."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ToolFailed(f"`{name}` cannot be a variable of the environment")
    try:
        return b"".join(os.fsencode(f"{name}={value}\0") for name, value in environment.items()) + b"\0"
    except UnicodeEncodeError:
        raise ToolFailed("the environment contains characters no variable can have") from None
