"""`tieline configure`: the change is shown first, agreed to, and undone."""

import os
import pty
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.cli_support import command, environment
from tieline.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    config = tmp_path / "tieline.toml"
    config.write_text("[server]\nport = 1\n")
    home = tmp_path / "home"
    home.mkdir()

    def call(*arguments: str, **env: str) -> tuple[int, str, str]:
        for name in list(os.environ):
            monkeypatch.delenv(name)
        for name, value in {"HOME": str(home), "PATH": os.defpath, **env}.items():
            monkeypatch.setenv(name, value)
        status = main(["configure", "--config", str(config), "-m", "demo/scripted", *arguments])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".codex" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("# mine\nmodel = 'gpt'\n")
    return path


@pytest.fixture(autouse=True)
def _folders(run: Run) -> None:
    """The home folder is made before the settings."""


def test_a_change_and_its_undo(run: Run, settings: Path) -> None:
    status, shown, _ = run("codex", "--yes")
    assert status == 0
    assert "-model = 'gpt'\n" in shown
    assert '+model = "demo/scripted"\n' in shown
    assert "To undo this: tieline configure codex --undo" in shown
    assert "tieline serve" in shown
    assert 'model = "demo/scripted"' in settings.read_text()
    status, shown, _ = run("codex", "--yes")
    assert (status, shown) == (0, f"{settings} already has these settings.\n")
    status, shown, _ = run("codex", "--undo")
    assert (status, shown) == (0, f"{settings} is as it was before.\n")
    assert settings.read_text() == "# mine\nmodel = 'gpt'\n"
    assert run("codex", "--undo")[:2] == (1, "There is nothing to undo for Codex.\n")


def test_without_an_answer_nothing_is_changed(run: Run, settings: Path) -> None:
    status, _, errors = run("codex")
    assert (status, errors) == (2, "tieline: there is no terminal to ask on; add --yes to make this change\n")
    assert settings.read_text() == "# mine\nmodel = 'gpt'\n"


def test_the_user_is_asked_on_a_terminal(run: Run, settings: Path, tmp_path: Path) -> None:
    argv = command("configure", "codex", "-m", "demo/scripted", "--config", str(tmp_path / "tieline.toml"))
    for answer, status in ((b"\n", 1), (b"yes\n", 0)):
        terminal, end = pty.openpty()
        process = subprocess.Popen(  # noqa: S603 - our own command
            argv, env=environment(tmp_path / "home"), stdin=end, stdout=subprocess.DEVNULL, stderr=end
        )
        os.close(end)
        shown = b""
        while not shown.endswith(b"[y/N] "):
            shown += os.read(terminal, 1000)
        os.write(terminal, answer)
        assert process.wait(30) == status
        os.close(terminal)
        assert ("demo/scripted" in settings.read_text()) == (status == 0)


def test_an_interrupted_question_is_not_a_success(settings: Path, tmp_path: Path) -> None:
    terminal, end = pty.openpty()
    process = subprocess.Popen(  # noqa: S603 - our own command
        command("configure", "codex", "--config", str(tmp_path / "tieline.toml")),
        env=environment(tmp_path / "home"),
        stdin=end,
        stdout=subprocess.DEVNULL,
        stderr=end,
    )
    os.close(end)
    shown = b""
    while not shown.endswith(b"[y/N] "):
        shown += os.read(terminal, 1000)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 128 + signal.SIGINT
    os.close(terminal)
    assert settings.read_text() == "# mine\nmodel = 'gpt'\n"


def test_undo_shows_what_it_would_discard(run: Run, settings: Path) -> None:
    run("codex", "--yes")
    settings.write_text(settings.read_text() + "# later\n")
    status, shown, errors = run("codex", "--undo")
    assert status == 2
    assert "-# later\n" in shown
    assert "has changed since `tieline configure`. To discard these changes too, add --force" in errors
    assert run("codex", "--undo", "--force")[0] == 0
    assert settings.read_text() == "# mine\nmodel = 'gpt'\n"


def test_a_file_that_cannot_be_changed_safely(run: Run, settings: Path) -> None:
    settings.write_text("model = {")
    status, shown, _ = run("codex", "--yes")
    assert status == 1
    assert shown.startswith(f"{settings} cannot be changed safely: it is not valid TOML")
    assert 'base_url = "http://127.0.0.1:1/v1"' in shown
    assert settings.read_text() == "model = {"


def test_a_key_is_referred_to_and_never_shown(run: Run, settings: Path, tmp_path: Path) -> None:
    key = "the-secret-key-of-the-gateway"
    _, shown, _ = run("codex", "--yes", TIELINE_KEY=key)
    assert 'args = ["TIELINE_KEY"]' in settings.read_text()
    assert key not in shown + settings.read_text()
    # Cline cannot refer to a variable: its file contains the key, but the terminal does not show it.
    _, shown, _ = run("cline", "--yes", TIELINE_KEY=key)
    assert key not in shown
    assert key in (tmp_path / "home" / ".cline" / "data" / "settings" / "providers.json").read_text()


def test_a_key_in_a_file_is_not_copied(run: Run, settings: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("the-secret-key-of-the-gateway")
    (tmp_path / "tieline.toml").write_text(f"[server]\nport = 1\nkey_file = '{key}'\n")
    _, shown, _ = run("codex", "--yes")
    assert 'args = ["TIELINE_API_KEY"]' in settings.read_text()
    assert f"""TIELINE_API_KEY="$(cat '{key}')\"""" in shown
    assert "the-secret" not in shown + settings.read_text()


def test_an_editor_is_configured_by_hand(run: Run) -> None:
    status, shown, _ = run("zed")
    assert status == 0
    assert '"api_url": "http://127.0.0.1:1/v1"' in shown
