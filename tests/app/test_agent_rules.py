"""What the rules of the gateway's tools say of what agents ask for: the strictest counts, doubt is for a person."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tieline.app.agent_rules import AgentRules
from tieline.app.build import acp_backend
from tieline.app.config import Config, ToolSettings
from tieline.backends.acp.rules import AgentAction
from tieline.backends.acp.turn_inbox import action_of
from tieline.model.content import Text
from tieline.model.rules import Rule
from tieline.tools.policy import Policy, Subject, Verdict
from tieline.tools.workspace import Workspace
from tieline.wire.acp import facts

ALLOW_ALL = Rule(decision="allow")
GIT = Rule(decision="allow", tool="run_terminal", command="git status")
NO_RM = Rule(decision="deny", tool="run_terminal", command="rm")
SECRET = Rule(decision="deny", path=".env")
EDITS = Rule(decision="allow", tool="edit_file", path="src/")
WRITES = Rule(decision="allow", tool="write_file", path="src/")


class Case(NamedTuple):
    deed: AgentAction
    decision: str
    rules: tuple[Rule, ...] = ()


CASES = {
    "a file inside is read": Case(AgentAction("read", ("src/a.py",)), "allow"),
    "a file outside is asked for": Case(AgentAction("read", ("/etc/passwd",)), "ask"),
    "one of several is outside": Case(AgentAction("read", ("src/a.py", "../b")), "ask"),
    "a link leads outside": Case(AgentAction("read", ("way_out/passwd",)), "ask"),
    "nobody knows what is read": Case(AgentAction("read"), "ask"),
    "nobody knows it even where all is allowed": Case(AgentAction("read"), "ask", (ALLOW_ALL,)),
    "what is outside is asked for even where all is allowed": Case(
        AgentAction("edit", ("/etc/passwd",)), "ask", (ALLOW_ALL,)
    ),
    "more files than anybody looks up": Case(AgentAction("read", tuple(f"src/{n}" for n in range(101))), "ask"),
    "a search inside": Case(AgentAction("search", ("src",)), "allow"),
    "a search where something is held back": Case(AgentAction("search", ("src",)), "ask", (SECRET,)),
    "a search that a rule allows": Case(
        AgentAction("search", ("src",)), "allow", (SECRET, Rule(decision="allow", tool="search_content", path="src/**"))
    ),
    "what is called reading but runs a command": Case(
        AgentAction("read", ("src/a.py",), "cat src/a.py; rm -rf ."), "ask"
    ),
    "what is called reading but changes a file": Case(AgentAction("read", ("src/a.py",), is_change=True), "ask"),
    "an edit": Case(AgentAction("edit", ("src/a.py",)), "ask"),
    "an edit that one rule of two allows": Case(AgentAction("edit", ("src/a.py",)), "ask", (EDITS,)),
    "an edit that both rules allow": Case(AgentAction("edit", ("src/a.py",)), "allow", (EDITS, WRITES)),
    "an edit of two files of which one is held back": Case(
        AgentAction("edit", ("src/a.py", ".env")), "deny", (SECRET, ALLOW_ALL)
    ),
    "to delete is more than to write": Case(AgentAction("delete", ("src/a.py",)), "ask", (EDITS, WRITES)),
    "to delete where no writing is allowed": Case(
        AgentAction("delete", ("src/a.py",)), "deny", (Rule(decision="deny", tool="write_file"), ALLOW_ALL)
    ),
    "a secret is not read": Case(AgentAction("read", (".env",)), "deny", (SECRET,)),
    "a command": Case(AgentAction("execute", command="git status"), "ask"),
    "a command by its prefix": Case(AgentAction("execute", command="git status --short"), "allow", (GIT,)),
    "two commands where one is allowed": Case(AgentAction("execute", command="git status; rm x"), "ask", (GIT,)),
    "a command of its own kind": Case(AgentAction("other", command="git status"), "ask", (GIT,)),
    "a command in a folder outside": Case(AgentAction("execute", command="git status", folder="/"), "ask", (GIT,)),
    "a command that is held back": Case(
        AgentAction("execute", command="git status && rm x"), "deny", (NO_RM, ALLOW_ALL)
    ),
    "nobody knows what is run": Case(AgentAction("execute"), "ask", (ALLOW_ALL,)),
    "what is no tool of ours": Case(AgentAction("fetch"), "ask"),
    "what a rule names by its kind": Case(AgentAction("fetch"), "allow", (Rule(decision="allow", tool="fetch"),)),
    "what a rule names by its kind, inside": Case(
        AgentAction("fetch", ("src/a.py",)), "allow", (Rule(decision="allow", tool="fetch"),)
    ),
    "what a rule names by its kind, outside": Case(
        AgentAction("fetch", ("/etc/passwd",)), "ask", (Rule(decision="allow", tool="fetch"),)
    ),
    "what a rule names by its kind, with too many files": Case(
        AgentAction("fetch", tuple(f"src/{n}" for n in range(101))), "ask", (Rule(decision="allow", tool="fetch"),)
    ),
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "way_out").symlink_to("/etc")
    return Workspace(root)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_the_strictest_rule_decides_and_doubt_is_for_a_person(workspace: Workspace, case: Case) -> None:
    rules = AgentRules(Policy(workspace.locate, rules=case.rules), lambda _, __: None, workspace.root)
    assert (await rules.judge(case.deed)).decision == case.decision


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_where_everything_is_allowed_nothing_is_asked(workspace: Workspace, case: Case) -> None:
    rules = AgentRules(Policy(workspace.locate, rules=case.rules, autonomy="all"), lambda _, __: None, workspace.root)
    assert (await rules.judge(case.deed)).decision == "allow"


async def test_what_was_allowed_for_good_counts_for_agents_too(workspace: Workspace) -> None:
    granted = Rule(decision="allow", tool="run_terminal", path="/.", command="git status")
    policy = Policy(workspace.locate, remembered=(granted,))
    rules = AgentRules(policy, lambda _, __: None, workspace.root)
    assert (await rules.judge(AgentAction("execute", command="git status"))).decision == "allow"
    policy.revoke(granted.id)
    assert (await rules.judge(AgentAction("execute", command="git status"))).decision == "ask"


async def test_what_a_rule_decides_is_noted_and_what_goes_without_saying_is_not(workspace: Workspace) -> None:
    noted: list[tuple[Subject, Verdict]] = []
    rules = AgentRules(Policy(workspace.locate, rules=(GIT, SECRET)), lambda *one: noted.append(one), workspace.root)
    for deed in (
        AgentAction("read", ("src/a.py",)),
        AgentAction("execute", command="make"),
        AgentAction("execute", command="git status"),
        AgentAction("edit", (".env",)),
    ):
        await rules.judge(deed)
    assert [(subject.tool, subject.path, verdict.decision) for subject, verdict in noted] == [
        ("run_terminal", ".", "allow"),
        ("edit_file", ".env", "deny"),
    ]


def test_a_deed_is_everything_that_a_call_tells() -> None:
    call = facts.AgentCall(
        id="1",
        kind="edit",
        locations=(facts.CallLocation(path="a"),),
        diffs=(facts.CallDiff(path="b", old=None, new="x"),),
        input='{"file_path":"c","command":["sh","-c","ls; rm x"],"workdir":"src"}',
    )
    assert action_of(call) == AgentAction("edit", ("a", "b", "c"), "sh -c 'ls; rm x'", "src", is_change=True)
    assert action_of(facts.AgentCall(id="2", input="[1]")) == AgentAction("other")


def told(title: str, words: str = "", given: str = "", kind: str = "execute") -> facts.AgentCall:
    return facts.AgentCall(id="1", title=title, kind=kind, content=(Text(text=words),) if words else (), input=given)


TOLD = {
    "in the title": told("rm -rf build [in /src] (Tidy up)"),
    "behind words in the title": told("Running: cd src; rm -rf …"),
    "as JSON in the content": told("Bash", '{"command": "cd src; rm -rf build"}'),
    "as JSON in the content, of no kind": told("Bash", '{"command": "rm -rf build"}', kind="other"),
    "as words in the content": told("Bash", "Requesting approval to run rm -rf build"),
    "in input of another form": told("Shell", given='{"program": "/bin/rm", "argv": ["-rf", "build"]}'),
}


@pytest.mark.parametrize("call", TOLD.values(), ids=TOLD.keys())
async def test_a_command_is_denied_wherever_the_agent_tells_it_and_allowed_only_by_structured_input(
    workspace: Workspace, call: facts.AgentCall
) -> None:
    async def decision(*rules: Rule) -> str:
        judge = AgentRules(Policy(workspace.locate, rules=rules), lambda _, __: None, workspace.root)
        return (await judge.judge(action_of(call))).decision

    assert await decision(NO_RM, ALLOW_ALL) == "deny"
    allowing = [Rule(decision="allow", tool="run_terminal", command=words) for words in ("rm", "Running:", "Bash")]
    assert await decision(*allowing) == "ask"


async def test_a_file_that_is_named_only_in_the_content_can_be_denied_and_not_allowed(workspace: Workspace) -> None:
    call = told("Read", '{"path": ".env"}', kind="read")
    for rules, decision in (((SECRET,), "deny"), ((ALLOW_ALL,), "ask")):
        judge = AgentRules(Policy(workspace.locate, rules=rules), lambda _, __: None, workspace.root)
        assert (await judge.judge(action_of(call))).decision == decision


@pytest.mark.parametrize(
    ("deed", "risk", "is_protected"),
    [
        (AgentAction("edit", ("src/a.py",)), "", False),
        (AgentAction("read", (".git/config",)), "", False),
        (
            AgentAction("edit", ("src/a.py", ".git/hooks/pre-push")),
            "`.git/hooks/pre-push` is protected: it controls the behaviour of version control.",
            True,
        ),
        (
            AgentAction("edit", ("/home/me/.bashrc",)),
            "`/home/me/.bashrc` is protected: it controls the behaviour of a shell.",
            True,
        ),
        (AgentAction("execute", command="rm -rf src"), "It permanently deletes whole folders (rm -r).", False),
        (AgentAction("execute", command="git status"), "", False),
    ],
)
async def test_what_is_risky_about_an_agents_wish_is_said(
    workspace: Workspace, deed: AgentAction, risk: str, is_protected: bool
) -> None:
    ruled = await AgentRules(Policy(workspace.locate), lambda _, __: None, workspace.root).judge(deed)
    assert (ruled.risk, ruled.is_protected) == (risk, is_protected)


@pytest.mark.parametrize("rules", [(), (ALLOW_ALL,), (EDITS, WRITES)])
async def test_where_paths_cannot_be_confined_no_rule_allows_access_to_a_file(
    rules: tuple[Rule, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acp_backend, "CAN_CONFINE", False)
    config = Config(tools=ToolSettings(rules=rules))
    policy = acp_backend._policy(config, {"HOME": str(tmp_path)}, str(tmp_path), None, None)
    judge = AgentRules(policy, lambda _, __: None, str(tmp_path))
    for kind in ("read", "edit", "delete"):
        assert (await judge.judge(AgentAction(kind, ("src/a.py",)))).decision == "ask"
    assert (await judge.judge(AgentAction("execute", command="git status"))).decision == "ask"
