"""What can be set about the simulator: how patient it is, what it offers, whom it lets in."""

from typing import Literal

from tieline.model.content import Value
from tieline.sim.cursor.steps import Style


class Parameter(Value):
    """Something about a model that can be chosen, and the choices."""

    id: str
    values: tuple[str, ...]


class Model(Value):
    """A model that is listed."""

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
    Model(id="demo", title="Demo", aliases=("demo-1",), parameters=(_THINKING, _EFFORT)),
    Model(id="default", title="Auto"),
    Model(id="demo-thinking", title="Demo Thinking", thinks=True, parameters=(_EFFORT,)),
    Model(id="demo-large", title="Demo Large 1M", context=1_000_000, parameters=(_THINKING, _CONTEXT)),
    Model(id="demo-fast", title="Demo Fast", context=64_000),
)


class Settings(Value):
    """The defaults suit somebody who wants to try a client; tests set what they are about."""

    heartbeat: float = 3.0
    """Seconds between heartbeats while the server waits."""
    patience: float = 3600.0
    """How long the server waits for an answer of the client: a parked run may be answered much later."""
    context_patience: float = 5.0
    """The same for the request context, which some clients never send: the run goes on without it."""
    pace: float = 0.0
    """Silence between small batches of the demo's words, in seconds."""
    style: Style = Style()

    models: tuple[Model, ...] = MODELS
    strict_tools: bool = True
    """Whether tools that the service is known to refuse are refused here too."""
    native: bool | None = None
    """Whether the demo model has the tools that Cursor's clients run without offering them: files, search and shell.

    None: if the client says that it is one of those (`x-cursor-client-type` is `sdk` or `ide`).
    """

    http1: bool = True
    """Whether HTTP/1.1 may carry runs; if not it is refused with status 464, as the service's own front does."""
    http2_config: Literal[0, 1, 2, 3, 4] = 0
    """What the server's configuration says of HTTP/2: 1 and 3 forbid it, 2 and 4 demand it."""
    agent_url: str = ""
    """Where the configuration sends runs; nothing means here."""
    privacy_mode: int = 0

    auth: bool = False
    """Whether tokens and keys are looked at."""
    keys: tuple[str, ...] = ()
    """The API keys that are good when they are looked at; with none of them any key is."""
    token_lifetime: float = 24 * 3600.0
    unauthenticated: Literal["status", "frame"] = "status"
    """How a run with a bad token is refused: by status 401, or in the end frame."""
    login_polls: int | None = 1
    """How often a login is pending before it is granted unasked; None waits until its link was opened."""
