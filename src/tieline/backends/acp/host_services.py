"""Interfaces for the file access and the terminals that the gateway offers to agents.

Each service is disabled unless an implementation of it is passed to the backend. An implementation asks the user if the
rules require it. It refuses a request by raising GatewayError or OSError. The agent then receives the error message.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tieline.model.ports import Host


class TerminalCommand(NamedTuple):
    """A command to run in a terminal. Only the last `limit` bytes of its output are kept.

    If `limit` or `cwd` is None, the implementation uses a default.
    """

    program: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    limit: int | None


class CommandExit(NamedTuple):
    """How a command ended: its exit status, or the name of the signal that ended it."""

    status: int | None = None
    signal: str | None = None


class TerminalSnapshot(NamedTuple):
    """The current output of a command. `is_cut` says whether its beginning was dropped.

    `ended` is None while the command is running.
    """

    output: str
    is_cut: bool
    ended: CommandExit | None = None


class HostFiles(Protocol):
    """File access for agents."""

    async def read(self, path: str, line: int | None, limit: int | None, host: Host) -> str:
        """Return the text of a file, or only `limit` lines starting at line `line`, counted from 1."""

    async def write(self, path: str, content: str, host: Host) -> None: ...


class HostTerminals(Protocol):
    """Runs commands for agents. Methods with the argument `terminal` raise KeyError if there is no such terminal."""

    async def create(self, command: TerminalCommand, host: Host) -> str:
        """Start a command without waiting for it, and return the name of its terminal."""

    async def output(self, terminal: str) -> TerminalSnapshot: ...

    async def wait(self, terminal: str) -> CommandExit: ...

    async def kill(self, terminal: str) -> None:
        """End the command and keep its output."""

    async def release(self, terminal: str) -> None:
        """End the command if it is still running, and drop its output."""
