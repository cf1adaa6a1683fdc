"""Interfaces for files and terminals that the gateway offers to agents.

Disabled unless an implementation is passed. An implementation asks the user where the rules require it, and refuses by
raising GatewayError or OSError; the agent receives the reason.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tieline.model.ports import Host


class TerminalCommand(NamedTuple):
    """A command to run. `limit` is how many bytes of its output to keep, the last ones."""

    program: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    limit: int | None


class CommandExit(NamedTuple):
    """How a command ended."""

    status: int | None = None
    signal: str | None = None


class TerminalSnapshot(NamedTuple):
    """The output of a command so far. `is_cut` tells whether the beginning is missing."""

    output: str
    is_cut: bool
    ended: CommandExit | None = None


class HostFiles(Protocol):
    """File access for agents."""

    async def read(self, path: str, line: int | None, limit: int | None, host: Host) -> str:
        """Return the text of a file, or `limit` lines beginning with `line`, which counts from 1."""

    async def write(self, path: str, content: str, host: Host) -> None: ...


class HostTerminals(Protocol):
    """Runs commands for agents. An unknown terminal raises KeyError."""

    async def create(self, command: TerminalCommand, host: Host) -> str:
        """Start a command without waiting for it, and return the name of its terminal."""

    async def output(self, terminal: str) -> TerminalSnapshot: ...

    async def wait(self, terminal: str) -> CommandExit: ...

    async def kill(self, terminal: str) -> None:
        """End the command and keep its output."""

    async def release(self, terminal: str) -> None:
        """End the command if it runs, and drop its output."""
