"""`tieline run` with a substitute for the client: its environment, its terminal, signals, its end, and no traces."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tieline.cli.main import main

SUBSTITUTE = Path(__file__).with_name("substitute_client.py")
LIMIT = 30.0
"""Seconds after which a test gives up."""
ON_TERMINAL = """\
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes standard input the controlling terminal of a command."""


class Home:
    """A home folder, a folder for temporary files, and a PATH with a substitute for Claude Code."""

    def __init__(self, folder: Path) -> None:
        self.home, self.temporary, programs = (folder / name for name in ("home", "tmp", "bin"))
        for path in (self.home, self.temporary, programs):
            path.mkdir()
        program = programs / "claude"
        program.write_text(f"#!{sys.executable}\n{SUBSTITUTE.read_text()}")
        program.chmod(0o700)
        self.programs = programs
        self.env = {
            "HOME": str(self.home),
            "PATH": f"{programs}:{os.defpath}",
            "TMPDIR": str(self.temporary),
            "TERM": "xterm",
        }

    def command(self, *arguments: str) -> list[str]:
        # The port is never listened on, so that no other gateway is found.
        config = self.home.parent / "tieline.toml"
        config.write_text("[server]\nport = 1\n")
        return [sys.executable, "-m", "tieline", *arguments[:1], "--config", str(config), *arguments[1:]]

    def run(self, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
        command = self.command(*arguments)
        return subprocess.run(  # noqa: S603 - our own command
            command, env={**self.env, **env}, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=self.home
        )

    def traces(self) -> list[str]:
        """The files that are left behind."""
        found = [*self.home.rglob("*"), *self.temporary.rglob("*")]
        return [str(path) for path in found if path.name != ".cache"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


class Client:
    """The substitute, started by `tieline run`, with or without a terminal."""

    def __init__(self, home: Home, *arguments: str, terminal: bool = False, piped: bool = False) -> None:
        command = home.command("run", "claude", "-m", "demo/scripted", "--", *arguments)
        self._master = -1
        if terminal:
            self._master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            modes = termios.tcgetattr(slave)
            modes[3] &= ~termios.ECHO
            termios.tcsetattr(slave, termios.TCSANOW, modes)
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-c", ON_TERMINAL, *command],
                env=home.env,
                cwd=home.home,
                stdin=slave,
                stdout=subprocess.PIPE if piped else slave,
                stderr=slave,
            )
            os.close(slave)
            self._output = self.process.stdout.fileno() if self.process.stdout is not None else self._master
        else:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                command, env=home.env, cwd=home.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert self.process.stdout is not None
            self._output = self.process.stdout.fileno()
        self._read = b""

    def line(self) -> dict[str, Any]:
        """Return the next report of the substitute."""
        deadline = time.monotonic() + LIMIT
        while True:
            line, found, rest = self._read.partition(b"\n")
            if found:
                self._read = rest
                if line.startswith(b'{"'):
                    reported: dict[str, Any] = json.loads(line)
                    return reported
                continue
            ready, _, _ = select.select([self._output], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "nothing was reported"
            data = os.read(self._output, 65536)
            assert data, "the client has ended"
            self._read += data

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def status(self) -> int:
        """Wait for the end of the command and return its exit status."""
        return self.process.wait(LIMIT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if self._master >= 0:
            os.close(self._master)


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    started: list[Client] = []
    yield started
    for client in started:
        client.close()


def has_ended(pid: int) -> bool:
    """Wait until a process that is not ours has ended."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        select.select([], [], [], 0.02)
    return False


def test_the_client_gets_its_settings_and_nothing_is_left(home: Home) -> None:
    done = home.run(
        *("run", "claude", "-m", "demo/scripted", "--", "show", "ask", "a  b", "--", "exit=7"),
        ANTHROPIC_SMALL_FAST_MODEL="claude-x",
        CLAUDE_CODE_USE_BEDROCK="1",
        HTTP_PROXY="http://127.0.0.1:9",
        NO_PROXY="example.com",
    )
    assert done.returncode == 7, done.stderr
    shown, answered = map(json.loads, done.stdout.splitlines())
    env, settings = shown["env"], shown["settings"]["env"]
    assert answered["status"] == 200
    assert shown["arguments"][2:] == ["show", "ask", "a  b", "--", "exit=7"]
    assert env["ANTHROPIC_MODEL"] == env["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "demo/scripted"
    assert env["NO_PROXY"] == env["no_proxy"] == "example.com,127.0.0.1,localhost,::1"
    assert not {"ANTHROPIC_SMALL_FAST_MODEL", "CLAUDE_CODE_USE_BEDROCK", "TIELINE_KEY"} & set(env)
    assert settings.pop("ANTHROPIC_API_KEY") == ""
    assert settings.items() <= env.items()
    assert sorted(shown["modes"].values()) == ["600", "700"]
    assert env["ANTHROPIC_AUTH_TOKEN"] not in str(shown["arguments"]) + done.stderr
    assert done.stderr == "tieline: Claude Code uses demo/scripted through a gateway for this session.\n"
    assert home.traces() == []


def test_the_status_of_a_client_that_a_signal_ends(home: Home) -> None:
    assert home.run("run", "claude", "-m", "demo/scripted", "--", f"kill={signal.SIGKILL:d}").returncode == 128 + 9
    assert home.traces() == []


def test_a_terminal_is_passed_through(home: Home, clients: list[Client]) -> None:
    client = Client(home, "wait", terminal=True)
    clients.append(client)
    assert client.line()["tty"] == [True, True, True]
    client.type("hello\n")
    assert client.line() == {"line": "hello", "size": [100, 30]}
    client.resize(40, 120)
    assert client.line() == {"signal": "SIGWINCH"}
    client.type("again\n")
    assert client.line()["size"] == [120, 40]
    client.type("\x03")
    assert client.line() == {"signal": "SIGINT"}
    client.type("end\n")
    assert client.status() == 0
    assert home.traces() == []


def test_a_client_is_suspended_and_resumed(home: Home, clients: list[Client]) -> None:
    client = Client(home, "wait", terminal=True)
    clients.append(client)
    client.line()
    client.type("\x1a")
    _, status = os.waitpid(client.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    client.process.send_signal(signal.SIGCONT)
    assert client.line() == {"signal": "SIGCONT"}
    client.type("still here\n")
    assert client.line()["line"] == "still here"
    client.type("end\n")
    assert client.status() == 0


def test_in_a_pipeline_ctrl_c_reaches_the_client(home: Home, clients: list[Client]) -> None:
    client = Client(home, "sleep", terminal=True, piped=True)
    clients.append(client)
    client.line()
    client.type("\x03")
    assert client.status() == 128 + signal.SIGINT
    assert home.traces() == []


def test_in_a_pipeline_the_client_gets_the_terminal_when_it_reads_from_it(home: Home, clients: list[Client]) -> None:
    client = Client(home, "wait", terminal=True, piped=True)
    clients.append(client)
    assert client.line()["tty"] == [True, False, True]
    assert client.line() == {"signal": "SIGCONT"}
    client.type("hello\n")
    assert client.line()["line"] == "hello"
    client.type("end\n")
    assert client.status() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_stop_ends_the_client_first(home: Home, clients: list[Client], number: signal.Signals) -> None:
    client = Client(home, "sleep")
    clients.append(client)
    pid = client.line()["pid"]
    client.process.send_signal(number)
    assert client.status() == 128 + number
    assert has_ended(pid)
    assert home.traces() == []


def test_the_client_does_not_outlive_a_killed_command(home: Home, clients: list[Client]) -> None:
    client = Client(home, "sleep")
    clients.append(client)
    pid = client.line()["pid"]
    client.process.kill()
    assert has_ended(pid)


# ── Without a client ─────────────────────────────────────────────────────────────────────────────


Printed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def printed(home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Run a command in this process. Return its exit status and what it prints to standard output and error."""

    def run(*arguments: str, **env: str) -> tuple[int, str, str]:
        for name in list(os.environ):
            monkeypatch.delenv(name)
        for name, value in {**home.env, **env}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(home.home)
        status = main(home.command(*arguments)[3:])
        return status, *capsys.readouterr()

    return run


def test_the_list_of_clients(home: Home, printed: Printed) -> None:
    _, shown, _ = printed("run")
    assert f"  claude    Claude Code, {home.programs}/claude" in shown
    assert "  codex     npm install -g @openai/codex" in shown
    assert "gemini" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "codex"], "Codex is not installed, or not on your PATH. To install it: npm install -g @openai/codex"),
        (["run", "gemini"], "Gemini CLI speaks only Google's own protocol, which this gateway does not serve."),
        (["run", "cloude"], "there is no client `cloude`: do you mean claude?"),
        (["env", "emacs"], "there is no client `emacs`: the known ones are claude,"),
        (
            ["run", "claude", "-m", "dem/scripted"],
            "There is no model `dem/scripted` here. The closest names are: demo/",
        ),
        (
            ["env", "claude", "-m", "demo/script"],
            "`demo/script` is not in the list of models. Similar names: demo/scripted",
        ),
        (["configure", "copilot"], "GitHub Copilot CLI has no settings file for this."),
    ],
)
def test_what_cannot_be_done_is_explained(printed: Printed, arguments: list[str], message: str) -> None:
    _, _, errors = printed(*arguments)
    assert errors.startswith(f"tieline: {message}")
    assert "Traceback" not in errors


def test_the_settings_for_a_shell(printed: Printed) -> None:
    key = "the-secret-key"
    _, shown, _ = printed("env", "claude", "-m", "demo/scripted", TIELINE_KEY=key, CLAUDE_CODE_USE_VERTEX="1")
    assert key not in shown
    check = 'echo "$ANTHROPIC_BASE_URL $ANTHROPIC_AUTH_TOKEN ${CLAUDE_CODE_USE_VERTEX:-none}"'
    done = subprocess.run(  # noqa: S603 - the output of our own command
        ["/bin/sh", "-euc", f"{shown}\n{check}"],
        env={"TIELINE_KEY": key, "CLAUDE_CODE_USE_VERTEX": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "http://127.0.0.1:1 the-secret-key none\n"


def test_the_shell_reads_the_key_from_a_file_with_any_name(printed: Printed, tmp_path: Path) -> None:
    file = tmp_path / "it's" / "the key"
    file.parent.mkdir()
    file.write_text("the-secret-key\n")
    config = tmp_path / "keyed.toml"
    config.write_text(f'[server]\nport = 1\nkey_file = "{file}"\n')
    _, shown, _ = printed("env", "claude", "-m", "demo/scripted", "--config", str(config))
    done = subprocess.run(  # noqa: S603 - the output of our own command
        ["/bin/sh", "-euc", f'{shown}\necho "$ANTHROPIC_AUTH_TOKEN"'], capture_output=True, text=True, check=True
    )
    assert done.stdout == "the-secret-key\n"


def test_what_a_run_would_set(printed: Printed) -> None:
    _, shown, _ = printed("run", "claude", "-m", "demo/scripted", "--dry-run", "--", "-p", "a b")
    assert "export ANTHROPIC_AUTH_TOKEN=local\n" in shown
    assert shown.endswith("# Then start it: claude --settings \"$TIELINE_FOLDER\"/settings.json -p 'a b'\n")


def test_the_settings_of_an_editor(printed: Printed) -> None:
    _, shown, _ = printed("env", "jetbrains", "-m", "demo/scripted")
    assert "URL:       http://127.0.0.1:1/v1\nAPI Key:   local\nModel:     demo/scripted" in shown
    assert "tieline serve" in shown
