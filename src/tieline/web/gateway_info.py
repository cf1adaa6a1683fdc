"""Information about the gateway that the web page shows or uses. The package `app` provides it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from tieline.model.content import Value
from tieline.model.workspaces import Workspaces
from tieline.web.keys_api import KeyAdmin, UsageReader
from tieline.web.setup_info import AgentInstaller, UpstreamSetup


class BackendState(Value, omit_defaults=False):
    """One backend: whether it is ready, and a description or instructions for the user (`text`).

    If it is not ready, `lack` says what is missing, for example "no key".
    """

    name: str
    ready: bool
    text: str
    lack: str = ""
    source: str = ""
    """Where an upstream comes from: `configuration` (a file or the environment), `page` or `built-in`."""


class AgentState(Value, omit_defaults=False):
    """One coding agent: whether it is installed, how to install it, and the command to log in."""

    id: str
    title: str
    ready: bool
    install: str = ""
    login: str = ""
    command: str = ""
    """The command that installs the agent, if the page can run it; otherwise empty."""


class LoginState(Value, omit_defaults=False):
    """The state of an account that the user can log in to."""

    state: Literal["none", "waiting", "logged_in", "simulated", "off"]
    text: str = ""
    trouble: str = ""
    """The reason why the last login attempt failed; empty if it did not fail."""
    is_offered: bool = True
    """Whether the page offers to log in."""
    url: str = ""
    """The URL to open in a browser, while a login is in progress."""
    until: float | None = None
    """The time at which the login in progress expires, in seconds since 1970."""


class AccountLogin(Protocol):
    """An account that the user can log in to from the page."""

    def state(self) -> LoginState: ...

    async def begin(self) -> str:
        """Begin a login and return the URL to open in a browser. The state of the account later shows the outcome."""

    async def cancel(self) -> None:
        """Cancel the login in progress."""


class Example(Value, omit_defaults=False):
    """An example conversation that the page starts with one click, in a folder with sample files."""

    id: str
    title: str
    about: str
    """What the example shows, in one sentence."""
    text: str
    """The message to send."""
    model: str
    mode: str | None = None


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """Information about the gateway for the web page. Values that can change are returned by functions."""

    version: str
    backends: Callable[[], Sequence[BackendState]] = tuple
    agents: Callable[[], Sequence[AgentState]] = tuple
    is_agent: Callable[[str], bool] = lambda _: False
    """Returns whether the models of a backend are agents with their own tools. The argument is the backend's name."""
    modes: Callable[[str, bool], tuple[str, ...]] = lambda _, __: ()
    """Returns the modes that a model offers, such as `plan`.

    The arguments are its full name, and whether there are tools in the workspace.
    """
    ideas: Callable[[str, bool], tuple[str, ...]] = lambda _, __: ()
    """Returns suggestions for a first message to a model. The arguments are the same as for `modes`."""
    default_model: str | None = None
    workspaces: Workspaces | None = None
    login: AccountLogin | None = None
    examples: Sequence[Example] = ()
    """Example conversations with the demo model; empty if there is no demo model."""
    example_folder: str | None = None
    """The folder with the sample files of the examples."""
    upstreams: UpstreamSetup | None = None
    """Adds upstreams; None if the page may not change the set-up of the gateway."""
    keys: KeyAdmin | None = None
    """Manages the stored keys; None if the gateway has no key of its own."""
    usage: UsageReader | None = None
    """Reports usage; None if it is not recorded."""
    installer: AgentInstaller | None = None
    """Installs coding agents; None if the page may not change the set-up of the gateway."""
