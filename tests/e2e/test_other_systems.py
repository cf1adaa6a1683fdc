"""The whole program on simulated systems: Windows, which lacks much of POSIX, and macOS."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.e2e.cli_support import WAIT, environment

PROGRAM = str(Path(__file__).with_name("other_system.py"))
KEY = {"TIELINE_KEY": "a-key-for-this-test"}
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


def variables(home: Path, **more: str) -> dict[str, str]:
    profile = {"APPDATA": str(home / "Roaming"), "LOCALAPPDATA": str(home / "Local")}
    return environment(home, **profile, **more)


def ran(home: Path, system: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, PROGRAM, system, *arguments],
        cwd=home,
        env=variables(home, **more),
        capture_output=True,
        text=True,
        timeout=WAIT,
    )


@contextmanager
def serving(home: Path, system: str, *arguments: str, **more: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, PROGRAM, system, "serve", "--port", "0", *arguments],
        cwd=home,
        env=variables(home, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    bound = Timer(2 * WAIT, process.kill)
    bound.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
        assert found is not None, line + process.stdout.read()
        yield process, int(found[1])
    finally:
        bound.cancel()
        process.kill()
        process.communicate(timeout=WAIT)


def ask(port: int, path: str, question: object = None, key: str = "") -> tuple[int, Any]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection:
        headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
        body = None if question is None else json.dumps(question)
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def tool_call(port: int) -> dict[str, Any]:
    """Let the demo model call a tool, and return its call."""
    words = [{"role": "user", "content": "read notes.txt"}]
    status, answer = ask(port, "/v1/chat/completions", {"model": "demo/scripted", "messages": words, "tools": [TOOL]})
    assert status == 200, answer
    [call] = answer["choices"][0]["message"]["tool_calls"]
    function: dict[str, Any] = call["function"]
    return function


def test_windows_serves_a_tool_call_and_keeps_its_files_in_the_profile(tmp_path: Path) -> None:
    with serving(tmp_path, "windows") as (process, port):
        assert tool_call(port) == {"name": "read_file", "arguments": '{"path":"notes.txt"}'}
        status, stored = ask(port, "/v1/responses", {"model": "demo/scripted", "input": "hi", "store": True})
        assert status == 200
        assert ask(port, f"/v1/responses/{stored['id']}")[0] == 200
        assert ask(port, "/api/state")[0] == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 0
    assert (tmp_path / "Local" / "tieline").is_dir()
    assert not (tmp_path / ".local").exists()


def test_windows_refuses_connections_of_other_users(tmp_path: Path) -> None:
    with serving(tmp_path, "windows", OTHER_USER="1") as (_, port):
        status, answer = ask(port, "/v1/models")
        assert status == 401
        assert answer["error"]["message"].startswith("This connection comes from another user of this machine")
    with serving(tmp_path, "windows", OTHER_USER="1", **KEY) as (_, port):
        assert ask(port, "/v1/models", key=KEY["TIELINE_KEY"])[0] == 200


@pytest.mark.parametrize("settings", ["--tools", "[acp]\nfiles = true\n", "[acp]\nterminals = true\n"])
def test_windows_offers_no_tools_of_the_gateway(settings: str, tmp_path: Path) -> None:
    arguments = [settings]
    if settings != "--tools":
        (tmp_path / "own.toml").write_text(settings, "utf-8")
        arguments = ["--config", "own.toml"]
    done = ran(tmp_path, "windows", "serve", "--port", "0", *arguments)
    assert done.returncode == 2
    assert "this system cannot confine them to a folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("models",), ("check-config",), ("agents",), ("trust", "--list"), ("whoami",)])
def test_windows_runs_the_other_commands(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "Roaming" / "tieline").mkdir(parents=True)
    (tmp_path / "Roaming" / "tieline" / "tieline.toml").write_text("[aliases]\nmine = 'demo/scripted'\n", "utf-8")
    done = ran(tmp_path, "windows", *arguments)
    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if arguments == ("whoami",) else 0), done.stderr
    if arguments == ("models",):
        assert "mine" in done.stdout


@pytest.mark.skipif(shutil.which("lsof", path="/usr/sbin:/usr/bin") is None, reason="lsof is not installed")
def test_macos_serves_this_user_and_runs_the_tools_of_the_gateway(tmp_path: Path) -> None:
    with serving(tmp_path, "macos", "--tools") as (process, port):
        assert tool_call(port) == {"name": "read_file", "arguments": '{"path":"notes.txt"}'}
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 0
    assert (tmp_path / ".local" / "state").exists() or os.geteuid() == 0


@pytest.mark.parametrize("system", ["windows", "macos"])
def test_the_chat_and_the_doctor_work(tmp_path: Path, system: str) -> None:
    chat = ran(tmp_path, system, "chat", "-p", "say hello")
    assert (chat.returncode, chat.stdout.strip().lower()) == (0, "hello"), chat.stderr
    doctor = ran(tmp_path, system, "doctor", "--offline", "--json")
    found = {one["name"]: one["status"] for one in json.loads(doctor.stdout)["findings"]}
    assert (doctor.returncode, found["demo"], found["open files"]) == (0, "ok", "ok"), doctor.stderr
