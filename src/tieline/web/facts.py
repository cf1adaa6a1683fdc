"""What the page is told of the program around it; whoever puts the program together knows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tieline.model.content import Value
from tieline.model.ports import Files


class BackendState(Value, omit_defaults=False):
    """One backend: whether it is ready, what it is or what to do about it, and what it is not ready for want of."""

    name: str
    ready: bool
    text: str
    lack: str = ""


class AgentState(Value, omit_defaults=False):
    """One agent: the line that installs it, and what to run when it wants a login."""

    id: str
    title: str
    ready: bool
    install: str = ""
    login: str = ""


class LoginState(Value, omit_defaults=False):
    """How an account stands."""

    state: Literal["none", "waiting", "logged_in", "simulated", "off"]
    text: str = ""
    trouble: str = ""
    """Why the last login was not made."""
    is_offered: bool = True
    """Whether a login would change anything."""
    url: str = ""
    """While one is waited for: the address to open in a browser."""
    until: float | None = None
    """While one is waited for: when that ends, in seconds since 1970."""


class Login(Protocol):
    """An account that a person can log in to from the page."""

    def state(self) -> LoginState: ...

    async def begin(self) -> str:
        """Begin a login: the address to open in a browser. What comes of it is told as news of the state."""

    async def cancel(self) -> None:
        """Give up a login that was begun."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The program around the page."""

    version: str
    backends: Callable[[], Sequence[BackendState]] = tuple
    agents: Callable[[], Sequence[AgentState]] = tuple
    is_agent: Callable[[str], bool] = lambda _: False
    """Whether the models of a backend use tools of their own."""
    modes: Callable[[str], tuple[str, ...]] = lambda _: ()
    """How a model can work, by its full name."""
    ideas: Callable[[str], tuple[str, ...]] = lambda _: ()
    """What a model could be asked first, by its full name."""
    default_model: str | None = None
    has_tools: bool = False
    workspace: str | None = None
    yolo: bool = False
    """Whether tools and agents do everything without asking."""
    files: Files | None = None
    login: Login | None = None
