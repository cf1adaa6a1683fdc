"""Files the gateway keeps: what was allowed for good, the audit, and what lies inside a workspace."""

import json
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tieline.app.audit import LONGEST_TEXT, AuditLog, open_audit_log
from tieline.app.build.application import build
from tieline.app.build.storage import Storage
from tieline.app.build.tools import build_tools
from tieline.app.config import Config, ConfigError, StoreSettings, ToolSettings
from tieline.app.saved_grants import SavedGrants
from tieline.core.inbox.inbox import AuditEntry
from tieline.model.content import ToolCall
from tieline.model.inbox import Approval, ApprovalAnswer, Origin
from tieline.model.rules import Rule
from tieline.tools.policy import Subject, Verdict

RULES = (
    Rule(decision="allow", tool="write_file", path="/a.txt"),
    Rule(decision="allow", tool="run_terminal", command="npm test"),
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# ── What was allowed for good ────────────────────────────────────────────────────────────────────


def saved(kept: SavedGrants) -> None:
    for rule in RULES:
        kept.add(rule)


def test_rules_are_kept_for_their_workspace_and_their_owner_only(tmp_path: Path) -> None:
    kept = SavedGrants(tmp_path / "config", "/home/me/project")
    assert kept.load() == ()
    saved(kept)
    assert SavedGrants(tmp_path / "config", "/home/me/project").load() == RULES
    assert SavedGrants(tmp_path / "config", "/home/you/project").load() == ()
    assert mode(kept.path) == 0o600
    assert mode(kept.path.parent) == 0o700
    names = {path.name for path in kept.path.parent.iterdir()}
    assert names == {kept.path.name, kept.path.with_suffix(".lock").name}, "nothing unfinished is left"
    assert kept.path.name.startswith("project-")


@pytest.mark.parametrize("workspace", ["/", "/home/me/odd name/😀", "/x" * 2000, "/\udcff"])
def test_any_workspace_can_have_rules(tmp_path: Path, workspace: str) -> None:
    kept = SavedGrants(tmp_path, workspace)
    saved(kept)
    assert kept.load() == RULES


@pytest.mark.parametrize("text", ["", "{", '[{"decision": "sometimes"}]', '[{"path": "a"}]', "\x00"])
def test_a_file_that_cannot_be_understood_stops_the_start(tmp_path: Path, text: str) -> None:
    """To go on without would be to ask again what was answered; to guess would be worse."""
    kept = SavedGrants(tmp_path, "/w")
    saved(kept)
    kept.path.write_text(text)
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        kept.load()
    assert str(kept.path) in str(caught.value)


def test_a_file_that_others_may_have_written_is_not_trusted(tmp_path: Path) -> None:
    kept = SavedGrants(tmp_path, "/w")
    saved(kept)
    kept.path.chmod(0o620)
    with pytest.raises(ConfigError, match="other users can write to it"):
        kept.load()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    kept = SavedGrants(tmp_path, "/w")
    saved(kept)
    kept.path.unlink()
    match kind:
        case "link":
            (tmp_path / "other.json").write_text("[]")
            kept.path.symlink_to(tmp_path / "other.json")
        case "folder":
            kept.path.mkdir()
        case _:
            os.mkfifo(kept.path)
    with pytest.raises(ConfigError, match="cannot be read"):
        kept.load()


def test_two_gateways_of_one_workspace_share_what_is_granted_and_what_is_revoked(tmp_path: Path) -> None:
    one, other = SavedGrants(tmp_path, "/w"), SavedGrants(tmp_path, "/w")
    first, second = RULES
    assert one.load() == other.load() == ()
    one.add(first)
    assert other.rules() == (first,), "it takes effect at once"
    other.add(second)
    assert one.rules() == other.rules() == (first, second)
    assert one.remove(first.id)
    assert other.rules() == (second,)
    other.add(Rule(decision="allow", path="later"))
    assert first not in one.rules(), "what was revoked does not come back"
    assert not other.remove(first.id)
    assert SavedGrants(tmp_path, "/w").load() == one.rules()


def test_two_gateways_that_grant_at_once_lose_nothing(tmp_path: Path) -> None:
    rules = [Rule(decision="allow", path=f"/{number}") for number in range(40)]
    gateways = [SavedGrants(tmp_path, "/w") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: gateways[one[0] % 4].add(one[1]), enumerate(rules)))
    assert {rule.id for rule in SavedGrants(tmp_path, "/w").load()} == {rule.id for rule in rules}


def test_a_file_that_is_broken_meanwhile_grants_nothing_and_is_not_overwritten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = SavedGrants(tmp_path, "/w")
    saved(kept)
    kept.path.write_text("{")
    with caplog.at_level(logging.WARNING):
        assert kept.rules() == kept.rules() == ()
    assert caplog.text.count("you will be asked again") == 1
    extra = Rule(decision="allow", path="x")
    with pytest.raises(OSError, match="cannot be read"):
        kept.add(extra)
    assert kept.path.read_text() == "{"
    assert kept.rules() == (extra,), "it holds until the end of the program"


def test_a_revocation_that_cannot_be_written_holds_until_the_end(tmp_path: Path) -> None:
    kept = SavedGrants(tmp_path, "/w")
    saved(kept)
    lock = kept.path.with_suffix(".lock")
    lock.unlink()
    lock.mkdir()
    with pytest.raises(OSError, match="directory"):
        kept.remove(RULES[0].id)
    assert kept.rules() == RULES[1:]
    assert kept.load() == RULES


# ── The audit ────────────────────────────────────────────────────────────────────────────────────

ORIGIN = Origin(model="m", title="go")


def asked(text: str = "ls") -> AuditEntry:
    return AuditEntry(at=1.5, what="asked", item="a1", origin=ORIGIN, content=Approval(title="Run", command=text))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_entry_is_a_line_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "audit.jsonl"
    audit = AuditLog(path, clock=lambda: 2.5)
    audit.write_entry(asked())
    audit.write_entry(
        AuditEntry(at=2.0, what="decided", item="a1", origin=ORIGIN, answer=ApprovalAnswer(option="allow"), by="me")
    )
    audit.write_ruling(
        Subject(tool="run_terminal", command="ls"), Verdict(decision="allow", reason="everything is allowed")
    )
    first, second, third = lines(path)
    assert first == {
        "at": 1.5,
        "what": "asked",
        "item": "a1",
        "origin": {"model": "m", "title": "go"},
        "ask": {"type": "permission", "title": "Run", "command": "ls"},
    }
    assert (second["answer"], second["by"]) == ({"type": "permitted", "option": "allow"}, "me")
    assert third == {
        "at": 2.5,
        "what": "ruled",
        "decision": "allow",
        "reason": "everything is allowed",
        "call": {"tool": "run_terminal", "command": "ls"},
    }
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_a_full_file_makes_room_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(path, clock=lambda: 0.0, limit=1000, kept=2)
    for number in range(60):
        audit.write_entry(asked(f"command {number}"))
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all((tmp_path / name).stat().st_size <= 1000 for name in names)
    kept = [line["ask"]["command"] for name in reversed(names) for line in lines(tmp_path / name)]  # type: ignore[index] # JSON
    assert kept == [f"command {number}" for number in range(60 - len(kept), 60)]


def test_long_texts_are_cut_and_odd_ones_written_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    AuditLog(path, clock=lambda: 0.0).write_entry(asked("\ud800" + "x" * LONGEST_TEXT))
    (line,) = lines(path)
    command = line["ask"]["command"]  # type: ignore[index] # JSON
    assert command.startswith("?xxx")
    assert command.endswith(f"x… ({LONGEST_TEXT + 1} characters)")


def test_a_failure_is_logged_once_and_again_only_after_it_went_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditLog(path, clock=lambda: 0.0)
    for is_broken in (True, True, False, True):
        if is_broken and not path.is_dir():
            path.unlink(missing_ok=True)
            path.mkdir()
        elif not is_broken:
            path.rmdir()
        audit.write_entry(asked())
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def test_without_a_home_nothing_is_written_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    audit = open_audit_log({})
    audit.write_entry(asked())
    audit.write_entry(asked())
    assert [record.getMessage() for record in caplog.records] == [
        "could not write the audit log (neither HOME nor XDG_STATE_HOME is set); decisions are not being recorded"
    ]


def test_the_state_folder_of_the_user_is_used(tmp_path: Path) -> None:
    open_audit_log({"HOME": "/nowhere", "XDG_STATE_HOME": str(tmp_path)}).write_entry(asked())
    assert len(lines(tmp_path / "tieline" / "audit.jsonl")) == 1


# ── The tools that are made of the settings ──────────────────────────────────────────────────────


def env(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


def made(home: Path, **settings: object) -> str:
    """What is said of the tools at the start."""
    _, status = build_tools(
        ToolSettings(enabled=True, **settings),  # type: ignore[arg-type] # any setting
        env(home),
        AuditLog(None, clock=lambda: 0.0),
        Storage(StoreSettings(), env(home)),
    )
    return status.text


def test_tools_that_are_off_are_not_made(tmp_path: Path) -> None:
    assert build(Config(tools=ToolSettings(workspace="/nowhere")), env(tmp_path)).tools is None


def test_the_start_says_where_tools_act_and_what_they_may_do(tmp_path: Path) -> None:
    assert made(tmp_path, workspace=str(tmp_path)).startswith(f"{tmp_path}: reading is allowed, everything else asks")
    assert "EVERYTHING is allowed" in made(tmp_path, workspace=str(tmp_path), yolo=True)
    assert "; 2 configured rules" in made(tmp_path, workspace=str(tmp_path), rules=RULES)
    saved(SavedGrants(tmp_path / ".config" / "tieline", str(tmp_path)))
    assert "; 2 saved permissions" in made(tmp_path, workspace=str(tmp_path))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workspace": "{home}/nowhere"}, "the workspace {home}/nowhere is not a directory"),
        ({"workspace": "{home}/file"}, "the workspace {home}/file is not a directory"),
        ({"workspace": "{home}", "shell": "no-such-shell"}, "`tools.shell` is no-such-shell"),
    ],
)
def test_what_cannot_be_stops_the_start_with_a_reason(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    (tmp_path / "file").touch()
    given = {name: value.format(home=tmp_path) for name, value in settings.items()}
    with pytest.raises(ConfigError) as caught:
        made(tmp_path, **given)
    assert words.format(home=tmp_path) in str(caught.value)


@pytest.mark.parametrize("path", [".config/tieline/cursor-login.json", ".local/state/tieline/audit.jsonl"])
async def test_a_model_cannot_read_our_logins_where_the_workspace_holds_them(tmp_path: Path, path: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text("secret")
    settings = ToolSettings(enabled=True, workspace=str(tmp_path))
    keeper, _ = build_tools(
        settings, env(tmp_path), AuditLog(None, clock=lambda: 0.0), Storage(StoreSettings(), env(tmp_path))
    )

    async def decision(name: str) -> str:
        call = ToolCall(id="1", name="read_file", arguments=json.dumps({"path": name}))
        return (await keeper.judge(call)).verdict.decision

    assert await decision(path) == "deny"
    assert await decision("README.md") == "allow"
