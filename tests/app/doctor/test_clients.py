"""Runs of a client, with a substitute for it: the verdict, both transcripts, and what is left behind."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.app.doctor.support import examined
from tieline.app.doctor.clients import ClientReport, run_client_check
from tieline.cli.doctor import client_text
from tieline.clients.client import Client, Headless, Recipe

PROGRAM = Path(__file__).with_name("substitute.py")


def substitute(mode: str, *, uses_tools: bool = True) -> Client:
    return Client(
        id="substitute",
        title="Substitute",
        programs=("substitute",),
        install="make substitute",
        protocol="chat",
        launch=lambda connection, _: Recipe(
            env={"SUBSTITUTE_URL": connection.api, "SUBSTITUTE_KEY": connection.key}, unset=("UNWANTED_*",)
        ),
        headless=lambda prompt: Headless(arguments=(mode, prompt), uses_tools=uses_tools),
    )


def installed(folder: Path, name: str = "substitute") -> str:
    """Put the program into a folder, and return a PATH with this folder."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(PROGRAM))} "$@"\n')
    path.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


async def checked(home: Path, mode: str, limit: float = 30.0, **env: str) -> ClientReport:
    environment = {"HOME": str(home), "PATH": installed(home / "bin"), **env}
    return await run_client_check(substitute(mode), environment, limit=limit)


async def test_a_good_client_passes_and_both_transcripts_show_it(tmp_path: Path) -> None:
    report = await checked(tmp_path, "good")
    assert (report.problem, report.version, report.requests) == ("", "4.5.6", 4)
    assert report.calls == ("read_file", "write_file", "read_file")
    assert any("heron" in line for line in report.output)
    assert "    text: read a.txt then write it to b.txt then read b.txt" in report.traffic
    assert sum(line.startswith("    → call: ") for line in report.traffic) == 3
    assert sum(line.startswith("    result: ") for line in report.traffic) == 3
    assert "    → ending: end_turn" in report.traffic
    text = client_text(report).splitlines()
    assert text[0].startswith("passed: Substitute 4.5.6, ")
    assert text.index("What the client printed:") < text.index("What the gateway saw:")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]  # noqa: ASYNC240 - a test may block


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("crash", "it exited with status 1"),
        ("silent", "it sent no request to the gateway"),
        ("lazy", "b.txt contains '' instead of 'heron"),
    ],
)
async def test_a_client_that_fails_says_how(mode: str, problem: str, tmp_path: Path) -> None:
    report = await checked(tmp_path, mode)
    assert report.problem.startswith(problem)
    assert report.fix
    assert client_text(report).startswith("failed: Substitute 4.5.6")


async def test_a_client_that_hangs_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    report = await checked(tmp_path, "hang", 1.5, PID_FILE=str(pid))
    assert report.problem == "it sent no request to the gateway; it did not end within 1.5 s"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_no_secret_reaches_the_client_or_the_report(tmp_path: Path) -> None:
    secrets = {"ANTHROPIC_API_KEY": "sk-ant-of-the-user", "UP_TOKEN": "token", "XDG_CONFIG_HOME": str(tmp_path)}
    report = await checked(tmp_path, "leak", 30.0, PWD=str(tmp_path), **secrets)
    assert report.problem == ""
    printed = "\n".join(report.output)
    assert "found [] in " in printed
    assert "PWD is right: True" in printed
    assert f"in {tmp_path}" not in printed
    assert "key *** and ***" in printed
    assert "\x1b" not in printed


async def test_a_client_that_is_not_installed_says_how_to_install_it(tmp_path: Path) -> None:
    report = await run_client_check(substitute("good"), {"HOME": str(tmp_path), "PATH": ""})
    assert (report.problem, report.fix) == ("it is not installed", "Install it: `make substitute`.")


async def test_installed_clients_are_listed_with_their_versions(tmp_path: Path) -> None:
    path = installed(tmp_path / "bin", "claude")
    (tmp_path / "bin" / "codex").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin" / "codex").chmod(0o755)
    found = await examined(tmp_path, "[server]\nport = 0\n[acp]\nenabled = false\n", PATH=path)
    assert found["claude"].text == f"Claude Code 4.5.6 ({tmp_path}/bin/claude)"
    assert found["codex"].status == "problem"
    assert "not installed: opencode" in found["others"].text
