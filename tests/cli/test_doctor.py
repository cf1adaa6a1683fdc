"""Tests of what `tieline doctor` prints, and of its exit status."""

import asyncio
import json
from pathlib import Path

import pytest

from tieline.app.doctor.findings import Check, Finding, ok, problem, run_checks, skipped, warning
from tieline.cli.doctor import Printer
from tieline.cli.main import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TIELINE_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text("[server]\nport = 0\n")
    (tmp_path / "bad.toml").write_text("[server]\nport = 'x'\n")
    return tmp_path


def test_it_works_without_configuration_and_network(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", "good.toml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")][:3] == ["Machine", "Files", "Configuration"]
    assert "\x1b" not in "".join(lines)
    assert lines[-1] == "1 warning."  # there is no ripgrep on that PATH


def test_the_json_holds_every_finding(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--config", "good.toml", "--json", "--offline"]) == 0
    report = json.loads(capsys.readouterr().out)
    demo = next(finding for finding in report["findings"] if finding["name"] == "demo")
    assert demo == {"area": "Backends", "name": "demo", "status": "ok", "text": "tool round trip", "fix": ""}
    assert report["counts"]["warning"] == 1


def test_the_exit_status_tells_problems_from_a_configuration_that_cannot_be_read(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--config", "bad.toml"]) == 2
    output = capsys.readouterr().out
    assert "bad.toml:2: " in output
    assert "Agents" in output
    (home / ".local" / "state" / "tieline").mkdir(parents=True, mode=0o777)
    (home / ".local" / "state" / "tieline").chmod(0o777)
    assert main(["doctor", "--config", "good.toml"]) == 1
    assert main(["doctor", "--config", "bad.toml", "--json"]) == 2
    assert main(["doctor", "--config", "missing.toml"]) == 2


def shown(*, is_terminal: bool, encoding: str) -> list[str]:
    printed: list[str] = []
    printer = Printer(printed.append, is_terminal=is_terminal, encoding=encoding)
    for finding in (ok("good", name="a"), warning("old", "Update it.", name="long name"), problem("bad", name="c")):
        printer.show(finding)
    printer.show(skipped("later", name="d"))
    return "\n".join(printed).splitlines()


def test_names_are_aligned_and_colours_are_for_terminals() -> None:
    assert (
        shown(is_terminal=False, encoding="utf-8")
        == [
            "",
            "  ✓ a                  good",
            "  ! long name          old",
            "                       → Update it.",
            "  ✗ c                  bad",
            "  · d                  later",
        ][1:]
    )
    assert shown(is_terminal=True, encoding="utf-8")[0] == "  \x1b[32m✓\x1b[0m a                  good"
    assert shown(is_terminal=False, encoding="ascii")[0] == "  + a                  good"


async def test_a_check_that_fails_or_hangs_does_not_stop_the_others() -> None:
    async def fails() -> Finding:
        raise ValueError("a bug")

    async def hangs() -> Finding:
        await hanging.wait()
        return ok("never")

    async def works() -> Finding:
        return ok("fine")

    hanging = asyncio.Event()
    checks = [Check("a", "1", fails), Check("a", "2", hangs, 0.01), Check("a", "3", works)]
    found = [finding async for finding in run_checks(checks)]
    assert [(one.name, one.status) for one in found] == [("1", "problem"), ("2", "problem"), ("3", "ok")]
    assert "ValueError: a bug" in found[0].text
    assert "0.01 s" in found[1].text


def test_requests_that_may_cost_money_are_announced(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = '[upstreams.{}]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nkey_env = "{}"\n'
    (home / "up.toml").write_text(f"[server]\nport = 0\n{table.format('keyed', 'HOME')}{table.format('keyless', 'NO')}")
    assert main(["doctor", "--config", "up.toml"]) == 1
    assert capsys.readouterr().out.startswith("Sending small requests with a tool to keyed: at least two")
    assert main(["doctor", "--config", "up.toml", "--offline"]) == 1
    assert capsys.readouterr().out.startswith("Machine\n")
