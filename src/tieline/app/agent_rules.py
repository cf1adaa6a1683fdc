"""The rules of the gateway's own tools, applied to what coding agents ask for.

An agent names kinds of doing, not our tools; each kind counts as the tools that do the same, and where several count
the strictest rule decides. Nothing is allowed by a rule that cannot be checked: a file that is not named, or one
outside the workspace, is for the user to judge. A command or file that an agent names only in words can be denied, but
not allowed.
"""

import asyncio
from collections.abc import Iterator

from tieline.backends.acp.rules import AgentAction, Ruling
from tieline.tools.errors import ToolFailed
from tieline.tools.guarded_tools import Note
from tieline.tools.invisible_text import visible
from tieline.tools.policy import DEFAULTS, Policy, Subject, Verdict
from tieline.tools.protected import warning
from tieline.tools.risk import command_risk
from tieline.tools.toolbox import READING

MOST_PATHS = 100
"""Of a deed about more files than this nobody looks up where they lead: a person is asked."""

_WRITING = ("edit_file", "write_file")
_TOOLS = {
    "read": ("read_file",),
    "search": ("search_content",),
    "edit": _WRITING,
    "delete": ("delete", *_WRITING),
    "move": ("move", *_WRITING),
    "execute": ("run_terminal",),
}
"""Kinds that are none of these count as a tool of their own name, which only a rule about it can allow."""
_STRICTNESS = ("allow", "ask", "deny")


class AgentRules:
    """What a policy says of agents in the workspace `root`; `note` hears of what was decided without a person."""

    def __init__(self, policy: Policy, note: Note, root: str) -> None:
        self._policy = policy
        self._root = root
        self._note = note

    async def judge(self, deed: AgentAction) -> Ruling:
        """What the rules say; where they lead is looked up on the disk."""
        subject, verdict, warning = await asyncio.to_thread(self._strictest, deed)
        if verdict.decision != "ask" and verdict.rule not in DEFAULTS:
            self._note(subject, verdict)
        risks = (
            command_risk(command, root=self._root, folder=deed.folder or ".")
            for command in (deed.command, *deed.hinted_commands)
        )
        risk = warning or next(filter(None, risks), "")
        return Ruling(verdict.decision, verdict.reason, visible(risk), bool(warning))

    def _strictest(self, deed: AgentAction) -> tuple[Subject, Verdict, str]:
        """The subject that decides and its verdict; and what is said of a protected file among all of them."""
        subjects = list(self._subjects(deed))
        judged = [(subject, self._judged(subject, is_known)) for subject, is_known in subjects]
        hinted = ((subject, self._policy.judge(subject)) for subject in self._hinted(deed))
        judged += [(subject, verdict) for subject, verdict in hinted if verdict.decision == "deny"]
        is_writing = any(subject.tool not in READING for subject, _ in subjects)
        named = (*deed.paths, *deed.hinted_paths)
        paths = (*(subject.path or "" for subject, _ in subjects), *named) if is_writing else ()
        decisive = max(judged, key=lambda one: _STRICTNESS.index(one[1].decision))
        return (*decisive, next(filter(None, map(warning, paths)), ""))

    def _judged(self, subject: Subject, is_known: bool) -> Verdict:
        verdict = self._policy.judge(subject)
        if verdict.decision == "allow" and verdict.rule is not None and not is_known:
            return Verdict(decision="ask", reason="it is not known to be inside the workspace")
        if verdict.rule in DEFAULTS and subject.tool == "search_content" and self._policy.holds_back:
            # Our own search leaves out what a rule holds back; an agent's does not.
            return Verdict(decision="ask", reason="it may find what a rule holds back")
        return verdict

    def _subjects(self, deed: AgentAction) -> Iterator[tuple[Subject, bool]]:
        """Everything a deed counts as, and whether it is known where that is."""
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
                yield Subject(tool=tool, path=found), found is not None or deed.kind not in _TOOLS

    def _hinted(self, deed: AgentAction) -> Iterator[Subject]:
        """What a deed may count as too, by what is told outside of its structured input: enough to deny it."""
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
