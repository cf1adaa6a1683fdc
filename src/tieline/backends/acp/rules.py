"""Interface for rules that decide about permission requests before the user is asked.

An agent runs with rights of its own and asks of its own accord, so the rules see only what the agent says it will do,
like the user. If they do not decide, the user is asked. Some agents put a command only into the title (Gemini) or the
content (Kimi) of a call. Such a hint can deny a call but never allow it; only structured input can.
"""

from typing import Literal, NamedTuple, Protocol

PATH_FIELDS = ("file_path", "filePath", "path", "abs_path", "file")


class AgentAction(NamedTuple):
    """What an agent wants to do: the kind of the call in the protocol, the files, the command and its folder."""

    kind: str
    paths: tuple[str, ...] = ()
    command: str = ""
    folder: str = ""
    is_change: bool = False
    """Whether it contains a change of these files."""
    hinted_commands: tuple[str, ...] = ()
    """Texts that may contain the command if `command` is empty. They can only deny."""
    hinted_paths: tuple[str, ...] = ()
    """Files that are named outside of structured input. They can only deny."""


class Ruling(NamedTuple):
    """The decision of the rules, and the reason."""

    decision: Literal["allow", "ask", "deny"]
    reason: str = ""
    risk: str = ""
    """The risk of the action, in one sentence for the user."""
    is_protected: bool = False
    """Whether it concerns a protected file, for which no lasting permission may be given."""


NO_RULING = Ruling("ask")
"""No rule applies."""


class ActionRules(Protocol):
    """Decides what is allowed without asking and what is denied."""

    async def judge(self, action: AgentAction) -> Ruling: ...
