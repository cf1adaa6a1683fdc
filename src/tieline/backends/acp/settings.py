"""How agents are run, and how long anybody is waited for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tieline.backends.acp.host_services import Files, Terminals
from tieline.backends.acp.rules import Rules
from tieline.backends.acp.workplace import ToolServer
from tieline.net.process.program import StopTimeouts
from tieline.tasks import Tasks
from tieline.wire.acp.client_side import Offer

INPUT = "input"
"""The one argument of a tool that takes raw text."""
PATIENCE = StopTimeouts(eof=2, term=2, kill=3)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a user can set. `cwd` is the folder agents work in, absolute; `env` is all the environment they get."""

    cwd: str
    env: Mapping[str, str]
    version: str = "0"
    start_within: float = 60.0
    """Seconds an agent has to introduce itself."""
    open_within: float = 60.0
    """Seconds it has to open a session."""
    set_within: float = 30.0
    """Seconds it has to set a mode, a model or an option."""
    stall_after: float = 600.0
    """A turn in which nothing is told for so long, while nobody is waited for, has failed."""
    cancel_within: float = 10.0
    """Seconds a cancelled turn has to end; then the agent is ended."""
    settle: float = 0.1
    """Seconds a session is left alone after a cancelled turn: late words must not land in the next one."""
    queue_within: float = 600.0
    """Seconds a request waits for its session's turn under way."""
    park_for: float = 900.0
    """Seconds a question that ended a turn as text waits for the next message."""
    idle_after: float = 900.0
    """An agent without a turn for so long is ended; its sessions are taken up again where it can do that."""
    batch_wait: float = 0.3
    """Quiet seconds after a call of a client's tool: calls made together are handed over together."""
    processes: int = 8
    """How many agents run at once."""
    sessions: int = 512
    """How many conversations are remembered."""
    patience: StopTimeouts = PATIENCE
    files: Files | None = None
    terminals: Terminals | None = None
    rules: Rules | None = None
    """Who decides about permissions before a person is asked."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Other folders that a conversation can select, by name; absolute."""
    servers: Mapping[str, ToolServer] = field(default_factory=dict)
    """MCP servers that a conversation can select, by name."""
    offers_tools: bool = True
    """Whether agents may call the tools of clients."""

    @property
    def offer(self) -> Offer:
        """What agents are told we can do for them."""
        has_files = self.files is not None
        return Offer(read_files=has_files, write_files=has_files, terminals=self.terminals is not None)


@dataclass(frozen=True, slots=True)
class Kit:
    """What everything here needs that is not to be made up on the spot."""

    mint_call: Callable[[], str]
    mint_leg: Callable[[], str]
    tasks: Tasks
