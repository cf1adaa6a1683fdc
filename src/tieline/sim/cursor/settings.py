"""The settings of the simulator: timeouts, models, tools, transports and authentication."""

from typing import Literal

from tieline.model.content import Value
from tieline.sim.cursor.steps import Style


class Parameter(Value):
    """A parameter of a model and its possible values."""

    id: str
    values: tuple[str, ...]


class SimModel(Value):
    """A model of the simulated service."""

    id: str
    title: str
    aliases: tuple[str, ...] = ()
    thinks: bool = False
    context: int = 200_000
    parameters: tuple[Parameter, ...] = ()


_THINKING = Parameter(id="thinking", values=("false", "true"))
_EFFORT = Parameter(id="effort", values=("low", "medium", "high"))
_CONTEXT = Parameter(id="context", values=("300k", "1m"))

MODELS = (
    SimModel(id="demo", title="Demo", aliases=("demo-1",), parameters=(_THINKING, _EFFORT)),
    SimModel(id="default", title="Auto"),
    SimModel(id="demo-thinking", title="Demo Thinking", thinks=True, parameters=(_EFFORT,)),
    SimModel(id="demo-large", title="Demo Large 1M", context=1_000_000, parameters=(_THINKING, _CONTEXT)),
    SimModel(id="demo-fast", title="Demo Fast", context=64_000),
)


class SimSettings(Value):
    """The settings of the simulator. The defaults suit manual tests of a client."""

    heartbeat: float = 3.0
    """Seconds between heartbeats while the server waits."""
    patience: float = 3600.0
    """Seconds to wait for an answer from the client. The client may park the run and answer much later."""
    context_patience: float = 5.0
    """Seconds to wait for the request context. Some clients never send it; the run then continues without it."""
    pace: float = 0.0
    """Seconds to pause between small batches of deltas from the demo model."""
    style: Style = Style()

    models: tuple[SimModel, ...] = MODELS
    strict_tools: bool = True
    """Whether to refuse a run if the real service would not accept the tools that the client offers."""
    native: bool | None = None
    """Whether the demo model has Cursor's built-in tools for files, search and shell.

    If None, it has them with clients that identify as Cursor's own (`x-cursor-client-type` is `sdk` or `ide`).
    """

    http1: bool = True
    """Whether runs over HTTP/1.1 are accepted. If not, they are refused with status 464, as by the real service."""
    http2_config: Literal[0, 1, 2, 3, 4] = 0
    """The HTTP/2 setting sent to clients: 1 and 3 forbid HTTP/2, 2 and 4 require it, 0 does neither."""
    agent_url: str = ""
    """The URL for runs, sent to clients in the server configuration. If empty, clients send runs to this server."""
    privacy_mode: int = 0

    auth: bool = False
    """Whether tokens and keys are checked."""
    keys: tuple[str, ...] = ()
    """The valid API keys; if empty, any key is valid."""
    token_lifetime: float = 24 * 3600.0
    unauthenticated: Literal["status", "frame"] = "status"
    """How a run with an invalid token is refused: with HTTP status 401 (`status`), or in the end frame (`frame`)."""
    login_polls: int | None = 1
    """Number of polls after which a login is granted. If None, it is granted only after its link has been opened."""
