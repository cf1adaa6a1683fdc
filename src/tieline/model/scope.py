"""To whom and where something belongs (`Place`), and what a reader may see (`Scope`).

A *workspace* is a named folder. The default workspace, which is the gateway's own folder, has the empty name. An
*owner* is the name of a client's key; it is empty for the gateway's own keys and for a gateway without keys.
"""

from typing import NamedTuple


class Place(NamedTuple):
    """The owner and the workspace of a leg, a session or an inbox item."""

    owner: str = ""
    workspace: str = ""


NOWHERE = Place()
"""The place of something that belongs to no named key and is in the default workspace."""


class Scope(NamedTuple):
    """The owner and the workspace whose legs, sessions and inbox items a reader may see; None means all."""

    owner: str | None = None
    workspace: str | None = None

    def covers(self, owner: str, workspace: str) -> bool:
        """Return whether a reader with this scope may see the items of this owner and workspace."""
        return self.owner in (None, owner) and self.workspace in (None, workspace)


EVERYTHING = Scope()
"""The scope that covers every place."""
