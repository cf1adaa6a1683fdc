"""How programs are found, on POSIX systems and on Windows."""

import os
import sys
from pathlib import Path

import pytest

from tieline.net.process.search import find_program


def program(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")


def test_the_first_program_on_the_path_is_found(tmp_path: Path) -> None:
    env = {"PATH": os.pathsep.join((str(tmp_path / "one"), str(tmp_path / "two")))}
    assert find_program("npx", env) is None
    second = program(tmp_path / "two" / "npx")
    assert find_program("npx", env) == second
    assert find_program("npx", env) != program(tmp_path / "one" / "npx.cmd")
    assert find_program("npx", env) != program(tmp_path / "npx")
    first = program(tmp_path / "one" / "npx")
    assert find_program("npx", env) == first
    assert find_program("npx", {}) is None


@pytest.mark.usefixtures("windows")
def test_on_windows_a_program_has_an_ending(tmp_path: Path) -> None:
    env = {"PATH": os.pathsep.join((str(tmp_path / "one"), str(tmp_path / "two")))}
    program(tmp_path / "one" / "npx")
    script = program(tmp_path / "two" / "npx.cmd")
    assert find_program("npx", env) == script
    assert find_program("npx.cmd", env) == script
    assert find_program("npx", {**env, "PATHEXT": ".EXE"}) is None
    assert find_program(str(tmp_path / "two" / "npx"), {}) == script


@pytest.mark.usefixtures("windows")
def test_on_windows_the_working_directory_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "claude.exe")
    monkeypatch.chdir(tmp_path)
    assert find_program("claude", {"PATH": f"{tmp_path / 'bin'}{os.pathsep}"}) is None
    assert find_program("claude", {"PATH": ""}) is None
