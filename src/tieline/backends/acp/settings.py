"""Settings of the agent backend, and its runtime services."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tieline.backends.acp.host_services import HostFiles, HostTerminals
from tieline.backends.acp.rules import ActionRules
from tieline.backends.acp.workplace import ToolServer
from tieline.net.process.program import StopTimeouts
from tieline.tasks import Tasks
from tieline.wire.acp.client_side import ClientOffer

INPUT = "input"
"""The argument of a tool that takes raw text."""
PATIENCE = StopTimeouts(eof=2, term=2, kill=3)


@dataclass(frozen=True, slots=True)
class AcpBackendSettings:
    """Settings for all agents. `cwd` is their absolute working folder, `env` their complete environment."""

    cwd: str
    env: Mapping[str, str]
    version: str = "0"
    start_within: float = 60.0
    """Seconds an agent has to initialize the connection."""
    open_within: float = 60.0
    """Seconds it has to open a session."""
    set_within: float = 30.0
    """Seconds it has to set a mode, a model or an option."""
    stall_after: float = 600.0
    """Seconds without output after which a turn fails, unless the agent waits for the client or the user."""
    cancel_within: float = 10.0
    """Seconds a cancelled turn has to end before the agent is ended."""
    settle: float = 0.1
    """Seconds between a cancelled turn and the next one, so that late updates are dropped."""
    queue_within: float = 600.0
    """Seconds a request waits for the current turn of its session."""
    park_for: float = 900.0
    """Seconds a question that was asked as text waits for the next message."""
    idle_after: float = 900.0
    """Seconds without a turn after which an agent process is ended. Its sessions are reopened if possible."""
    batch_wait: float = 0.3
    """Seconds without output after a call of a client's tool before the leg ends, to collect parallel calls."""
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
    """Other absolute folders that a conversation can select, by name."""
    servers: Mapping[str, ToolServer] = field(default_factory=dict)
    """MCP servers that a conversation can select, by name."""
    offers_tools: bool = True
    """Whether agents may call the tools of clients."""

    @property
    def offer(self) -> ClientOffer:
        """The capabilities that are offered to agents."""
        has_files = self.files is not None
        return ClientOffer(read_files=has_files, write_files=has_files, terminals=self.terminals is not None)


@dataclass(frozen=True, slots=True)
class AcpRuntime:
    """Services that are injected: id generators and background tasks."""

    mint_call: Callable[[], str]
    mint_leg: Callable[[], str]
    tasks: Tasks
