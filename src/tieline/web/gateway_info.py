"""What the page knows about the gateway around it; `app` provides it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tieline.model.content import Value
from tieline.model.ports import Files


class BackendState(Value, omit_defaults=False):
    """One backend: whether it is ready, a description or what to do about it, and what is missing."""

    name: str
    ready: bool
    text: str
    lack: str = ""


class AgentState(Value, omit_defaults=False):
    """One coding agent: the commands that install it and log in to it."""

    id: str
    title: str
    ready: bool
    install: str = ""
    login: str = ""


class LoginState(Value, omit_defaults=False):
    """The state of an account."""

    state: Literal["none", "waiting", "logged_in", "simulated", "off"]
    text: str = ""
    trouble: str = ""
    """Why the last login failed."""
    is_offered: bool = True
    """Whether the page offers to log in."""
    url: str = ""
    """While waiting for a login: the address to open in a browser."""
    until: float | None = None
    """While waiting for a login: when it expires, in seconds since 1970."""


class AccountLogin(Protocol):
    """An account that the user can log in to from the page."""

    def state(self) -> LoginState: ...

    async def begin(self) -> str:
        """Begin a login and return the address to open in a browser. The result is announced as a change of state."""

    async def cancel(self) -> None:
        """Cancel the login in progress."""


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """The gateway, as far as the page needs to know it."""

    version: str
    backends: Callable[[], Sequence[BackendState]] = tuple
    agents: Callable[[], Sequence[AgentState]] = tuple
    is_agent: Callable[[str], bool] = lambda _: False
    """Whether the models of a backend are agents with their own tools."""
    modes: Callable[[str], tuple[str, ...]] = lambda _: ()
    """The modes of a model, by its full name."""
    ideas: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Suggestions for a first message to a model, by its full name."""
    default_model: str | None = None
    has_tools: bool = False
    workspace: str | None = None
    yolo: bool = False
    """Whether tools and agents do everything without asking (--yolo)."""
    files: Files | None = None
    login: AccountLogin | None = None
