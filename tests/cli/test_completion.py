"""What can be completed: words of the command line, and the scripts in real shells."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli_support import WAIT, configured, environment, ran
from tests.each import each
from tieline.cli.completion import SCRIPTS, Candidate, candidates, configured_models

BIN = str(Path(sys.executable).parent)

BASH = """
eval "$(tieline completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n"><=;|&(:'
_tieline
printf '%s\\n' "${COMPREPLY[@]}"
"""


def parser() -> argparse.ArgumentParser:
    """A parser with every kind of argument."""
    top = argparse.ArgumentParser("tieline")
    top.add_argument("--version", action="version", version="1")
    commands = top.add_subparsers()
    start = commands.add_parser("start", help="start it, 100%% of it")
    start.add_argument("--log", choices=["debug", "info"])
    start.add_argument("--fast", action="store_true", help="do not\twait")
    start.add_argument("--hidden", help=argparse.SUPPRESS)
    start.add_argument("-m", "--model")
    start.add_argument("--config", type=Path, metavar="FILE")
    start.add_argument("--folder", metavar="DIR")
    start.add_argument("--port", type=int)
    start.add_argument("client", choices=["claude", "codex"])
    start.add_argument("rest", nargs=argparse.REMAINDER)
    commands.add_parser("stop", help="stop it")
    box = commands.add_parser("box").add_subparsers()
    box.add_parser("allow", help="allow it").add_argument("id")
    commands.add_parser("secret")
    return top


def words(*typed: str) -> list[str]:
    return [one.text or one.kind for one in candidates(parser(), typed, lambda: ["demo/scripted", "local/qwen"])]


OPTIONS = ["-h", "--help", "--log", "--fast", "-m", "--model", "--config", "--folder", "--port"]


@each(
    ("typed", "found"),
    [
        (("",), ["start", "stop"]),
        (("st",), ["start", "stop"]),
        (("sto",), ["stop"]),
        (("--v",), ["--version"]),
        (("--version", "sta"), ["start"]),
        (("start", "-"), OPTIONS),
        (("start", "--l"), ["--log"]),
        (("start", "--log", ""), ["debug", "info"]),
        (("start", "--log", "i"), ["info"]),
        (("start", "--log=i"), ["--log=info"]),
        (("start", "--log=info", ""), ["claude", "codex"]),
        (("start", "--log", "info", "co"), ["codex"]),
        (("start", "--fast", "cl"), ["claude"]),
        (("start", "-m", ""), ["demo/scripted", "local/qwen"]),
        (("start", "--model", "lo"), ["local/qwen"]),
        (("start", "--model=lo"), ["--model=local/qwen"]),
        (("start", "--config", "x"), ["files"]),
        (("start", "--folder", "x"), ["folders"]),
        (("start", "--port", ""), []),
        (("start", "codex", "x"), ["files"]),
        (("start", "codex", "x", "-"), ["files"]),
        (("start", "--", "c"), ["claude", "codex"]),
        (("stop", ""), ["-h", "--help"]),
        (("stop", "--", ""), ["files"]),
        (("stop", "--", "-"), ["files"]),
        (("box", ""), ["allow"]),
        (("box", "allow", ""), []),
        (("unknown", ""), []),
        (("unknown", "--fast", "-"), []),
    ],
)
def test_what_follows_comes_from_the_parser(typed: tuple[str, ...], found: list[str]) -> None:
    assert words(*typed) == found


def test_a_candidate_has_its_help_on_one_line() -> None:
    assert candidates(parser(), ["sta"], list) == [Candidate("word", "start", "start it, 100% of it")]
    assert candidates(parser(), ["start", "--fa"], list) == [Candidate("word", "--fast", "do not wait")]


def test_models_come_from_the_configuration_that_the_user_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"HOME": str(tmp_path)}
    monkeypatch.chdir(tmp_path)
    assert configured_models(env) == ["demo/scripted"]
    configured(
        tmp_path,
        "default_model = 'own/small'\n[aliases]\nfast = 'own/small'\n'gpt-*' = 'own/*'\n"
        "[upstreams.own]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\nmodels = ['small']\n",
    )
    assert configured_models(env) == ["demo/scripted", "fast", "own/small"]
    (tmp_path / "tieline.toml").write_text("[aliases]\nother = 'demo/scripted'\n", "utf-8")
    assert configured_models(env) == ["demo/scripted"]
    assert ran(tmp_path, "trust").returncode == 0
    assert configured_models(env) == ["demo/scripted", "other"]
    (tmp_path / "tieline.toml").write_text("no configuration", "utf-8")
    assert configured_models(env) == ["demo/scripted"]


def complete(home: Path, *argv: str) -> list[str]:
    env = {**environment(home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(argv, cwd=home, env=env, capture_output=True, text=True, timeout=WAIT, check=True)  # noqa: S603 - a shell, with our own script
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("tieline serv", ["serve", "service"]),
        ("tieline serve --log w", ["warning"]),
        ("tieline serve --log=w", ["warning"]),
        ("tieline service ", ["install", "status", "remove"]),
        ("tieline tunnel --models demo", ["demo/scripted"]),
        ("tieline env c", ["claude", "cline", "codex", "continue", "copilot", "crush", "cursor"]),
        ("tieline serve --config my", ["my file.toml"]),
        ("tieline serve --config m", ["my file.toml", "mine"]),
        ("tieline serve --workspace m", ["mine"]),
    ],
)
def test_bash_completes(line: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "my file.toml").touch()
    (tmp_path / "mine").mkdir()
    assert sorted(complete(tmp_path, "bash", "-c", BASH, "bash", line)) == sorted(found)


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(tmp_path: Path) -> None:
    script = "source (tieline completion fish | psub); complete -C 'tieline serv'"
    found = complete(tmp_path, "fish", "--no-config", "-c", script)
    assert [line.split("\t")[0] for line in found] == ["serve", "service"]


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_a_script_has_no_syntax_error(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell], "utf-8")
    complete(tmp_path, shell, "-n", str(script))


def test_every_command_of_the_program_can_be_completed(tmp_path: Path) -> None:
    shown = ran(tmp_path, "completion", "bash", TIELINE_COMPLETE="").stdout
    listed = [line.split("\t")[1] for line in shown.splitlines()]
    assert {"serve", "inbox", "models", "trust", "service", "completion"} <= set(listed)
    shown = ran(tmp_path, "--help").stdout
    assert [name for name in listed if f"    {name}" not in shown] == []
