"""Rules, file access and terminals for coding agents in a named workspace.

The tools of a workspace are built when an agent first needs them, so a workspace without agents costs nothing.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from tieline.app.agent_rules import AgentRules
from tieline.app.local_host import AgentFiles, AgentTerminals
from tieline.backends.acp.host_services import CommandExit, TerminalCommand, TerminalSnapshot
from tieline.backends.acp.rules import NO_RULING, AgentAction, Ruling
from tieline.model.errors import GatewayError
from tieline.model.ports import Host
from tieline.tasks import Tasks
from tieline.tools.guarded_tools import DecisionListener, GuardedTools

OpenTools = Callable[[], Awaitable[GuardedTools | None]]
"""Returns the tools of the workspace, which the first call builds; None if this system cannot confine tools."""


class WorkspaceRules:
    """Judges the actions of agents by the rules of a workspace."""

    def __init__(self, open_tools: OpenTools, note: DecisionListener) -> None:
        self._open_tools = open_tools
        self._note = note
        self._rules: AgentRules | None = None

    async def judge(self, deed: AgentAction) -> Ruling:
        """Judge an action. Without tools, the user decides."""
        if self._rules is None:
            tools = await self._open_tools()
            if tools is None:
                return NO_RULING
            self._rules = AgentRules(tools.policy, self._note, tools.workspace)
        return await self._rules.judge(deed)


class WorkspaceAgentFiles:
    """Reads and writes the files of a workspace for agents."""

    def __init__(self, open_tools: OpenTools) -> None:
        self._open_tools = open_tools
        self._files: AgentFiles | None = None

    async def read(self, path: str, line: int | None, limit: int | None, host: Host) -> str:
        """Return the text of a file, or only some of its lines."""
        return await (await self._opened()).read(path, line, limit, host)

    async def write(self, path: str, content: str, host: Host) -> None:
        """Create or replace a file."""
        await (await self._opened()).write(path, content, host)

    async def _opened(self) -> AgentFiles:
        if self._files is None:
            self._files = AgentFiles(_checked(await self._open_tools()))
        return self._files


class WorkspaceTerminals:
    """Runs commands for agents in a workspace."""

    def __init__(
        self, open_tools: OpenTools, tasks: Tasks, *, environment: Mapping[str, str], interpreter: Sequence[str]
    ) -> None:
        self._open_tools = open_tools
        self._tasks = tasks
        self._environment = environment
        self._interpreter = interpreter
        self._terminals: AgentTerminals | None = None

    async def create(self, command: TerminalCommand, host: Host) -> str:
        """Start a command, if it is allowed, and return the id of its terminal."""
        if self._terminals is None:
            self._terminals = AgentTerminals(
                _checked(await self._open_tools()),
                self._tasks,
                environment=self._environment,
                interpreter=self._interpreter,
            )
        return await self._terminals.create(command, host)

    async def output(self, terminal: str) -> TerminalSnapshot:
        """Return the output that a command has produced so far."""
        return await self._known(terminal).output(terminal)

    async def wait(self, terminal: str) -> CommandExit:
        """Wait for a command to end, and return its exit status."""
        return await self._known(terminal).wait(terminal)

    async def kill(self, terminal: str) -> None:
        """End a command."""
        await self._known(terminal).kill(terminal)

    async def release(self, terminal: str) -> None:
        """End a command and free its terminal."""
        await self._known(terminal).release(terminal)

    def _known(self, terminal: str) -> AgentTerminals:
        if self._terminals is None:
            raise KeyError(terminal)
        return self._terminals


def _checked(tools: GuardedTools | None) -> GuardedTools:
    if tools is None:
        raise GatewayError("forbidden", "this system cannot confine files and terminals to a folder")
    return tools
