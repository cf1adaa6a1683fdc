"""The command `tieline tunnel` with a substitute for the program that opens the tunnel."""

import json
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.e2e.cli_support import WAIT, command, configured, environment, ran, said

ADDRESSES = {
    "cloudflared": "https://quiet-river-seven-words.trycloudflare.com",
    "tailscale": "https://box.tail1a2b.ts.net",
}
EACH_PROGRAM = pytest.mark.parametrize("name", ["cloudflared", "tailscale"])
QUESTION = {"model": "demo/scripted", "messages": [{"role": "user", "content": "Hello"}]}
FIXED = "a-fixed-key-of-decent-length"


def installed(home: Path, name: str, behaviour: str = "serve") -> Path:
    """Install the substitute program; return its folder."""
    folder = home / "bin"
    folder.mkdir(exist_ok=True)
    arguments = shlex.join(
        [sys.executable, "-I", str(Path(__file__).with_name("tunnel_program.py")), str(folder), name]
    )
    (folder / name).write_text(f'#!/bin/sh\nexec {arguments} "$@"\n')
    (folder / name).chmod(0o755)
    (folder / "behaviour").write_text(behaviour)
    return folder


class Tunnel:
    """A running `tieline tunnel` and the substitute program behind it."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, text: str) -> None:
        self.process = process
        self.text = text
        """Its output up to the end of the introduction."""
        self._folder = folder

    @property
    def key(self) -> str:
        found = re.search(r"OpenAI API Key +(\S+)\n", self.text)
        assert found is not None
        return found[1]

    @property
    def pid(self) -> int:
        """The process id of the substitute program."""
        return int((self._folder / "pid").read_text())

    def ask(self, method: str, path: str, key: str, body: Any = None) -> tuple[int, Any]:
        """Send a request through the tunnel, as from the internet."""
        port = int((self._folder / "port").read_text())
        headers = {"host": "public.example", "cf-connecting-ip": "203.0.113.9", "authorization": f"Bearer {key}"}
        with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@contextmanager
def tunnel(home: Path, folder: Path, *arguments: str, **more: str) -> Iterator[Tunnel]:
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(  # noqa: S603 - our own command
        command("tunnel", *arguments),
        cwd=home,
        env=environment(home, **{"PATH": path, **more}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    bound = Timer(3 * WAIT, process.kill)
    bound.start()
    try:
        assert process.stdout is not None
        text = ""
        while "keep the key secret" not in text:
            line = process.stdout.readline()
            assert line, f"it ended: {text}"
            text += line
        yield Tunnel(process, folder, text)
    finally:
        bound.cancel()
        process.kill()
        process.communicate(timeout=WAIT)


@contextmanager
def watching(pid: int) -> Iterator[int]:
    """Return a descriptor that becomes readable when a process has ended."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def has_ended(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], WAIT)[0])


@EACH_PROGRAM
def test_a_tunnel_serves_the_editor_until_it_is_interrupted(name: str, tmp_path: Path) -> None:
    folder = installed(tmp_path, name)
    with tunnel(tmp_path, folder, OPENAI_API_KEY="sk-upstream-secret") as opened:
        address, key = ADDRESSES[name], opened.key
        assert f"Override OpenAI Base URL   {address}/cursor/v1\n" in opened.text
        assert f"Base URL                   {address}\n" in opened.text
        assert "\n  demo/scripted\n" in opened.text
        assert len(key) > 40
        assert "OPENAI_API_KEY" not in (folder / "environment").read_text()

        blank = opened.line()
        status, listed = opened.ask("GET", "/cursor/v1/models", key)
        assert status == 200
        assert "demo/scripted" in {model["id"] for model in listed["data"]}
        listing = opened.line()
        assert opened.ask("POST", "/cursor/v1/chat/completions", key, QUESTION)[0] == 200
        asked = opened.line()
        assert opened.ask("POST", "/openai/deployments/demo/scripted/chat/completions", key, QUESTION)[0] == 200
        assert opened.ask("POST", "/cursor/v1/chat/completions", "wrong", QUESTION)[0] == 401
        assert opened.ask("GET", "/api/state", key) == opened.ask("GET", "/v1/models", key)
        assert opened.ask("GET", "/api/state", key)[0] == 404
        with watching(opened.pid) as child:
            opened.process.send_signal(signal.SIGINT)
            rest = said(opened.process)
            assert has_ended(child)
    assert opened.process.returncode == 0
    assert blank == "\n"
    assert re.fullmatch(r"\d\d:\d\d:\d\d +0  GET /cursor/v1/models +200\n", listing)
    assert re.fullmatch(r"\d\d:\d\d:\d\d +1  demo/scripted +ok +\d+ tokens in, \d+ out\n", asked)
    assert re.search(r"POST /cursor/v1/chat/completions +401  from 203\.0\.113\.9\n", rest)
    assert re.search(r"^2 requests, 4 refused, \d+ tokens in, \d+ out\.$", rest, re.MULTILINE)
    assert (opened.text + rest).count(key) == 1
    assert "Traceback" not in rest


def test_each_run_has_a_new_key(tmp_path: Path) -> None:
    folder = installed(tmp_path, "cloudflared")
    keys = set()
    for _ in range(2):
        with tunnel(tmp_path, folder) as opened:
            keys.add(opened.key)
    assert len(keys) == 2


def test_a_fixed_key_is_never_shown(tmp_path: Path) -> None:
    folder = installed(tmp_path, "cloudflared")
    with tunnel(tmp_path, folder, "--key-env", "EDITOR_KEY", EDITOR_KEY=FIXED) as opened:
        assert "the value of EDITOR_KEY" in opened.text
        assert opened.ask("POST", "/cursor/chat/completions", FIXED, {**QUESTION, "model": f"x/{FIXED}"})[0] == 404
        assert opened.ask("GET", "/cursor/models", FIXED)[0] == 200
        opened.process.send_signal(signal.SIGTERM)
        output = opened.text + said(opened.process)
    assert "x/***" in output
    assert FIXED not in output


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({}, "--key-env EDITOR_KEY: this variable is not set"),
        ({"EDITOR_KEY": "short"}, "this key is too short; use at least 20 characters"),
        ({"EDITOR_KEY": FIXED, "TIELINE_KEY": FIXED}, "this is the gateway's own key; use another one"),
    ],
)
def test_a_fixed_key_that_is_not_safe_is_refused(env: dict[str, str], said: str, tmp_path: Path) -> None:
    folder = installed(tmp_path, "cloudflared")
    result = ran(tmp_path, "tunnel", "--key-env", "EDITOR_KEY", typed="", tells_loaded=False, PATH=str(folder), **env)
    assert result.returncode == 2
    assert said in result.stderr
    assert not (folder / "pid").exists()


def test_patterns_limit_the_models(tmp_path: Path) -> None:
    configured(tmp_path, '[aliases]\nquick = "demo/scripted"\n')
    folder = installed(tmp_path, "cloudflared")
    with tunnel(tmp_path, folder, "--models", "quick", "--models", "other/*") as opened:
        assert re.search(r"Add these models by name:\n\n  quick\n\n", opened.text)
        assert "use quick, other/*, but not acp/*." in opened.text
        assert opened.ask("POST", "/cursor/chat/completions", opened.key, {**QUESTION, "model": "quick"})[0] == 200
        assert opened.ask("POST", "/cursor/chat/completions", opened.key, {**QUESTION, "model": "acp/x"})[0] == 403
        status, error = opened.ask("POST", "/cursor/chat/completions", opened.key, {**QUESTION, "model": "demo/x"})
    assert status == 403
    assert (
        error["error"]["message"]
        == "This key may not use the model `demo/x`. It may use quick, other/*, but not acp/*."
    )


def test_a_gateway_may_run_at_the_main_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        configured(tmp_path, f"[server]\nport = {taken.getsockname()[1]}\n")
        with tunnel(tmp_path, installed(tmp_path, "cloudflared")) as opened:
            assert opened.ask("GET", "/cursor/models", opened.key)[0] == 200


def test_a_program_that_dies_ends_the_tunnel_with_its_last_lines(tmp_path: Path) -> None:
    with tunnel(tmp_path, installed(tmp_path, "cloudflared")) as opened:
        os.kill(opened.pid, signal.SIGKILL)
        rest = said(opened.process)
    assert opened.process.returncode == 1
    assert "tieline: cloudflared was ended by SIGKILL\n" in rest
    assert rest.endswith("INF Starting tunnel\n")
    assert opened.key not in rest


def test_a_program_that_cannot_open_a_tunnel_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    folder = installed(tmp_path, "cloudflared", "fail")
    result = ran(tmp_path, "tunnel", PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert result.returncode == 1
    assert result.stderr.startswith("tieline: cloudflared exited with status 1 before it printed a public address\n")
    assert 'failed to request quick Tunnel: Post "https://api.trycloudflare.com/tunnel"' in result.stderr
    assert "sk-tieline-" not in result.stdout + result.stderr


IMPATIENT = """
import os, sys
from tieline.app.config import Config
from tieline.app.tunnel import PROGRAMS, TunnelError, TunnelOptions, run_tunnel
from tieline.frontends.keys import NamedKey
options = TunnelOptions(PROGRAMS["tailscale"], sys.argv[1], NamedKey("tunnel", "key"), patience=3)
try:
    run_tunnel(
        Config(),
        dict(os.environ),
        options,
        announce=print,
        observe=lambda exchange, error: None,
        watch=lambda event: None,
    )
except TunnelError as error:
    print(error.message)
    print(error.output)
"""


def test_a_program_that_prints_no_address_is_ended(tmp_path: Path) -> None:
    folder = installed(tmp_path, "tailscale", "wait")
    result = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", IMPATIENT, str(folder / "tailscale")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=WAIT,
    )
    assert result.stdout.startswith("tailscale did not print a public address within 3 seconds\nFunnel is not enabled")
    assert "https://login.tailscale.com/f/funnel?node=n1" in result.stdout
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)


def test_a_killed_gateway_takes_the_program_with_it(tmp_path: Path) -> None:
    with tunnel(tmp_path, installed(tmp_path, "cloudflared")) as opened, watching(opened.pid) as child:
        opened.process.kill()
        assert has_ended(child)


def test_without_a_program_the_command_says_how_to_install_one(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = ran(tmp_path, "tunnel", PATH=str(tmp_path / "empty"))
    assert result.returncode == 2
    assert "no program for tunnels is installed" in result.stderr
    assert "cloudflared (https://developers.cloudflare.com/" in result.stderr
    assert "tailscale (https://tailscale.com/download)" in result.stderr


def test_the_chosen_program_must_be_installed(tmp_path: Path) -> None:
    folder = installed(tmp_path, "cloudflared")
    result = ran(tmp_path, "tunnel", "--with", "tailscale", PATH=str(folder))
    assert result.returncode == 2
    assert "tieline: tailscale is not installed: install tailscale (https://tailscale.com/download)" in result.stderr
    assert not (folder / "pid").exists()


def test_with_json_standard_output_has_nothing_but_events(tmp_path: Path) -> None:
    folder = installed(tmp_path, "cloudflared")
    process = subprocess.Popen(  # noqa: S603 - our own command
        command("tunnel", "--json"),
        cwd=tmp_path,
        env=environment(tmp_path, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"),
        stdout=subprocess.PIPE,
        text=True,
    )
    bound = Timer(3 * WAIT, process.kill)
    bound.start()
    try:
        assert process.stdout is not None
        opened = json.loads(process.stdout.readline())
        assert (opened["event"], opened["url"]) == ("open", f"{ADDRESSES['cloudflared']}/cursor/v1")
        assert "demo/scripted" in opened["models"]
        client = Tunnel(process, folder, "")
        assert client.ask("POST", "/cursor/v1/chat/completions", opened["key"], QUESTION)[0] == 200
        asked = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=WAIT)[0]
    finally:
        bound.cancel()
        process.kill()
        process.communicate(timeout=WAIT)
    assert asked == {"event": "request", "model": "demo/scripted", "status": 200}
    assert json.loads(rest) == {"event": "closed", "reason": "stopped"}
