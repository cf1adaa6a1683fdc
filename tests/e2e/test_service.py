"""The command `tieline service`, with substitutes for the programs of each system."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli_support import WAIT, command, environment

OTHER_SYSTEM = str(Path(__file__).with_name("other_system.py"))
PLACES = {
    "linux": (".config/systemd/user/tieline.service", "systemctl"),
    "macos": ("Library/LaunchAgents/tieline.gateway.plist", "launchctl"),
    "windows": ("Roaming/tieline/service.xml", "schtasks.exe"),
}
INSTALLED = {
    "linux": ["--user daemon-reload", "--user enable tieline.service", "--user restart tieline.service"],
    "macos": ["bootout gui/{uid}/tieline.gateway", "bootstrap gui/{uid} {path}"],
    "windows": ["/End /TN Tieline", "/Create /TN Tieline /XML {path} /F", "/Run /TN Tieline"],
}
REMOVED = {
    "linux": ["--user disable --now tieline.service", "--user daemon-reload"],
    "macos": ["bootout gui/{uid}/tieline.gateway"],
    "windows": ["/End /TN Tieline", "/Delete /TN Tieline /F"],
}


class Machine:
    """A home folder, and the program that manages services, which records how it is called."""

    def __init__(self, system: str, home: Path) -> None:
        self.system = system
        self.home = home
        place, program = PLACES[system]
        self.file = home / place
        folder = home / "bin"
        folder.mkdir()
        self._calls = home / "calls"
        self._failure = home / "fails"
        script = folder / program
        script.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$*" >> {self._calls}\n'
            f'case "$*" in *"$(cat {self._failure} 2> /dev/null || echo none)"*) exit 3;; esac\n'
        )
        script.chmod(0o755)

    def fail(self, text: str) -> None:
        """Let calls fail whose arguments contain a text."""
        self._failure.write_text(text)

    def calls(self) -> list[str]:
        """The calls since this was asked last."""
        found = self._calls.read_text().splitlines() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return found

    def expected(self, calls: list[str]) -> list[str]:
        return [call.format(uid=os.getuid(), path=self.file) for call in calls]

    def argv(self, *arguments: str) -> list[str]:
        given = ("service", *arguments)
        return command(*given) if self.system == "linux" else [sys.executable, OTHER_SYSTEM, self.system, *given]

    def env(self) -> dict[str, str]:
        own = environment(self.home, ANTHROPIC_API_KEY="sk-secret", APPDATA=str(self.home / "Roaming"))
        return {**own, "PATH": f"{self.home / 'bin'}{os.pathsep}{own['PATH']}"}

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(  # noqa: S603 - our own command
            self.argv(*arguments),
            cwd=self.home,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
        )


@pytest.fixture(params=["linux", "macos", "windows"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(request.param, tmp_path)


@pytest.fixture
def linux(tmp_path: Path) -> Machine:
    return Machine("linux", tmp_path)


def test_a_service_is_installed_shown_and_removed(machine: Machine) -> None:
    done = machine.run("install", "--yes")
    assert done.returncode == 0, done.stderr
    assert machine.file.stat().st_mode & 0o777 == 0o600
    assert b"secret" not in machine.file.read_bytes()
    assert "secret" not in done.stdout
    assert str(machine.file) in done.stdout
    called = machine.calls()
    assert called == machine.expected(INSTALLED[machine.system])
    assert all(call in done.stdout for call in called)

    assert machine.run("status").returncode == 0
    assert len(machine.calls()) == 1

    done = machine.run("remove", "--yes")
    assert done.returncode == 0, done.stderr
    assert machine.calls() == machine.expected(REMOVED[machine.system])
    assert not machine.file.exists()
    assert machine.run("status").returncode == 1
    assert machine.run("remove", "--yes").returncode == 1
    assert machine.calls() == []


def test_nothing_changes_without_an_answer(machine: Machine) -> None:
    done = machine.run("install")
    assert done.returncode == 1
    assert "confirm with --yes" in done.stdout
    assert not machine.file.exists()
    assert machine.calls() == []


def test_a_terminal_is_asked(linux: Machine) -> None:
    for answer, is_installed in ((b"\n", False), (b"n\n", False), (b"y\n", True)):
        keyboard, screen = pty.openpty()
        process = subprocess.Popen(  # noqa: S603 - our own command
            linux.argv("install"), cwd=linux.home, env=linux.env(), stdin=screen, stdout=screen, stderr=screen
        )
        os.close(screen)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(keyboard, 65536)
        os.write(keyboard, answer)
        process.wait(WAIT)
        os.close(keyboard)
        assert linux.file.exists() is is_installed


def test_a_failed_installation_leaves_nothing_behind(linux: Machine) -> None:
    linux.fail("enable")
    done = linux.run("install", "--yes")
    assert done.returncode == 3
    assert "failed, so the file was removed" in done.stdout
    assert not linux.file.exists()
    linux.fail("none")
    assert linux.run("install", "--yes").returncode == 0
    before = linux.file.read_bytes()
    (linux.home / "own.toml").write_text("")
    linux.fail("restart")
    done = linux.run("install", "--yes", "--config", "own.toml")
    assert "failed, so the file was restored" in done.stdout
    assert linux.file.read_bytes() == before


def test_a_file_of_another_program_is_left_alone(machine: Machine) -> None:
    machine.file.parent.mkdir(parents=True)
    machine.file.write_text("[Service]\nExecStart=/mine\n")
    for action in ("install", "remove"):
        done = machine.run(action, "--yes")
        assert done.returncode == 2
        assert "was not written by `tieline service`" in done.stderr
    assert machine.file.read_text() == "[Service]\nExecStart=/mine\n"
    assert machine.calls() == []


def test_the_configuration_file_must_exist_and_is_named_in_full(linux: Machine) -> None:
    done = linux.run("install", "--yes", "--config", "absent.toml")
    assert done.returncode == 2
    assert "absent.toml" in done.stderr
    (linux.home / "own.toml").write_text("")
    assert linux.run("install", "--yes", "--config", "own.toml").returncode == 0
    assert f'"--config" "{linux.home / "own.toml"}"' in linux.file.read_text()


def test_a_system_without_a_service_manager_is_told_so(linux: Machine) -> None:
    (linux.home / "bin" / "systemctl").unlink()
    env = {**linux.env(), "PATH": str(linux.home / "bin")}
    done = subprocess.run(  # noqa: S603 - our own command
        linux.argv("install", "--yes"), cwd=linux.home, env=env, capture_output=True, text=True, timeout=WAIT
    )
    assert done.returncode == 2
    assert "systemctl was not found" in done.stderr
    assert not linux.file.exists()
