"""What an agent may have done through us, where a user turns that on: files read and written, commands run.

Both are off unless somebody is given for them. Whoever they are asks the person where something may not be done
without asking, and says no by raising GatewayError or OSError; the agent is told the reason.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from tieline.model.ports import Host


class Command(NamedTuple):
    """A command an agent wants run; `limit` is how many bytes of its output to keep, the last ones."""

    program: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None
    limit: int | None


class Ended(NamedTuple):
    """How a command ended."""

    status: int | None = None
    signal: str | None = None


class Shown(NamedTuple):
    """What a command has written so far; `is_cut` if the beginning is missing."""

    output: str
    is_cut: bool
    ended: Ended | None = None


class Files(Protocol):
    """Where an agent's files are."""

    async def read(self, path: str, line: int | None, limit: int | None, host: Host) -> str:
        """The text of a file, or `limit` lines of it from `line` on, which counts from 1."""

    async def write(self, path: str, content: str, host: Host) -> None: ...


class Terminals(Protocol):
    """Where an agent's commands run; a terminal that is not known raises KeyError."""

    async def create(self, command: Command, host: Host) -> str:
        """Start a command and do not wait for it; the name of its terminal."""

    async def output(self, terminal: str) -> Shown: ...

    async def wait(self, terminal: str) -> Ended: ...

    async def kill(self, terminal: str) -> None:
        """End the command; what it wrote stays."""

    async def release(self, terminal: str) -> None:
        """End the command if it runs, and forget it."""
