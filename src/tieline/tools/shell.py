"""Runs commands in the workspace, with limits on time and output. All processes that a command started end with it.

Each command runs under a warden, a small process (see `net/process/warden.py`) that ends all processes the command
leaves behind. The warden has a pipe to the gateway. When the pipe is closed, for whatever reason, the warden ends the
command.
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
from tieline.model.ports import Report, no_report
from tieline.tools.arguments import ToolDefinition
from tieline.tools.bounded_output import BoundedOutput
from tieline.tools.errors import ToolFailed
from tieline.tools.live_output import LiveOutput
from tieline.tools.workspace import ResolvedPath, Workspace

GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL when a command is ended."""
WARDEN_TIMEOUT = 8.0
"""Seconds to wait for the warden to exit after it has killed the command. Then the warden itself is killed."""
DRAIN_TIMEOUT = 1.0
"""Seconds to keep reading output after the warden has ended. A process that escaped it may hold the pipes open."""
MAX_OUTPUT = 64 << 20
"""Number of bytes of output after which a command is ended, so that it cannot keep the gateway busy."""
MAX_SECONDS = 600

OutputListener = Callable[[int, bytes], None]
"""Called with the number of a stream (1 is stdout, 2 is stderr) and the data that a command wrote to it."""

_WARDEN = str(Path(__file__).parents[1] / "net" / "process" / "warden.py")


class RunTerminal(Value):
    """The arguments of run_terminal."""

    command: Annotated[
        str, Meta(min_length=1, max_length=30_000, description="The command line, as typed into a shell.")
    ]
    cwd: Annotated[
        str,
        Meta(max_length=4096, description="The directory to run it in, relative to the workspace. Default: its root."),
    ] = "."
    timeout: Annotated[
        int, Meta(ge=1, le=MAX_SECONDS, description="Seconds after which the command is ended, 1 to 600.")
    ] = 120


RUN_TERMINAL = ToolDefinition(
    "run_terminal",
    "Run a shell command in the workspace and get its exit code, stdout and stderr. Its stdin is empty, so it cannot "
    "ask for input. Background processes are ended with the command. Long output is cut to its beginning and end.",
    RunTerminal,
)


class CommandOutcome(Value):
    """The result of a command. `flooded` means that the command was ended because it wrote too much output.

    If a signal ended the command, `signal` is set instead of `exit_code`. If it is unknown how the command ended, both
    are None.
    """

    exit_code: int | None = None
    signal: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    flooded: bool = False


class OutputLimits(Value):
    """The number of bytes to keep from the beginning (`head`) and the end (`tail`) of each stream.

    A command that writes more than `total` bytes to one stream is ended.
    """

    head: int = 16 << 10
    tail: int = 32 << 10
    total: int = MAX_OUTPUT


class RunningCommand(asyncio.SubprocessProtocol):
    """A running command. Its output can be read at any time. It is ended by `end` or `aclose`."""

    def __init__(self, limits: OutputLimits, listener: OutputListener | None = None) -> None:
        self.stdout = BoundedOutput(limits.head, limits.tail)
        self.stderr = BoundedOutput(limits.head, limits.tail)
        self.flooded = False
        self._listener = listener
        self._total = limits.total
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
        limits: OutputLimits | None = None,
        listener: OutputListener | None = None,
    ) -> "RunningCommand":
        """Start a command. `directory` is a file descriptor for its working directory and may be closed afterwards.

        `listener` is called with the output as it arrives.
        """
        loop = asyncio.get_running_loop()
        entries = _entries(environment)
        status, reporting = os.pipe()
        try:
            os.set_blocking(status, False)
            numbers = [str(number) for number in (directory, 0, reporting, GRACE)]
            program = [sys.executable, "-I", "-S", _WARDEN, *numbers, *argv]
            spawn = partial(loop.subprocess_exec, pass_fds=(directory, reporting), start_new_session=True, env={})
            _, command = await spawn(partial(cls, limits or OutputLimits(), listener), *program)
        except BaseException as error:
            os.close(status)
            if isinstance(error, OSError | ValueError):  # the command is too long or contains an invalid character
                raise ToolFailed(f"the command could not be started: {error}") from error
            raise
        finally:
            os.close(reporting)
        command._begin(status, entries)
        return command

    @property
    def is_over(self) -> bool:
        """Whether the command and everything it started have ended."""
        return self._closed.done()

    async def wait(self, seconds: float | None = None) -> CommandOutcome:
        """Wait until the command has ended. End it after `seconds` (None: no limit), or if the wait is cancelled."""
        timed_out = False
        try:
            await asyncio.wait([self._closed], timeout=seconds)
            timed_out = not self._closed.done()
        finally:
            await self.aclose()
        return self.outcome(timed_out=timed_out)

    async def aclose(self) -> None:
        """End the command and wait until all its processes are gone."""
        self.end()
        await asyncio.wait([self._closed], timeout=GRACE + WARDEN_TIMEOUT)
        if not self._closed.done() and self._transport is not None:
            self._kill_group()
            self._transport.close()
            await asyncio.wait([self._closed], timeout=DRAIN_TIMEOUT)

    def end(self) -> None:
        """End the command without waiting: close the pipe to the warden, which then ends it."""
        if self._transport is not None and (lifeline := self._transport.get_pipe_transport(0)) is not None:
            lifeline.close()

    def outcome(self, *, timed_out: bool = False) -> CommandOutcome:
        """Return the result, as far as it is known. Raise ToolFailed if the command could not be started."""
        facts = self._facts()
        if "error" in facts:
            raise ToolFailed(f"the command could not be started: {os.strerror(facts['error'])}")
        return CommandOutcome(
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
        if self._listener is not None:
            self._listener(fd, bytes(data))
        if stream.total > self._total and not self.flooded:
            self.flooded = True
            self.end()

    def process_exited(self) -> None:
        if self._transport is None:
            return
        if self._transport.get_returncode():
            self._kill_group()  # the warden itself was killed
        # A process that still holds the pipes has escaped the warden; do not wait for it.
        self._giving_up = asyncio.get_running_loop().call_later(DRAIN_TIMEOUT, self._transport.close)

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
        """Read the report in which the warden says how the command started and ended."""
        with contextlib.suppress(OSError):
            while more := os.read(self._status, 4096):
                self._reported += more

    def _facts(self) -> dict[str, int]:
        lines = self._reported.decode().split("\n")[:-1]
        return {name: int(number) for name, number in map(str.split, lines)}

    def _kill_group(self) -> None:
        """Kill the command's process group directly, without the warden."""
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
    limits: OutputLimits,
    report: Report = no_report,
) -> str:
    """Execute run_terminal: run a command and return its result as text. Raise ToolFailed if it was ended early."""
    with LiveOutput(report) as live:
        with contextlib.ExitStack() as held:
            reach = workspace.directory(arguments.cwd)
            spot: ResolvedPath = await asyncio.to_thread(held.enter_context, reach)
            command = await RunningCommand.start(
                [*interpreter, arguments.command],
                directory=spot.directory,
                environment=environment,
                limits=limits,
                listener=live.write,
            )
        outcome = await command.wait(arguments.timeout)
        why = _cut_short(outcome, arguments, limits)
        code = None if why else outcome.exit_code
        live.end(why or _ending(outcome), exit_code=code, is_failed=code != 0)
    if why:
        raise ToolFailed(f"{why}\n{outcome_text(outcome)}")
    return outcome_text(outcome)


def outcome_text(outcome: CommandOutcome) -> str:
    """Return the result of a command as text for a model."""
    streams = (("stdout", outcome.stdout), ("stderr", outcome.stderr))
    written = [f"{name}:\n{text.rstrip()}" for name, text in streams if text.strip()]
    return "\n".join([_ending(outcome), *(written or ["(no output)"])])


def _ending(outcome: CommandOutcome) -> str:
    if outcome.exit_code is not None:
        return f"exit code: {outcome.exit_code}"
    if outcome.signal is not None:
        return f"ended by signal {outcome.signal} ({signal.strsignal(outcome.signal) or 'unknown'})"
    return "exit code: unknown"


def _cut_short(outcome: CommandOutcome, arguments: RunTerminal, limits: OutputLimits) -> str:
    """Return the reason why a command was ended early, or an empty string if it ended by itself."""
    if outcome.timed_out:
        return f"The command was ended after {arguments.timeout} seconds."
    if outcome.flooded:
        return f"The command was ended because it wrote more than {limits.total} bytes."
    if outcome.exit_code is None and outcome.signal is None:
        return "The exit status of the command is unknown: the process that supervised it was killed."
    return ""


def _entries(environment: Mapping[str, str]) -> bytes:
    """Encode environment variables in the format that the warden reads."""
    for name, value in environment.items():
        if not name or "=" in name or "\0" in f"{name}{value}":
            raise ToolFailed(f"`{name}` is not a valid environment variable")
    try:
        return b"".join(os.fsencode(f"{name}={value}\0") for name, value in environment.items()) + b"\0"
    except UnicodeEncodeError:
        raise ToolFailed("the environment contains characters that a variable cannot have") from None
