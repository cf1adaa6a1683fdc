"""Applies the rules for the gateway's own tools to the actions of coding agents.

An agent states the kind of an action, such as "edit", but does not name one of the gateway's tools. The action is
judged as a call to each of the gateway's tools that could do the same, and the strictest verdict counts. A rule can
allow an action only if its target can be checked: if the agent names no file although the action needs one, or names a
file outside the workspace, the user decides. If a command or file appears only in descriptive text, it can cause the
action to be denied, but not to be allowed.
"""

import asyncio
from collections.abc import Iterator

from tieline.backends.acp.rules import AgentAction, Ruling
from tieline.tools.command_line import command_risk
from tieline.tools.errors import ToolFailed
from tieline.tools.guarded_tools import DecisionListener
from tieline.tools.invisible_text import visible
from tieline.tools.policy import DEFAULTS, Policy, Subject, Verdict
from tieline.tools.protected import protection_warning
from tieline.tools.toolbox import READ_ONLY_TOOLS

MOST_PATHS = 100
"""Maximum number of paths per action that are looked up on the disk. If an action has more, the user decides."""

_WRITING = ("edit_file", "write_file")
_TOOLS = {
    "read": ("read_file",),
    "search": ("search_content",),
    "edit": _WRITING,
    "delete": ("delete", *_WRITING),
    "move": ("move", *_WRITING),
    "execute": ("run_terminal",),
}
"""Maps each kind of action to the tools whose rules apply. For other kinds, only rules that name the kind apply."""
_STRICTNESS = ("allow", "ask", "deny")


class AgentRules:
    """Judges the actions of agents in the workspace `root`.

    `note` is called when an action is allowed or denied without asking the user, unless a default rule decided.
    """

    def __init__(self, policy: Policy, note: DecisionListener, root: str) -> None:
        self._policy = policy
        self._root = root
        self._note = note

    async def judge(self, deed: AgentAction) -> Ruling:
        """Decide whether an action is allowed, is denied, or needs approval, and describe its risk.

        The paths are looked up on the disk in a separate thread.
        """
        subject, verdict, warning = await asyncio.to_thread(self._strictest, deed)
        if verdict.decision != "ask" and verdict.rule not in DEFAULTS:
            self._note(subject, verdict)
        risks = (
            command_risk(command, root=self._root, folder=deed.folder or ".")
            for command in (deed.command, *deed.hinted_commands)
        )
        risk = warning or next(filter(None, risks), "")
        return Ruling(verdict.decision, verdict.reason, visible(risk) if risk else "", bool(warning))

    def _strictest(self, deed: AgentAction) -> tuple[Subject, Verdict, str]:
        """Return the subject with the strictest verdict, and that verdict.

        The third value is a warning if the action may change a protected file; otherwise, it is empty.
        """
        subjects = list(self._subjects(deed))
        judged = [(subject, self._judged(subject, is_known)) for subject, is_known in subjects]
        hinted = ((subject, self._policy.judge(subject)) for subject in self._hinted(deed))
        judged += [(subject, verdict) for subject, verdict in hinted if verdict.decision == "deny"]
        is_writing = any(subject.tool not in READ_ONLY_TOOLS for subject, _ in subjects)
        named = (*deed.paths, *deed.hinted_paths)
        paths = (*(subject.path or "" for subject, _ in subjects), *named) if is_writing else ()
        decisive = max(judged, key=lambda one: _STRICTNESS.index(one[1].decision))
        return (*decisive, next(filter(None, map(protection_warning, paths)), ""))

    def _judged(self, subject: Subject, is_known: bool) -> Verdict:
        verdict = self._policy.judge(subject)
        if verdict.decision == "allow" and verdict.rule is not None and not is_known:
            return Verdict(decision="ask", reason="it is not known to be inside the workspace")
        if verdict.rule in DEFAULTS and subject.tool == "search_content" and self._policy.restricts_paths:
            # The gateway's own search leaves out files that a rule denies; an agent's search does not.
            return Verdict(decision="ask", reason="it may read files that a rule denies")
        return verdict

    def _subjects(self, deed: AgentAction) -> Iterator[tuple[Subject, bool]]:
        """Yield each subject to judge, and whether a rule may allow it. A rule must not allow an unknown target."""
        if deed.command or deed.kind == "execute":
            folder = self._located(deed.folder or ".")
            yield (
                Subject(tool="run_terminal", path=folder, command=deed.command),
                folder is not None and bool(deed.command),
            )
        tools = [tool for tool in _TOOLS.get(deed.kind, (deed.kind,)) if tool != "run_terminal"]
        tools += [tool for tool in _WRITING if deed.is_change and tool not in tools]
        for tool in tools:
            for path in deed.paths if 0 < len(deed.paths) <= MOST_PATHS else ("",):
                found = self._located(path) if path else None
                is_free_of_paths = deed.kind not in _TOOLS and not deed.paths
                yield Subject(tool=tool, path=found), found is not None or is_free_of_paths

    def _hinted(self, deed: AgentAction) -> Iterator[Subject]:
        """Yield the commands and files that appear only in descriptive text. They can only lead to a denial."""
        for command in deed.hinted_commands:
            yield Subject(tool="run_terminal", path=self._located(deed.folder or "."), command=command)
        for path in deed.hinted_paths[:MOST_PATHS]:
            for tool in _TOOLS.get(deed.kind, (deed.kind,)):
                yield Subject(tool=tool, path=self._located(path))

    def _located(self, path: str) -> str | None:
        try:
            return self._policy.locate(path)
        except ToolFailed:
            return None
