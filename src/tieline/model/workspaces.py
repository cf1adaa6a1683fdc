"""Workspaces: named folders that the gateway serves, and the interface through which other layers use them."""

from collections.abc import Collection, Sequence
from typing import Literal, Protocol

from tieline.model.content import Value
from tieline.model.ports import Files, Toolbox
from tieline.model.rules import Rule

Autonomy = Literal["ask", "edits", "all"]
"""What tools and agents may do without asking.

With `ask`, everything that writes or runs needs permission. With `edits`, files inside the workspace may be edited,
except protected ones. With `all`, everything is allowed.
"""
AUTONOMIES: tuple[Autonomy, ...] = ("ask", "edits", "all")


class WorkspaceInfo(Value, omit_defaults=False):
    """One workspace. The default workspace, which is the gateway's own folder, has an empty name."""

    name: str
    path: str
    title: str
    autonomy: Autonomy
    tools: bool
    """Whether the gateway's own tools can be used in the workspace."""
    source: Literal["default", "configuration", "registered"]


class Rulebook(Protocol):
    """The permanent grants of a workspace."""

    @property
    def workspace(self) -> str: ...

    async def grants(self) -> Sequence[tuple[Rule, str, str]]:
        """Return each grant, its description, and the reason why it no longer applies (empty if it still applies)."""

    async def revoke(self, rule_id: str) -> bool: ...


class Workspaces(Protocol):
    """All workspaces. A method that takes a name raises GatewayError if there is no workspace with this name."""

    @property
    def names(self) -> Collection[str]:
        """A live view of the names of all workspaces."""

    def listed(self) -> Sequence[WorkspaceInfo]: ...

    def info(self, name: str) -> WorkspaceInfo: ...

    async def register(self, path: str, autonomy: Autonomy | None = None) -> WorkspaceInfo:
        """Return the workspace of an existing folder, after registering the folder if it has none.

        If `autonomy` is not None, set the autonomy of the workspace. Raise GatewayError if the path is not that of a
        folder, or if too many folders are registered.
        """

    def change(self, name: str, autonomy: Autonomy) -> WorkspaceInfo: ...

    async def remove(self, name: str) -> None:
        """Remove a workspace, and stop everything that runs in it. Raise GatewayError if it was not registered."""

    async def toolbox(self, name: str) -> Toolbox | None:
        """Return the tools of a workspace; None if it has none."""

    async def rulebook(self, name: str) -> Rulebook | None:
        """Return the permanent grants of a workspace; None if it has no tools."""

    async def files(self, name: str) -> Files | None:
        """Return the files of a workspace that a person can attach to a message; None if it has no tools."""

    async def has_file(self, name: str, path: str) -> bool:
        """Return whether a file is in a workspace. If the workspace has no tools, return True without looking."""
