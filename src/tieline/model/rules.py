"""Permission rules, which say whether a tool call is allowed, needs approval, or is denied."""

import hashlib
from typing import Literal

import msgspec

from tieline.model.content import Value

Decision = Literal["allow", "ask", "deny"]


class Rule(Value, forbid_unknown_fields=True):
    """A decision for the tool calls that match `tool`, `path` and `command`; an omitted field matches every call.

    `tool` may contain `*`. `path` is a glob pattern (see `tools/globs.py`). `command` holds the first words of the
    command or, if `exact` is set, the complete command.
    """

    decision: Decision
    tool: str = "*"
    path: str | None = None
    command: str | None = None
    exact: bool = False

    @property
    def id(self) -> str:
        """A short id derived from the content of the rule."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:8]

    def __str__(self) -> str:
        words = [self.decision, "any tool" if self.tool == "*" else self.tool]
        if self.path is not None:
            words.append(f"in {self.path}")
        if self.command is not None:
            words.append(f"for exactly `{self.command}`" if self.exact else f"for `{self.command} …`")
        return " ".join(words)
