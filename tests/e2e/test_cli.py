"""The command as a person runs it: a process of its own, its output, its end."""

import json
import re
import signal
import subprocess
from contextlib import closing
from http.client import HTTPConnection, IncompleteRead
from pathlib import Path

import pytest

from tests.e2e.cli_support import WAIT, command, configured, environment, ran, said, serving

SLOW = json.dumps(
    {
        "model": "demo/x",
        "stream": True,
        "messages": [{"role": "user", "content": "```tieline\ntext: hello\npause: 60\n```"}],
    }
)


def test_the_start_says_where_it_is_and_what_to_try(tmp_path: Path) -> None:
    with serving(tmp_path, OPENAI_API_KEY="sk-very-secret") as (process, port):
        with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection:
            connection.request("GET", "/")
            text = connection.getresponse().read().decode()
        process.send_signal(signal.SIGINT)
        output = said(process)
    for words in ("demo", "ready", "openai", "OPENAI_API_KEY", "curl ", "ANTHROPIC_BASE_URL="):
        assert words in output
        assert words in text
    assert "sk-very-secret" not in output + text


UNKEYED = ("/", "/healthz", "/api/hello", "/api/state", "/connect", "/traffic", "/v1/models", "/metrics", "/nowhere")


def test_without_the_key_nobody_learns_what_is_behind_the_gateway(tmp_path: Path) -> None:
    upstream = '[upstreams.up]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nkey_env = "UP_KEY"\n'
    folder = configured(tmp_path, upstream)
    told: dict[str, str] = {}
    with (
        serving(tmp_path, "--tools", TIELINE_KEY="gate", UP_KEY="sk-up") as (_, port),
        closing(HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection,
    ):
        for path in UNKEYED:
            connection.request("GET", path)
            told[path] = connection.getresponse().read().decode()
        connection.request("GET", "/", headers={"authorization": "Bearer gate"})
        whole = connection.getresponse().read().decode()
    for words in ("127.0.0.1:9", "UP_KEY", "TIELINE_KEY", str(tmp_path), str(folder), "sk-up", "gate\n"):
        assert [path for path, text in told.items() if words in text] == []
    assert "Authorization: Bearer <key>" in told["/"]
    assert f"http://127.0.0.1:{port}" in whole
    for words in ("127.0.0.1:9", "UP_KEY", "$TIELINE_KEY", str(tmp_path)):
        assert words in whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_open_streams_with_an_error_and_leaves_quietly(number: signal.Signals, tmp_path: Path) -> None:
    with serving(tmp_path) as (process, port):
        with closing(HTTPConnection("127.0.0.1", port, timeout=WAIT)) as connection:
            connection.request("POST", "/v1/chat/completions", SLOW)
            with connection.getresponse() as response:
                seen = response.readline()
                process.send_signal(number)
                # Behind the error the connection is cut, so that clients which retry broken transfers do.
                with pytest.raises(IncompleteRead) as cut:
                    response.read()
                rest = cut.value.partial
        output = said(process)
    assert b"assistant" in seen
    assert b"being stopped" in rest
    assert b"[DONE]" not in rest
    assert process.returncode == 0
    assert "Traceback" not in output


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, port):
        done = ran(tmp_path, "serve", "--port", str(port))
    assert done.returncode == 2
    assert done.stderr.startswith(f"tieline: cannot listen on 127.0.0.1:{port}: ")
    assert "Another tieline may be running" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_address_of_another_machine_is_refused_without_advice_about_the_port(tmp_path: Path) -> None:
    done = ran(tmp_path, "serve", "--host", "192.0.2.1", "--port", "0", TIELINE_KEY="secret")
    assert done.returncode == 2
    assert done.stderr.startswith("tieline: cannot listen on 192.0.2.1:0: ")
    assert "Another tieline" not in done.stderr


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none_is_told_in_one_line(port: str, tmp_path: Path) -> None:
    done = ran(tmp_path, "serve", f"--port={port}")
    assert done.returncode == 2
    assert done.stderr == f"tieline: --port {port}: expected a number from 0 to 65535\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--port", "65536"), "--port 65536: expected a number from 0 to 65535"),
        (
            ("--certificate", "none", "--key", "none"),
            "--certificate or --key cannot be used: No such file or directory",
        ),
    ],
)
def test_wrong_options_of_the_simulator_are_told_in_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = ran(tmp_path, "simulate", "cursor", *arguments)
    assert (done.returncode, done.stderr) == (2, f"tieline: {message}\n")


def test_the_simulator_says_how_to_connect_and_is_stopped_with_ctrl_c(tmp_path: Path) -> None:
    with subprocess.Popen(  # noqa: S603 - our own command
        command("simulate", "cursor", "--port", "0"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            shown = ""
            while "api_url" not in shown:
                line = process.stdout.readline()
                assert line, shown
                shown += line
            configured(tmp_path, shown[shown.index("  [cursor]") :])
            assert "CURSOR_API_KEY to any text" in shown
            assert "cursor/demo" in ran(tmp_path, "models", CURSOR_API_KEY="any").stdout
            process.send_signal(signal.SIGINT)
            assert said(process) == "\n"
            assert process.returncode == 0
        finally:
            process.kill()


def test_beyond_this_machine_a_key_is_needed(tmp_path: Path) -> None:
    done = ran(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104 - it must refuse
    assert done.returncode == 2
    assert "TIELINE_KEY" in done.stderr


def test_models_are_listed(tmp_path: Path) -> None:
    configured(tmp_path, '[upstreams.local]\nkind = "openai"\nmodels = ["qwen", "glm"]\n')
    done = ran(tmp_path, "models")
    assert done.stdout.split() == ["demo/scripted", "local/glm", "local/qwen"]


def test_a_good_configuration_is_called_good(tmp_path: Path) -> None:
    configured(tmp_path, '[upstreams.local]\nkind = "openai"\nkey_env = "LOCAL_KEY"\n')
    done = ran(tmp_path, "check-config")
    assert done.returncode == 0
    assert "good" in done.stdout
    assert "set LOCAL_KEY" in done.stdout


DEAD = '[upstreams.dead]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodels = ["m"]\n'


def test_an_upstream_that_does_not_answer_is_named_by_check_config_and_after_the_start(tmp_path: Path) -> None:
    configured(tmp_path, DEAD)
    done = ran(tmp_path, "check-config")
    assert done.returncode == 0
    assert "dead: configured, http://127.0.0.1:1/v1 (no key); it does not answer: " in done.stdout
    with serving(tmp_path) as (process, _):
        assert process.stdout is not None
        line = next(line for line in process.stdout if "does not answer" in line)
    assert "upstream dead does not answer: 127.0.0.1:1 refused the connection" in line


def test_an_upstream_that_answers_in_any_way_is_no_reason_to_warn(tmp_path: Path) -> None:
    with serving(tmp_path, TIELINE_KEY="its-own") as (_, port):
        configured(tmp_path, DEAD.replace(":1/", f":{port}/"))
        done = ran(tmp_path, "check-config")
    assert "dead: configured" in done.stdout
    assert "does not answer" not in done.stdout


@pytest.mark.parametrize("arguments", [("check-config",), ("models",), ("serve",)])
def test_a_wrong_line_is_named_before_anything_starts(arguments: tuple[str, ...], tmp_path: Path) -> None:
    configured(tmp_path, "[server]\nport = 1\nprot = 2\n")
    done = ran(tmp_path, *arguments)
    assert done.returncode == 2
    assert "tieline.toml:3: `server.prot` is not a setting: do you mean `port`?" in done.stderr


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("\n", "tieline/key is empty"),
        ("one\ntwo\n", "tieline/key does not contain a valid key"),
        (None, "cannot be read"),
    ],
    ids=["empty", "several lines", "missing"],
)
@pytest.mark.parametrize("table", ['[upstreams.local]\nkind = "openai"', "[cursor]", "[server]"])
def test_a_file_without_a_key_is_told_at_once(table: str, content: str | None, complaint: str, tmp_path: Path) -> None:
    folder = configured(tmp_path, f'{table}\nkey_file = "key"\n')
    if content is not None:
        (folder / "key").write_text(content)
    done = ran(tmp_path, "check-config")
    assert done.returncode == 2
    assert complaint in done.stderr


def test_the_version_is_told(tmp_path: Path) -> None:
    assert re.fullmatch(r"tieline \d+\.\d+\.\d+\n", ran(tmp_path, "--version").stdout)
