"""File access and terminals for coding agents. The rules for the gateway's own tools apply; the user may be asked.

The user approves exactly the command line that runs, including the agent's arguments and environment variables.
"""

import asyncio
import json
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from io import StringIO
from itertools import count

from tieline.backends.acp.host_services import CommandExit, TerminalCommand, TerminalSnapshot
from tieline.model.content import Text, ToolCall
from tieline.model.errors import GatewayError
from tieline.model.ports import Host
from tieline.tasks import Tasks
from tieline.tools.errors import ToolFailed
from tieline.tools.guarded_tools import GuardedTools, ToolRefusal
from tieline.tools.shell import OutputLimits, RunningCommand
from tieline.tools.workspace import Workspace, read_whole

MOST_TERMINALS = 32
USUAL_OUTPUT = 256 << 10
MOST_OUTPUT = 4 << 20
"""Maximum number of bytes kept of a command's output, even if the agent requests more."""

_MERGED = 'exec "$@" 2>&1'
"""A shell script that runs a command with standard error merged into standard output, as in a terminal."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class AgentFiles:
    """Reads and writes workspace files for agents."""

    def __init__(self, tools: GuardedTools) -> None:
        self._tools = tools
        self._workspace = Workspace(tools.workspace)

    async def read(self, path: str, line: int | None, limit: int | None, host: Host) -> str:
        """Return the text of a file, or only `limit` lines starting at line `line`, counted from 1."""
        place = await _cleared(self._tools, _call("read_file", path=path), host)
        text = await asyncio.to_thread(self._text, path, place)
        if line is None and limit is None:
            return text
        start = max((line or 1) - 1, 0)
        lines = StringIO(text, newline="\n").readlines()
        return "".join(lines[start : None if limit is None else start + max(limit, 0)])

    async def write(self, path: str, content: str, host: Host) -> None:
        """Create or replace a file."""
        call = _call("write_file", path=path, content=content)
        result = await self._tools.open("agent").execute(call, host)
        if result.is_error:
            raise _refused(" ".join(part.text for part in result.content if isinstance(part, Text)))

    def _text(self, path: str, place: str | None) -> str:
        try:
            with self._workspace.pinned(place).open(path) as opened:
                return read_whole(opened).decode("utf-8")
        except ToolFailed as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise error.__cause__ from None
            raise _refused(str(error)) from error
        except UnicodeDecodeError as error:
            raise _refused(f"`{path}` is not UTF-8 text") from error


class AgentTerminals:
    """Runs commands for agents. When the gateway stops, `tasks` ends the commands."""

    def __init__(
        self, tools: GuardedTools, tasks: Tasks, *, environment: Mapping[str, str], interpreter: Sequence[str]
    ) -> None:
        self._tools = tools
        self._tasks = tasks
        self._workspace = Workspace(tools.workspace)
        self._environment = environment
        self._interpreter = tuple(interpreter)
        self._numbers = count(1)
        self._terminals: dict[str, _Terminal] = {}

    async def create(self, command: TerminalCommand, host: Host) -> str:
        """Start a command, if it is allowed, and return the id of its terminal."""
        line, cwd = _line(command), command.cwd or "."
        self._check_room()
        place = await _cleared(self._tools, _call("run_terminal", command=line, cwd=cwd), host)
        self._check_room()
        name = f"terminal-{next(self._numbers)}"
        limit = USUAL_OUTPUT if command.limit is None else min(max(command.limit, 0), MOST_OUTPUT)
        running = await self._started(line, cwd, place, OutputLimits(head=0, tail=limit))
        self._terminals[name] = _Terminal(running, self._tasks.start(_watched(running), name))
        # Let the task start: a task cancelled before its first step would not end the command.
        await asyncio.sleep(0)
        return name

    async def output(self, terminal: str) -> TerminalSnapshot:
        """Return the output that a command has produced so far."""
        return self._terminals[terminal].shown()

    async def wait(self, terminal: str) -> CommandExit:
        """Wait for a command to end, and return its exit status."""
        return await self._terminals[terminal].ended()

    async def kill(self, terminal: str) -> None:
        """End a command."""
        await self._terminals[terminal].running.aclose()

    async def release(self, terminal: str) -> None:
        """End a command and free its terminal."""
        await self._terminals.pop(terminal).running.aclose()

    def _check_room(self) -> None:
        if len(self._terminals) >= MOST_TERMINALS:
            raise _refused(f"there are already {MOST_TERMINALS} terminals; release one first")

    async def _started(self, line: str, cwd: str, place: str | None, limits: OutputLimits) -> RunningCommand:
        # `sh -c 'exec "$@" 2>&1' sh sh -c <line>` merges the streams without changing the approved line.
        argv = [*self._interpreter, _MERGED, self._interpreter[0], *self._interpreter, line]
        try:
            with ExitStack() as held:
                spot = await asyncio.to_thread(held.enter_context, self._workspace.pinned(place).directory(cwd))
                return await RunningCommand.start(
                    argv, directory=spot.directory, environment=self._environment, limits=limits
                )
        except ToolFailed as error:
            raise _refused(str(error)) from error


class _Terminal:
    """A running command, and the task that waits until it ends."""

    def __init__(self, running: RunningCommand, waiting: "asyncio.Task[None]") -> None:
        self.running = running
        self._waiting = waiting

    def shown(self) -> TerminalSnapshot:
        written = self.running.stdout
        is_cut = written.omitted > 0
        data = written.tail
        if is_cut:
            # Drop the rest of a character whose first bytes were cut off.
            data = data.lstrip(bytes(range(0x80, 0xC0)))
        ended = _ended(self.running) if self.running.is_over else None
        return TerminalSnapshot(data.decode("utf-8", "replace"), is_cut, ended)

    async def ended(self) -> CommandExit:
        # Cancelling the wait must not cancel the command.
        await asyncio.wait([self._waiting])
        return _ended(self.running)


async def _cleared(tools: GuardedTools, call: ToolCall, host: Host) -> str | None:
    """Ask for permission if needed. Return the path that the call may access, if any. Raise GatewayError on refusal."""
    cleared = await tools.authorize(call, host)
    if isinstance(cleared, ToolRefusal):
        raise _refused(cleared.for_model)
    return cleared.subject.path


def _call(name: str, /, **arguments: str) -> ToolCall:
    return ToolCall(id="", name=name, arguments=json.dumps(arguments))


def _line(command: TerminalCommand) -> str:
    """Return the command line to show to the user and to run. Without arguments, it is `command.program` itself."""
    line = shlex.join([command.program, *command.arguments]) if command.arguments else command.program
    for name in command.env:
        if not _NAME.fullmatch(name):
            raise _refused(f"`{name[:100]}` is not a valid name of an environment variable")
    if not command.env:
        return line
    return f"export {' '.join(f'{name}={shlex.quote(value)}' for name, value in command.env.items())}; {line}"


async def _watched(running: RunningCommand) -> None:
    """Wait for a command to end. A failure is ignored here, because `_ended` reports it."""
    with suppress(ToolFailed):
        await running.wait()


def _ended(running: RunningCommand) -> CommandExit:
    try:
        outcome = running.outcome()
    except ToolFailed as error:
        raise _refused(str(error)) from error
    if outcome.signal is None:
        return CommandExit(status=outcome.exit_code)
    try:
        return CommandExit(signal=signal.Signals(outcome.signal).name)
    except ValueError:
        return CommandExit(signal=str(outcome.signal))


def _refused(why: str) -> GatewayError:
    return GatewayError("forbidden", why)
