"""Interface for rules that decide about permission requests before the user is asked.

An agent runs with the rights of its process and decides itself when to request permission. So the rules, like the user,
see only the agent's own description of an action. If no rule applies, the user is asked. Some agents put a command only
in the title (Gemini) or the content (Kimi) of a call. The rules may deny a call because of such a hint, but they allow
a call only on the basis of its structured data.
"""

from typing import Literal, NamedTuple, Protocol

PATH_FIELDS = ("file_path", "filePath", "path", "abs_path", "file")


class AgentAction(NamedTuple):
    """An action for which an agent requests permission.

    `kind` is the ACP kind of the tool call. `folder` is the folder in which `command` runs.
    """

    kind: str
    paths: tuple[str, ...] = ()
    command: str = ""
    folder: str = ""
    is_change: bool = False
    """Whether the call contains changes to the files at `paths`."""
    hinted_commands: tuple[str, ...] = ()
    """Texts that may contain the command if `command` is empty. They can lead to a denial, never to an approval."""
    hinted_paths: tuple[str, ...] = ()
    """Files that are named only in the text of the call. They can lead to a denial, never to an approval."""


class Ruling(NamedTuple):
    """The rules' decision about an action, and the reason for it."""

    decision: Literal["allow", "ask", "deny"]
    reason: str = ""
    risk: str = ""
    """The risk of the action, in one sentence for the user."""
    is_protected: bool = False
    """Whether the action may change a protected file. The user cannot allow such an action permanently."""


NO_RULING = Ruling("ask")
"""The ruling if no rule applies: ask the user."""


class ActionRules(Protocol):
    """Rules that allow or deny agents' actions without asking the user."""

    async def judge(self, action: AgentAction) -> Ruling: ...
