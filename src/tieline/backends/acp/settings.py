"""Settings of the ACP backend, and the services that are passed to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tieline.backends.acp.host_services import HostFiles, HostTerminals
from tieline.backends.acp.rules import ActionRules
from tieline.backends.acp.workplace import ToolServer
from tieline.model.errors import GatewayError
from tieline.net.process.program import StopTimeouts
from tieline.tasks import Tasks
from tieline.wire.acp.client_side import ClientOffer

INPUT = "input"
"""The name of the argument in which agents pass raw text to a tool that does not take JSON arguments."""
MAX_NAME = 100
PATIENCE = StopTimeouts(eof=2, term=2, kill=3)


@dataclass(frozen=True, slots=True)
class AgentHost:
    """The gateway's services for agents in one workspace, whose absolute path is `cwd`."""

    cwd: str
    files: HostFiles | None = None
    terminals: HostTerminals | None = None
    rules: ActionRules | None = None
    """Decides about permission requests before the user is asked."""

    @property
    def offer(self) -> ClientOffer:
        """The client capabilities that the gateway announces to agents."""
        has_files = self.files is not None
        return ClientOffer(read_files=has_files, write_files=has_files, terminals=self.terminals is not None)


FindHost = Callable[[str], AgentHost | None]
"""Returns the services for agents in the workspace with this name; None if there is no such workspace."""


def no_workspaces(_: str) -> AgentHost | None:
    """Return None: there are no named workspaces."""
    return None


@dataclass(frozen=True, slots=True)
class AcpBackendSettings:
    """Settings for all agents. `cwd` is the absolute path of their default folder, `env` their complete environment."""

    cwd: str
    env: Mapping[str, str]
    version: str = "0"
    start_within: float = 60.0
    """Time limit for an agent to initialize the connection, in seconds."""
    open_within: float = 60.0
    """Time limit for an agent to open a session, in seconds."""
    set_within: float = 30.0
    """Time limit for an agent to set a mode, a model or an option, in seconds."""
    stall_after: float = 600.0
    """Seconds without output after which a turn fails.

    Time in which the agent waits for the client, the user, a file or a terminal does not count.
    """
    cancel_within: float = 10.0
    """Time limit for an agent to end a cancelled turn, in seconds. If the agent exceeds it, its process is ended."""
    settle: float = 0.1
    """Seconds to wait between a cancelled turn and the next one. Updates that arrive during this time are dropped."""
    queue_within: float = 600.0
    """Maximum time, in seconds, that a request waits for the current turn of its session to end."""
    park_for: float = 900.0
    """Seconds to wait for the user's answer to a question in the conversation, before the turn is cancelled."""
    idle_after: float = 900.0
    """Seconds without a turn after which an agent process is ended. If possible, its sessions are reopened later."""
    batch_wait: float = 0.3
    """Seconds without output after which a leg with calls to client tools ends. The delay collects parallel calls."""
    processes: int = 8
    """Maximum number of agent processes that run at once."""
    sessions: int = 512
    """Maximum number of sessions that are kept."""
    patience: StopTimeouts = PATIENCE
    files: HostFiles | None = None
    terminals: HostTerminals | None = None
    rules: ActionRules | None = None
    """Decides about permission requests before the user is asked."""
    workspaces: FindHost = no_workspaces
    """Finds the named workspaces. `cwd`, `files`, `terminals` and `rules` are those of the default workspace."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Absolute paths of additional folders that a conversation can select, by name."""
    servers: Mapping[str, ToolServer] = field(default_factory=dict)
    """MCP servers that a conversation can select, by name."""
    offers_tools: bool = True
    """Whether agents may call the clients' tools."""

    def host(self, workspace: str) -> AgentHost:
        """Return the services for agents in a workspace. Raise GatewayError if there is no such workspace."""
        if not workspace:
            return AgentHost(self.cwd, self.files, self.terminals, self.rules)
        found = self.workspaces(workspace)
        if found is None:
            message = f"There is no workspace `{workspace[:MAX_NAME]}`: it was removed, or has not been opened yet."
            raise GatewayError("not_found", message, param="workspace")
        return found


@dataclass(frozen=True, slots=True)
class AcpRuntime:
    """Services that are passed to the backend: id generators for calls and legs, and the background tasks."""

    mint_call: Callable[[], str]
    mint_leg: Callable[[], str]
    tasks: Tasks
