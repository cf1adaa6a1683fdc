"""Permission rules as values: which calls are allowed, asked about or denied."""

import hashlib
from typing import Literal

import msgspec

from tieline.model.content import Value

Decision = Literal["allow", "ask", "deny"]


class Rule(Value, forbid_unknown_fields=True):
    """What to decide when tool, path and command fit; what is not said fits everything.

    `tool` may have stars. `path` is a pattern (see `globs`). `command` is a prefix of whole words, or with `exact` the
    whole text and nothing else.
    """

    decision: Decision
    tool: str = "*"
    path: str | None = None
    command: str | None = None
    exact: bool = False

    @property
    def id(self) -> str:
        """A short name that stays the same as long as the rule does."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]

    def __str__(self) -> str:
        said = [self.decision, "any tool" if self.tool == "*" else self.tool]
        if self.path is not None:
            said.append(f"in {self.path}")
        if self.command is not None:
            said.append(f"for exactly `{self.command}`" if self.exact else f"for `{self.command} …`")
        return " ".join(said)
