"""The status of a backend, or of the gateway's tools, as shown to the user."""

from dataclasses import dataclass
from typing import Literal

TOOLS = "tools"
"""The name of the status of the gateway's own tools, the only status that does not belong to a backend."""


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """Whether a backend can be used, and what is missing if it cannot."""

    name: str
    is_ready: bool
    text: str
    missing: str = "no key"
    """The label if the backend is not ready. It names what is missing."""
    label_if_ready: str = "ready"
    """The label if the backend is ready. For upstreams, it is "configured", because they have not been contacted."""
    source: Literal["built-in", "configuration", "page"] = "built-in"
    """Where an upstream comes from: the configuration (a file or the environment), or the page."""

    @property
    def label(self) -> str:
        """The status in one or two words."""
        return self.label_if_ready if self.is_ready else self.missing
