"""Files and commands of agents through the gateway: inside the workspace, under the rules, allowed by a person."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.backends.acp_support import SOON, Person, until
from tieline.app.audit import open_audit_log
from tieline.app.build.storage import Storage
from tieline.app.build.tools import build_tools
from tieline.app.config import StoreSettings, ToolSettings
from tieline.app.local_host import MOST_TERMINALS, AgentFiles, AgentTerminals
from tieline.backends.acp.host_services import CommandExit, TerminalCommand
from tieline.model.errors import GatewayError
from tieline.model.inbox import Approval, ApprovalAnswer
from tieline.model.ports import Host
from tieline.model.rules import Rule
from tieline.tasks import Tasks
from tieline.tools.guarded_tools import GuardedTools

YES, NO, NOBODY = (
    ApprovalAnswer(option="allow"),
    ApprovalAnswer(option="deny", reason="Not now."),
    ApprovalAnswer(reason="too late"),
)


def keeper_of(home: Path, *rules: Rule, yolo: bool = False) -> GuardedTools:
    (home / "work").mkdir(exist_ok=True)
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    settings = ToolSettings(enabled=True, workspace=str(home / "work"), rules=rules, yolo=yolo)
    made = build_tools(settings, env, open_audit_log(env), Storage(StoreSettings(), env))
    assert made is not None
    return made[0]


@asynccontextmanager
async def terminals_of(home: Path, *rules: Rule, yolo: bool = True) -> AsyncIterator[AgentTerminals]:
    tasks = Tasks()
    keeper = keeper_of(home, *rules, yolo=yolo)
    try:
        async with asyncio.timeout(SOON):
            yield AgentTerminals(
                keeper, tasks, environment={"PATH": "/usr/bin:/bin", "GREETING": "hello"}, interpreter=("/bin/sh", "-c")
            )
    finally:
        await tasks.aclose()


def command(program: str, *arguments: str, **more: Any) -> TerminalCommand:
    return TerminalCommand(
        **{"program": program, "arguments": arguments, "env": {}, "cwd": None, "limit": None, **more}
    )


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "limit", "shown"),
    [
        (None, None, "a\nb\x0cc\nd"),
        (2, None, "b\x0cc\nd"),
        (2, 1, "b\x0cc\n"),
        (None, 1, "a\n"),
        (9, 9, ""),
        (0, 0, ""),
    ],
)
async def test_a_file_is_read_whole_or_by_its_lines(
    tmp_path: Path, line: int | None, limit: int | None, shown: str
) -> None:
    files = AgentFiles(keeper_of(tmp_path))
    (tmp_path / "work" / "a.txt").write_text("a\nb\x0cc\nd")
    person = Person()
    for path in ("a.txt", str(tmp_path / "work" / "a.txt")):
        assert await files.read(path, line, limit, Host(person)) == shown
    assert person.asked == [], "reading inside the workspace is allowed"


async def test_what_is_not_there_is_told_from_what_may_not_be_read(tmp_path: Path) -> None:
    files = AgentFiles(keeper_of(tmp_path, Rule(decision="deny", path="secret")))
    work = tmp_path / "work"
    (work / "secret").write_text("s")
    (work / "binary").write_bytes(b"\xff\xfe\x00")
    (work / "way_out").symlink_to("/etc")
    with pytest.raises(FileNotFoundError):
        await files.read("new.txt", None, None, Host(Person()))
    for path in ("secret", "binary", "/etc/passwd", "../outside", "way_out/passwd", "."):
        with pytest.raises(GatewayError) as caught:
            await files.read(path, None, None, Host(Person()))
        assert caught.value.kind == "forbidden", path


async def test_a_write_is_asked_for_and_done_when_it_is_allowed(tmp_path: Path) -> None:
    files = AgentFiles(keeper_of(tmp_path))
    person = Person(YES)
    await files.write(str(tmp_path / "work" / "a.txt"), "new\n", Host(person))
    assert (tmp_path / "work" / "a.txt").read_text() == "new\n"
    (ask,) = person.asked
    assert isinstance(ask, Approval)
    assert "+new" in ask.diff


@pytest.mark.parametrize("answer", [NO, NOBODY])
async def test_a_write_that_nobody_allows_is_not_done(tmp_path: Path, answer: ApprovalAnswer) -> None:
    files = AgentFiles(keeper_of(tmp_path))
    with pytest.raises(GatewayError, match=answer.reason):
        await files.write("a.txt", "new\n", Host(Person(answer)))
    with pytest.raises(GatewayError, match="outside the workspace"):
        await files.write("/tmp/tieline-outside", "new\n", Host(Person(YES)))  # noqa: S108 - it is refused
    assert list((tmp_path / "work").iterdir()) == []


# ── Commands ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_command_runs_as_it_was_shown(tmp_path: Path) -> None:
    async with terminals_of(tmp_path, yolo=False) as terminals:
        person = Person(YES)
        asked = command("printf", "%s|", "a b", "$HOME", env={"WHO": "it's me"})
        name = await terminals.create(asked, Host(person))
        assert await terminals.wait(name) == CommandExit(status=0)
        assert await terminals.output(name) == ("a b|$HOME|", False, CommandExit(status=0))
        (ask,) = person.asked
        assert isinstance(ask, Approval)
        assert ask.command == """export WHO='it'"'"'s me'; printf '%s|' 'a b' '$HOME'"""


async def test_a_line_without_arguments_is_run_by_a_shell_with_both_streams_in_one(tmp_path: Path) -> None:
    async with terminals_of(tmp_path) as terminals:
        line = "echo $GREETING $WHO; echo no >&2; pwd; exit 3"
        name = await terminals.create(command(line, env={"WHO": "you"}), Host(Person()))
        assert await terminals.wait(name) == CommandExit(status=3)
        assert (await terminals.output(name)).output == f"hello you\nno\n{tmp_path / 'work'}\n"


async def test_what_is_not_allowed_is_not_run(tmp_path: Path) -> None:
    async with terminals_of(tmp_path, Rule(decision="deny", command="rm"), yolo=False) as terminals:
        with pytest.raises(GatewayError, match=r"Not now\."):
            await terminals.create(command("touch", "a"), Host(Person(NO)))
        with pytest.raises(GatewayError, match="Not allowed"):
            await terminals.create(command("rm", "-rf", "."), Host(Person(YES)))
        for wrong in (command("ls", cwd="/etc"), command("ls", cwd="nowhere"), command("ls", env={"A B": "1"})):
            with pytest.raises(GatewayError):
                await terminals.create(wrong, Host(Person(YES)))
        assert list((tmp_path / "work").iterdir()) == []


async def test_only_the_end_of_much_output_is_kept_and_characters_stay_whole(tmp_path: Path) -> None:
    async with terminals_of(tmp_path) as terminals:
        name = await terminals.create(command("printf", "äöü", limit=5), Host(Person()))
        await terminals.wait(name)
        assert (await terminals.output(name))[:2] == ("öü", True)


async def test_a_command_can_be_ended_and_what_it_wrote_stays(tmp_path: Path) -> None:
    async with terminals_of(tmp_path) as terminals:
        name = await terminals.create(command("echo begun; sleep 1000"), Host(Person()))
        written = terminals._terminals[name].running.stdout
        await until(lambda: written.total > 0)
        assert (await terminals.output(name)).ended is None
        waiting = asyncio.create_task(terminals.wait(name))
        await terminals.kill(name)
        assert await waiting == CommandExit(signal="SIGTERM")
        assert (await terminals.output(name)).output == "begun\n"
        await terminals.release(name)
        with pytest.raises(KeyError):
            await terminals.output(name)


async def test_who_stops_waiting_does_not_end_the_command_but_the_gateway_does(tmp_path: Path) -> None:
    async with terminals_of(tmp_path) as terminals:
        name = await terminals.create(command("sleep 1000"), Host(Person()))
        running = terminals._terminals[name].running
        waiting = asyncio.create_task(terminals.wait(name))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not running.is_over
    assert running.is_over


async def test_there_is_a_bound_on_terminals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_TERMINALS > 1
    monkeypatch.setattr("tieline.app.local_host.MOST_TERMINALS", 1)
    async with terminals_of(tmp_path) as terminals:
        name = await terminals.create(command("true"), Host(Person()))
        with pytest.raises(GatewayError, match="release one first"):
            await terminals.create(command("true"), Host(Person()))
        await terminals.release(name)
        await terminals.create(command("true"), Host(Person()))
