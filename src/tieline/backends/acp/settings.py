"""Settings of the ACP backend, and the services that are passed to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tieline.backends.acp.host_services import HostFiles, HostTerminals
from tieline.backends.acp.rules import ActionRules
from tieline.backends.acp.workplace import ToolServer
from tieline.net.process.program import StopTimeouts
from tieline.tasks import Tasks
from tieline.wire.acp.client_side import ClientOffer

INPUT = "input"
"""The name of the argument in which agents pass raw text to a tool that takes no JSON arguments."""
PATIENCE = StopTimeouts(eof=2, term=2, kill=3)


@dataclass(frozen=True, slots=True)
class AcpBackendSettings:
    """Settings for all agents. `cwd` is their default working folder (absolute), `env` their complete environment."""

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
    """Seconds without output after which a turn fails, unless the agent waits for the client or the user."""
    cancel_within: float = 10.0
    """Time limit for an agent to end a cancelled turn, in seconds. An agent that exceeds it is ended."""
    settle: float = 0.1
    """Seconds to wait between a cancelled turn and the next one. Updates that arrive in between are dropped."""
    queue_within: float = 600.0
    """The longest time that a request waits for the current turn of its session to end, in seconds."""
    park_for: float = 900.0
    """Seconds that a question in the conversation waits for the user's next message before the turn is cancelled."""
    idle_after: float = 900.0
    """Seconds without a turn after which an agent process is ended. Its sessions are reopened later, if possible."""
    batch_wait: float = 0.3
    """Seconds of silence after which a leg with calls to the client's tools ends. The delay collects parallel calls."""
    processes: int = 8
    """How many agent processes may run at once."""
    sessions: int = 512
    """How many sessions are kept."""
    patience: StopTimeouts = PATIENCE
    files: HostFiles | None = None
    terminals: HostTerminals | None = None
    rules: ActionRules | None = None
    """Decides about permission requests before the user is asked."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Absolute paths of further folders that a conversation can select, by name."""
    servers: Mapping[str, ToolServer] = field(default_factory=dict)
    """MCP servers that a conversation can select, by name."""
    offers_tools: bool = True
    """Whether agents may call the tools of clients."""

    @property
    def offer(self) -> ClientOffer:
        """The client capabilities that are announced to agents."""
        has_files = self.files is not None
        return ClientOffer(read_files=has_files, write_files=has_files, terminals=self.terminals is not None)


@dataclass(frozen=True, slots=True)
class AcpRuntime:
    """Services that are passed to the backend: generators of call ids and leg ids, and the background tasks."""

    mint_call: Callable[[], str]
    mint_leg: Callable[[], str]
    tasks: Tasks
