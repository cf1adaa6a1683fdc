"""What is allowed, what is asked, what is denied, and why."""

from pathlib import Path
from typing import Any

import pytest

from tests.each import each
from tests.tools.calling import call
from tieline.model.content import ToolCall
from tieline.model.rules import Rule
from tieline.tools.globs import escaped
from tieline.tools.policy import Policy, Subject, dump_rules, load_rules, retirement_reason
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


@each(("rules", "made", "decision"), TABLE)
def test_what_is_decided(furnished: Workspace, rules: tuple[Rule, ...], made: ToolCall, decision: str) -> None:
    arguments = made.arguments.replace("{root}", furnished.root)
    verdict = Policy(furnished.locate, rules=rules).decide(ToolCall(id="1", name=made.name, arguments=arguments))
    assert verdict.decision == decision, verdict.reason
    assert verdict.reason


@each(("rules", "made"), [(rules, made) for rules, made, _ in TABLE])
def test_yolo_allows_everything_that_can_be_understood_and_is_inside(
    furnished: Workspace, rules: tuple[Rule, ...], made: ToolCall
) -> None:
    """What leads outside is not made possible by allowing it."""
    made = ToolCall(id="1", name=made.name, arguments=made.arguments.replace("{root}", furnished.root))
    verdict = Policy(furnished.locate, rules=rules, autonomy="all").decide(made)
    refused = {"outside", "JSON", "must be a string"}
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


PROTECTED = [
    "tieline.toml",
    "sub/tieline.toml",
    ".git/hooks/pre-commit",
    ".git/config",
    "sub/.git/config",
    ".GIT/config",
    ".g\u200dit/config",
    ".git./config",
    ".vscode/tasks.json",
    ".idea/workspace.xml",
    ".cursor/rules/x.mdc",
    ".zed/tasks.json",
    ".devcontainer/devcontainer.json",
    "my.code-workspace",
    ".claude/settings.json",
    ".mcp.json",
    ".codex/config.toml",
    "CLAUDE.md",
    "AGENTS.md",
    ".bashrc",
    ".zshrc",
    ".profile",
    ".ENVRC",
    ".ssh/authorized_keys",
]


@each("path", PROTECTED)
@each("tool", ["write_file", "edit_file", "delete", "move", "other"])
def test_no_grant_covers_a_protected_file_and_none_is_offered(furnished: Workspace, tool: str, path: str) -> None:
    exactly = Rule(decision="allow", path=escaped(path))
    grants = [Rule(decision="allow", path="**"), Rule(decision="allow"), exactly, Rule(decision="allow", tool=tool)]
    policy = Policy(furnished.locate, remembered=grants)
    verdict = policy.judge(Subject(tool=tool, path=path))
    assert (verdict.decision, verdict.reason) == ("ask", "it is protected")
    assert policy.suggest(Subject(tool=tool, path=path)) == ()
    assert retirement_reason(exactly) == "the file is protected"
    assert policy.judge(Subject(tool=tool, path="src/a")).decision == "allow"
    assert policy.judge(Subject(tool="read_file", path=path)).decision == "allow", "reading is another matter"


@pytest.mark.parametrize(
    ("pattern", "decision"),
    [
        ("**", "ask"),
        ("*", "ask"),
        (".v*/", "ask"),
        (".vscode/", "allow"),
        ("**/.vscode/**", "allow"),
        ("/.vscode/settings.json", "allow"),
    ],
)
def test_a_rule_of_the_configuration_covers_a_protected_file_only_if_it_names_it(
    furnished: Workspace, pattern: str, decision: str
) -> None:
    policy = Policy(furnished.locate, rules=[Rule(decision="allow", path=pattern)])
    assert policy.decide(write(".vscode/settings.json")).decision == decision
    denied = Policy(
        furnished.locate, rules=[Rule(decision="allow", path=pattern), Rule(decision="deny", path=".vscode/")]
    )
    assert denied.decide(write(".vscode/settings.json")).decision == ("allow" if decision == "allow" else "deny")


@pytest.mark.parametrize(
    "command",
    ["echo x >> .bashrc", "cp a .git/hooks/pre-commit", "tee ./.vscode/tasks.json", "sed -i s/a/b/ 'tieline.toml'"],
)
def test_a_command_that_names_a_protected_file_is_never_granted(furnished: Workspace, command: str) -> None:
    exactly = Rule(decision="allow", tool="run_terminal", path="/.", command=command, exact=True)
    policy = Policy(furnished.locate, remembered=[exactly])
    assert policy.decide(run(command)).decision == "ask"
    assert policy.suggest(policy.subject(run(command))) == ()
    assert retirement_reason(exactly) == "it concerns a protected file"


def test_only_what_allows_and_makes_sense_can_be_remembered(furnished: Workspace) -> None:
    policy = Policy(furnished.locate)
    for rule in (NO_RM, Rule(decision="allow", path="{a"), Rule(decision="allow", command="ls; rm")):
        with pytest.raises(ValueError, match=r"\w"):
            policy.remember(rule)
    assert policy.remembered == ()


PROGRAMS = (
    "python python3 python3.12 pypy perl ruby node nodejs deno bun php lua tclsh awk gawk mawk nawk sed ed ex vi vim "
    "nvim emacs nano bash sh dash zsh fish ksh csh tcsh busybox env sudo doas su ssh scp sftp rsync find fd fdfind rg "
    "ag xargs parallel make cmake ninja tar zip unzip 7z cpio stdbuf flock unshare nsenter strace ltrace gdb nice "
    "nohup setsid chrt timeout watch script expect screen tmux tee cp mv ln install dd truncate touch mkdir rm chmod "
    "chown curl wget git sort uniq split csplit less more man openssl socat nc telnet crontab at systemctl "
)
"""Programs that run other programs or write files if they are given the right arguments."""
RUNNING_OR_WRITING = PROGRAMS.split()
SUBCOMMANDS = [
    *(
        "npm exec",
        "npm run",
        "npm test",
        "npm install",
        "npx x",
        "pnpm dlx",
        "pnpm exec",
        "yarn run",
        "yarn dlx",
        "bun run",
    ),
    *("bunx x", "uv run", "uvx x", "uv pip", "pip install", "pip download", "poetry run", "docker run", "docker exec"),
    *("docker build", "go run", "go test", "go generate", "cargo run", "cargo test", "cargo install", "git config"),
    *("git bisect", "git rebase", "git commit", "git push", "git clone", "git submodule", "git grep", "git archive"),
    *("kubectl exec", "gh api"),
]
ABUSES = [
    ("tar cf x.tar src", "tar cf x.tar '--checkpoint-action=exec=touch ../outside/x' --checkpoint=1 src"),
    ("git log", "git log --output=../outside/x"),
    ("git log", "git log --outp=x"),
    ("git log", "git log *"),
    ("git diff", "git diff --output=x"),
    ("git diff", "git diff --ext-diff"),
    ("git diff", "git diff --no-index /etc/passwd x"),
    ("git diff", "git diff /etc/passwd x"),
    ("git show", "git -c core.pager=x show"),
    ("git log", "git log ../other"),
    ("git status", "git status; rm -rf x"),
    ("ls", "ls /etc"),
    ("ls", "ls ~/.ssh"),
    ("ls", "ls $(touch x)"),
    ("ls", "ls {/etc,x}"),
    ("wc -l a", "wc --files0-from=/etc/passwd"),
]


def test_the_lists_are_as_long_as_they_should_be() -> None:
    assert len(set(RUNNING_OR_WRITING)) >= 94
    assert len(set(SUBCOMMANDS)) == 37


@each("command", [*(f"{program} x" for program in RUNNING_OR_WRITING), *SUBCOMMANDS])
def test_a_program_that_can_run_or_write_is_granted_as_exactly_this_command_only(
    furnished: Workspace, command: str
) -> None:
    policy = Policy(furnished.locate)
    (only,) = policy.suggest(policy.subject(run(command)))
    assert (only.exact, only.command, only.path) == (True, command, "/.")
    words = command.split()
    for prefix in (words[0], command):
        old = Rule(decision="allow", tool="run_terminal", command=prefix)
        bound = Rule(decision="allow", tool="run_terminal", path="/.", command=prefix)
        stored = Policy(furnished.locate, remembered=[old, bound])
        assert stored.decide(run(f"{command} more")).decision == "ask", "what was stored earlier no longer counts"
        assert retirement_reason(old)


@each(("granted", "abused"), ABUSES)
def test_a_grant_for_one_command_does_not_reach_its_dangerous_options(
    furnished: Workspace, granted: str, abused: str
) -> None:
    policy = Policy(furnished.locate)
    for rule in policy.suggest(policy.subject(run(granted))):
        policy.remember(rule)
    for prefix in (" ".join(granted.split()[:2]), granted.split()[0]):
        policy.remember(Rule(decision="allow", tool="run_terminal", path="/.", command=prefix))
    assert policy.decide(run(granted)).decision == "allow"
    assert policy.decide(run(abused)).decision == "ask"


def test_a_command_that_only_looks_is_granted_with_other_arguments_in_its_folder(furnished: Workspace) -> None:
    policy = Policy(furnished.locate)
    _, prefix = policy.suggest(policy.subject(run("git log -3")))
    policy.remember(prefix)
    assert policy.decide(run("git log --oneline --stat -n 5 main -- src")).decision == "allow"
    assert policy.decide(call("run_terminal", command="git log", cwd="src")).decision == "ask"
    assert retirement_reason(prefix) == ""
    assert (
        retirement_reason(Rule(decision="allow", tool="run_terminal", command="git log"))
        == "it is not bound to a folder"
    )


SUGGESTED = [
    (run("git log -3"), ["in /. for exactly `git log -3`", "in /. for `git log …`"]),
    (run("ls -la"), ["in /. for exactly `ls -la`", "in /. for `ls …`"]),
    (run("ls /etc"), ["in /. for exactly `ls /etc`"]),
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


@each(("made", "said"), SUGGESTED)
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
    assert not Policy(furnished.locate, rules=[NO_SECRETS], autonomy="all").hides("secrets/key")


@pytest.mark.parametrize(
    ("subject", "decision"),
    [
        (Subject(tool="edit_file", path="src/a.py"), "allow"),
        (Subject(tool="write_file", path="new"), "allow"),
        (Subject(tool="write_file", path=".git/config"), "ask"),
        (Subject(tool="edit_file", path="secrets/key"), "deny"),
        (Subject(tool="edit_file", path="docs/a.md"), "ask"),
        (Subject(tool="edit_file"), "ask"),
        (Subject(tool="delete", path="src/a.py"), "ask"),
        (Subject(tool="run_terminal", path=".", command="ls"), "ask"),
        (Subject(tool="fetch"), "ask"),
    ],
)
def test_with_edits_allowed_everything_else_is_decided_as_before(
    furnished: Workspace, subject: Subject, decision: str
) -> None:
    rules = [NO_SECRETS, Rule(decision="ask", path="docs/")]
    policy = Policy(furnished.locate, rules=rules, autonomy="edits")
    verdict = policy.judge(subject)
    assert verdict.decision == decision
    assert decision != "allow" or verdict.rule is not None, "so that an agent must name a file inside the workspace"
    policy.autonomy = "ask"
    assert policy.judge(subject).decision != "allow"


def test_a_closed_policy_denies_everything_even_what_was_allowed(furnished: Workspace) -> None:
    policy = Policy(furnished.locate, autonomy="all")
    policy.close("it is gone")
    for tool in ("read_file", "write_file", "run_terminal", "create_plan"):
        assert policy.judge(Subject(tool=tool, path=".")).decision == "deny"
