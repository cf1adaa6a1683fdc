"""What is allowed, what is asked, what is denied, and why."""

from pathlib import Path
from typing import Any

import pytest

from tests.tools.calling import call
from tieline.model.content import ToolCall
from tieline.tools.policy import Policy, Rule, Subject, dump_rules, load_rules
from tieline.tools.workspace import Workspace

LS = Rule(decision="allow", tool="run_terminal", command="ls")
GIT_STATUS = Rule(decision="allow", tool="run_terminal", command="git status")
NO_RM = Rule(decision="deny", tool="run_terminal", command="rm")
NO_PUSH = Rule(decision="deny", command="git push")
GIT = Rule(decision="allow", tool="run_terminal", command="git")
NO_SECRETS = Rule(decision="deny", path="secrets/**")
NO_ENV = Rule(decision="deny", path=".env*")
DOCS = Rule(decision="allow", tool="*_file", path="docs/**")
ASK_READING_KEYS = Rule(decision="ask", tool="read_file", path="*.pem")


def run(command: str, **more: Any) -> ToolCall:
    return call("run_terminal", command=command, **more)


def write(path: str) -> ToolCall:
    return call("write_file", path=path, content="x")


def read(path: str) -> ToolCall:
    return call("read_file", path=path)


TABLE: list[tuple[tuple[Rule, ...], ToolCall, str]] = [
    # nothing said: reading inside is allowed, everything else asks
    ((), read("a"), "allow"),
    ((), call("list_directory"), "allow"),
    ((), call("search_files", pattern="*"), "allow"),
    ((), call("search_content", pattern="x", path="src"), "allow"),
    ((), call("todo_read"), "allow"),
    ((), call("todo_write", todos=[]), "allow"),
    ((), call("ask_question", question="?"), "allow"),
    ((), write("a"), "ask"),
    ((), call("edit_file", path="a", old_text="x", new_text="y"), "ask"),
    ((), run("ls"), "ask"),
    ((), call("tool_of_someone_else", path="a"), "ask"),
    # outside is denied, whatever the rules say
    ((), read("../x"), "deny"),
    ((), read("/etc/passwd"), "deny"),
    ((), read("way_out/secret.txt"), "deny"),
    ((Rule(decision="allow"),), write("../x"), "deny"),
    ((Rule(decision="allow"),), run("ls", cwd=".."), "deny"),
    # a call that cannot be understood is denied with what is wrong
    ((), ToolCall(id="1", name="read_file", arguments="{"), "deny"),
    ((), ToolCall(id="1", name="read_file", arguments='{"path": 5}'), "deny"),
    ((Rule(decision="allow"),), ToolCall(id="1", name="run_terminal", arguments='{"command": ["rm"]}'), "deny"),
    # paths are judged by where they lead
    ((NO_SECRETS,), read("secrets/key"), "deny"),
    ((NO_SECRETS,), read("./src/../secrets/key"), "deny"),
    ((NO_SECRETS,), read("{root}/secrets/key"), "deny"),
    ((NO_SECRETS,), read("innocent/key"), "deny"),
    ((NO_SECRETS,), read("innocent_file"), "deny"),
    ((NO_SECRETS,), read("SECRETS/key"), "deny"),
    ((NO_SECRETS,), call("list_directory", path="secrets"), "deny"),
    ((NO_SECRETS,), write("secrets/new/key"), "deny"),
    ((NO_SECRETS,), run("ls", cwd="secrets"), "deny"),
    ((NO_SECRETS,), read("secrets.md"), "allow"),
    ((NO_ENV,), read("src/.env.local"), "deny"),
    ((DOCS,), write("docs/new/page.md"), "allow"),
    ((DOCS,), write("docs/../src/a"), "ask"),
    ((DOCS,), write("Docs/page.md"), "ask"),
    ((DOCS,), call("search_files", pattern="*", path="docs"), "allow"),
    ((ASK_READING_KEYS,), read("src/key.pem"), "ask"),
    # the first rule that fits decides
    ((NO_SECRETS, Rule(decision="allow")), write("secrets/a"), "deny"),
    ((Rule(decision="allow"), NO_SECRETS), write("secrets/a"), "allow"),
    ((Rule(decision="deny", tool="run_*"),), run("ls"), "deny"),
    ((Rule(decision="deny", tool="run_*"),), read("a"), "allow"),
    # a prefix that is allowed is words of one command
    ((LS,), run("ls"), "allow"),
    ((LS,), run("  ls -la src"), "allow"),
    ((LS,), run("'ls' \"a b\""), "allow"),
    ((LS,), run("lsof"), "ask"),
    ((LS,), run("ls-files"), "ask"),
    ((LS,), run("./ls"), "ask"),
    ((LS,), run("/bin/ls"), "ask"),
    ((LS,), run("ls; rm -rf /"), "ask"),
    ((LS,), run("ls && rm x"), "ask"),
    ((LS,), run("ls || rm x"), "ask"),
    ((LS,), run("ls | sh"), "ask"),
    ((LS,), run("ls & rm x"), "ask"),
    ((LS,), run("ls\nrm x"), "ask"),
    ((LS,), run("ls $(rm x)"), "ask"),
    ((LS,), run("ls `rm x`"), "ask"),
    ((LS,), run('ls "$(rm x)"'), "ask"),
    ((LS,), run("ls > a"), "ask"),
    ((LS,), run("ls 2>&1"), "ask"),
    ((LS,), run("ls <(rm x)"), "ask"),
    ((LS,), run("LD_PRELOAD=./x.so ls"), "ask"),
    ((LS,), run("ls #'\nrm -rf x #'"), "ask"),
    ((LS,), run("ls 'unfinished"), "ask"),
    ((LS,), run(""), "ask"),
    ((LS,), call("run_terminal"), "ask"),
    ((GIT_STATUS,), run("git status --short"), "allow"),
    ((GIT_STATUS,), run("git  'status'"), "allow"),
    ((GIT_STATUS,), run("git -c x=y status"), "ask"),
    ((GIT_STATUS,), run("git stash"), "ask"),
    ((GIT_STATUS,), run("git"), "ask"),
    # a prefix that is denied is looked for everywhere
    ((NO_RM, Rule(decision="allow")), run("rm x"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("ls; rm x"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("/bin/rm x"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("A=1 rm x"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("sh -c 'ls;rm x'"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("r''m x"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("echo $(rm x)"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("find . | xargs rm"), "deny"),
    ((NO_RM, Rule(decision="allow")), run("rmdir x"), "allow"),
    ((NO_PUSH, GIT), run("git push --force"), "deny"),
    ((NO_PUSH, GIT), run("git log"), "allow"),
    ((NO_PUSH, GIT), run("git log; git push"), "deny"),
    # an exact command is that text and no other
    ((Rule(decision="allow", command="ls | wc -l", exact=True),), run("ls | wc -l"), "allow"),
    ((Rule(decision="allow", command="ls | wc -l", exact=True),), run("ls | wc -l; rm x"), "ask"),
    ((Rule(decision="allow", command="make", exact=True, path="/sub"),), run("make", cwd="sub"), "allow"),
    ((Rule(decision="allow", command="make", exact=True, path="/sub"),), run("make"), "ask"),
    # what a rule asks for has to be there
    ((Rule(decision="allow", path="docs/**"),), call("tool_of_someone_else"), "ask"),
    ((Rule(decision="allow", command="ls"),), write("ls"), "ask"),
]


@pytest.fixture
def furnished(root: Path, outside: Path) -> Workspace:
    for folder in ("secrets", "src", "docs", "sub"):
        (root / folder).mkdir()
    (root / "secrets" / "key").write_text("k")
    (root / "innocent").symlink_to("secrets")
    (root / "innocent_file").symlink_to("secrets/key")
    (root / "way_out").symlink_to(outside)
    return Workspace(root)


@pytest.mark.parametrize(("rules", "made", "decision"), TABLE)
def test_what_is_decided(furnished: Workspace, rules: tuple[Rule, ...], made: ToolCall, decision: str) -> None:
    arguments = made.arguments.replace("{root}", furnished.root)
    verdict = Policy(furnished.locate, rules=rules).decide(ToolCall(id="1", name=made.name, arguments=arguments))
    assert verdict.decision == decision, verdict.reason
    assert verdict.reason


@pytest.mark.parametrize(("rules", "made", "_"), TABLE)
def test_yolo_allows_everything_that_can_be_understood_and_is_inside(
    furnished: Workspace, rules: tuple[Rule, ...], made: ToolCall, _: str
) -> None:
    """What leads outside is not made possible by allowing it."""
    made = ToolCall(id="1", name=made.name, arguments=made.arguments.replace("{root}", furnished.root))
    verdict = Policy(furnished.locate, rules=rules, yolo=True).decide(made)
    refused = {"outside", "JSON", "has to be a string"}
    assert verdict.decision == "allow" or any(word in verdict.reason for word in refused)


def test_a_verdict_names_its_rule(furnished: Workspace) -> None:
    policy = Policy(furnished.locate, rules=[NO_SECRETS, GIT_STATUS])
    denied = policy.decide(read("secrets/key"))
    assert (denied.rule, denied.reason) == (NO_SECRETS, "rule: deny any tool in secrets/**")
    allowed = policy.decide(run("git status"))
    assert allowed.reason == "rule: allow run_terminal for `git status …`"
    assert policy.decide(run("ls")).reason == "no rule allows it"


def test_what_is_not_a_call_of_ours_can_be_judged(furnished: Workspace) -> None:
    policy = Policy(furnished.locate, rules=[NO_SECRETS, LS])
    assert policy.judge(Subject(tool="agent_edit", path="secrets/a")).decision == "deny"
    assert policy.judge(Subject(tool="run_terminal", command="ls -l")).decision == "allow"
    assert policy.judge(Subject(tool="agent_run", command="ls -l")).decision == "ask"


def test_always_is_remembered_listed_and_revoked(furnished: Workspace) -> None:
    policy = Policy(furnished.locate)
    narrow, *_ = policy.suggest(policy.subject(run("git status")))
    policy.remember(narrow)
    policy.remember(narrow)
    assert policy.remembered == (narrow,)
    verdict = policy.decide(run("git status"))
    assert (verdict.decision, verdict.rule) == ("allow", narrow)
    assert verdict.reason == "remembered: allow run_terminal in /. for exactly `git status`"
    assert policy.revoke(narrow.id)
    assert not policy.revoke(narrow.id)
    assert policy.decide(run("git status")).decision == "ask"


def test_always_stands_in_for_asking_and_never_opens_what_is_denied(furnished: Workspace) -> None:
    everything = Rule(decision="allow")
    policy = Policy(furnished.locate, rules=[NO_SECRETS, ASK_READING_KEYS], remembered=[everything])
    assert policy.decide(read("secrets/key")).decision == "deny"
    assert policy.decide(read("key.pem")).decision == "allow"
    assert policy.decide(write("a")).decision == "allow"


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".git/config", "sub/.git/config", ".GIT/config"])
def test_always_for_a_folder_does_not_reach_what_git_runs(furnished: Workspace, path: str) -> None:
    policy = Policy(furnished.locate, remembered=[Rule(decision="allow", path="**"), Rule(decision="allow")])
    assert policy.decide(write(path)).decision == "ask"
    assert policy.decide(write("src/a")).decision == "allow"
    policy.remember(policy.suggest(policy.subject(write(path)))[0])
    assert policy.decide(write(path)).decision == "allow"


def test_only_what_allows_and_makes_sense_can_be_remembered(furnished: Workspace) -> None:
    policy = Policy(furnished.locate)
    for rule in (NO_RM, Rule(decision="allow", path="{a"), Rule(decision="allow", command="ls; rm")):
        with pytest.raises(ValueError, match=r"\w"):
            policy.remember(rule)
    assert policy.remembered == ()


SUGGESTED = [
    (run("git log -3"), ["for exactly `git log -3`", "for `git log …`"]),
    (run("ls -la"), ["for exactly `ls -la`", "for `ls …`"]),
    (run("git -c alias.x=!sh x"), ["for exactly `git -c alias.x=!sh x`"]),
    (run("ls | wc"), ["for exactly `ls | wc`"]),
    (run("bash run.sh"), ["for exactly `bash run.sh`"]),
    (run("./run.sh"), ["for exactly `./run.sh`"]),
    (run("sudo ls"), ["for exactly `sudo ls`"]),
    (run("git 'st;atus'"), ["for exactly `git 'st;atus'`"]),
    (write("docs/new.md"), ["in /docs/new.md", "in /docs/", "in **"]),
    (write("a*b"), [r"in /a\*b", "in **"]),
    (write("innocent/x"), ["in /secrets/x", "in /secrets/", "in **"]),
    (call("tool_of_someone_else"), ["allow tool_of_someone_else"]),
]


@pytest.mark.parametrize(("made", "said"), SUGGESTED)
def test_always_can_mean_this_or_a_little_more(furnished: Workspace, made: ToolCall, said: list[str]) -> None:
    policy = Policy(furnished.locate)
    suggested = policy.suggest(policy.subject(made))
    assert [str(rule) for rule in suggested if not str(rule).endswith(said[suggested.index(rule)])] == []
    assert len(suggested) == len(said)
    for rule in suggested:
        assert Policy(furnished.locate, remembered=[rule]).decide(made).decision == "allow"


def test_rules_are_kept_as_text() -> None:
    rules = (LS, NO_SECRETS, Rule(decision="allow", path="/a\\*b"), Rule(decision="ask", command="a | b", exact=True))
    text = dump_rules(rules)
    assert load_rules(text) == rules
    assert dump_rules(load_rules(text)) == text
    assert text.splitlines()[1] == '  {"decision":"allow","tool":"run_terminal","command":"ls"},'
    assert load_rules(dump_rules(())) == ()
    assert len({rule.id for rule in rules}) == len(rules)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("{}", "cannot be read"),
        ('[{"decision": "maybe"}]', "maybe"),
        ('[{"tool": "x"}]', "decision"),
        ('[{"decision": "allow", "path": "{a"}]', "rule 1"),
        ('[{"decision": "deny"}, {"decision": "allow", "command": "ls; rm"}]', "rule 2"),
        ('[{"decision": "allow", "comand": "ls"}]', "comand"),
    ],
)
def test_rules_that_make_no_sense_are_refused_as_a_whole(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        load_rules(text)


def test_a_search_does_not_show_what_a_rule_holds_back(furnished: Workspace) -> None:
    policy = Policy(
        furnished.locate, rules=[Rule(decision="allow", path="secrets/public/**"), NO_SECRETS, ASK_READING_KEYS]
    )
    hidden = {path: policy.hides(path) for path in ("secrets/key", "secrets/public/a", "src/x.pem", "src/a.py")}
    assert hidden == {"secrets/key": True, "secrets/public/a": False, "src/x.pem": True, "src/a.py": False}
    assert not Policy(furnished.locate, rules=[NO_SECRETS], yolo=True).hides("secrets/key")
