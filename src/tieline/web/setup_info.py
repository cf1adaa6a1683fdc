"""Interfaces for setting up the gateway from the web page: adding upstreams and installing coding agents.

The package `app` implements them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from tieline.model.content import Value

Kind = Literal["anthropic", "openai"]
StepName = Literal["reach", "key", "models", "tools"]
StepState = Literal["ok", "warning", "failed"]


class ProviderPreset(Value, omit_defaults=False):
    """A provider whose settings the page fills in. `base_url` is empty if the user has to enter it."""

    id: str
    title: str
    kind: Kind
    base_url: str = ""
    name: str | None = None
    """The suggested name of the upstream; None means the id."""
    key: Literal["required", "optional"] = "required"
    key_page: str = ""
    """The page where the user can create a key, if known."""
    api: Literal["chat", "responses", "auto"] | None = None
    dialect: Mapping[str, Any] = {}


class NewUpstream(Value):
    """An upstream as the user entered it. The fields are not checked yet."""

    provider: str
    name: str = ""
    base_url: str = ""
    key: str = ""
    models: tuple[str, ...] = ()


class AddedState(Value, omit_defaults=False):
    """An upstream that was added on the page. The page receives whether it has a key, but never the key itself."""

    name: str
    kind: Kind
    base_url: str
    models: tuple[str, ...]
    has_key: bool
    ready: bool
    note: str = ""
    """Why the upstream is not used, or a warning about it."""


class TestStep(Value, omit_defaults=False):
    """One step of an upstream test, with its outcome as text."""

    id: StepName
    state: StepState
    text: str


class UpstreamTest(Value, omit_defaults=False):
    """The outcome of an upstream test. The upstream is usable if no step failed."""

    steps: tuple[TestStep, ...]
    models: tuple[str, ...] = ()
    model: str = ""
    """The model that was called, if any."""
    is_usable: bool = False


class UpstreamSetup(Protocol):
    """Adds, tests and removes upstreams while the gateway runs. All methods raise GatewayError if they fail."""

    def presets(self) -> Sequence[ProviderPreset]: ...

    def added(self) -> Sequence[AddedState]:
        """Return the upstreams that were added on the page."""

    async def test(self, new: NewUpstream, model: str = "") -> UpstreamTest:
        """Test an upstream that has not been added. `model` is the model to call; if empty, one is chosen."""

    async def test_added(self, name: str, model: str = "") -> UpstreamTest:
        """Test an upstream that has been added, with its stored key."""

    async def add(self, new: NewUpstream) -> None:
        """Add an upstream and store it with its key. It can be used at once."""

    async def replace_key(self, name: str, key: str) -> None:
        """Replace the stored key of an upstream."""

    async def remove(self, name: str) -> None:
        """Remove an upstream and its stored key. Requests in progress are completed."""


class InstallState(Value, omit_defaults=False):
    """The latest installation of a coding agent."""

    agent: str = ""
    state: Literal["none", "running", "done", "failed"] = "none"
    command: str = ""
    output: str = ""
    """The last lines of the command's output."""
    text: str = ""
    """The outcome, for the user."""


class AgentInstaller(Protocol):
    """Installs coding agents, one at a time."""

    def state(self) -> InstallState: ...

    async def start(self, agent: str, command: str) -> None:
        """Run the command that installs an agent. `command` is the command that the user confirmed.

        Raise GatewayError if `command` is not the one that installs this agent, or if another installation is running.
        """

    async def cancel(self) -> None:
        """Stop the running installation."""
