"""The descriptions of the service for each system: what they run, and that they hold no secrets."""

import plistlib
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.each import each
from tieline.app.config import ConfigError
from tieline.app.service import Service, Setup, gateway_command, service_for

ODD = ("/opt/my tools/50%/tieline", "serve", "--config", '/home/me/a "b" $HOME\\c.toml')
ENV = {
    "HOME": "/home/me",
    "APPDATA": "/home/me/Roaming",
    "USERDOMAIN": "BOX",
    "USERNAME": "me & you",
    "ANTHROPIC_API_KEY": "sk-secret",
    "TIELINE_KEY": "sk-secret",
}
TASK = {"t": "http://schemas.microsoft.com/windows/2004/02/mit/task"}


def service(platform: str, command: tuple[str, ...] = ODD) -> Service:
    return service_for(platform, ENV, Setup(command, "/usr/bin:/opt/100%", Path("/home/me")), 501)


@each("platform", ["linux", "darwin", "win32"])
def test_no_key_is_part_of_a_description(platform: str) -> None:
    described = service(platform)
    assert "secret" not in str(described)
    assert "Written by `tieline service install`" in described.content


def test_systemd_reads_the_same_words_again() -> None:
    content = service("linux").content
    [line] = re.findall(r"^ExecStart=(.*)$", content, re.MULTILINE)
    quoted = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    read = [re.sub(r"\\(.)", r"\1", word).replace("%%", "%").replace("$$", "$") for word in quoted]
    assert tuple(read) == ODD
    assert 'Environment="PATH=/usr/bin:/opt/100%%"' in content
    assert "EnvironmentFile=-/home/me/.config/tieline/environment" in content


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "my tools"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    described = service_for(
        "linux", ENV, Setup((str(program), "serve", "--config", ODD[-1]), "/usr/bin", tmp_path), 501
    )
    unit = tmp_path / "tieline.service"
    unit.write_text(described.content, "utf-8")
    done = subprocess.run(  # noqa: S603 - the verifier of systemd
        ["systemd-analyze", "--user", "--man=no", "--generators=no", "verify", str(unit)],  # noqa: S607 - on the PATH
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    problems = [line for line in done.stderr.splitlines() if "tieline" in line]
    assert problems == []


def test_launchd_reads_the_command_and_restarts_it_after_a_failure() -> None:
    described = service("darwin")
    read = plistlib.loads(described.content.encode())
    assert tuple(read["ProgramArguments"]) == ODD
    assert read["EnvironmentVariables"] == {"PATH": "/usr/bin:/opt/100%"}
    assert read["KeepAlive"] == {"SuccessfulExit": False}
    assert described.path == Path("/home/me/Library/LaunchAgents/tieline.gateway.plist")
    assert described.install[-1].argv == ("launchctl", "bootstrap", "gui/501", str(described.path))


def test_the_task_scheduler_reads_the_command_and_never_stops_it() -> None:
    described = service("win32", ("C:\\My Tools\\tieline.exe", "serve", "--config", "C:\\a & b\\x.toml"))
    task = ET.fromstring(described.content.encode("utf-16"))  # noqa: S314 - our own text
    found = {name: task.findtext(f".//t:{name}", namespaces=TASK) for name in ("Command", "Arguments", "UserId")}
    assert found == {
        "Command": "C:\\My Tools\\tieline.exe",
        "Arguments": 'serve --config "C:\\a & b\\x.toml"',
        "UserId": "BOX\\me & you",
    }
    assert task.findtext(".//t:ExecutionTimeLimit", namespaces=TASK) == "PT0S"
    assert described.content.encode(described.encoding).startswith((b"\xff\xfe", b"\xfe\xff"))


def test_an_unknown_system_has_no_service() -> None:
    with pytest.raises(ConfigError, match="not on freebsd14"):
        service("freebsd14")


def test_the_command_is_the_script_beside_python(tmp_path: Path) -> None:
    python = tmp_path / "python"
    assert gateway_command(str(python), None) == (str(python), "-P", "-m", "tieline", "serve")
    (tmp_path / "tieline").touch()
    own = tmp_path / "own.toml"
    assert gateway_command(str(python), own) == (str(tmp_path / "tieline"), "serve", "--config", str(own))


def test_a_temporary_installation_is_not_made_a_service() -> None:
    with pytest.raises(ConfigError, match="uv tool install tieline"):
        gateway_command("/home/me/.cache/uv/archive-v0/abc/bin/python", None)
