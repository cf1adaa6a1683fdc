"""`tieline chat` as a person runs it: in a terminal and in a pipe, against the real gateway with the demo model."""

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.chat_support import chatting, page
from tests.e2e.cli_support import WAIT, configured, environment
from tests.e2e.tools_support import DEMO
from tests.e2e.tools_support import serving as standing
from tieline.cli.main import main


async def test_a_question_is_answered_with_tools_and_a_second_one_follows(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand, chatting(stand, tmp_path) as screen:
        (stand.root / "note.txt").write_text("# A note\n")
        await screen.until("› ")
        await screen.enter("read note.txt")
        shown = await screen.until("✓ Read note.txt", "# A note", " out", "› ")
        assert shown.index("✓ Read note.txt") < shown.index("# A note")
        await screen.enter("say hello")
        await screen.until("hello", " out")
        assert await screen.leave() == 0
        assert "tieline chat --continue" in screen.text
        assert [one["title"] for one in (await page(stand, "GET", "/api/state"))["sessions"]] == ["read note.txt"]


@pytest.mark.parametrize(("typed", "is_done"), [("y", True), ("n", False), ("", False)])
async def test_a_permission_shows_the_change_and_counts_only_a_yes(tmp_path: Path, typed: str, is_done: bool) -> None:
    async with standing(tmp_path) as stand, chatting(stand, tmp_path) as screen:
        await screen.until("› ")
        await screen.enter("write hello to a.txt")
        await screen.until("? Create a.txt", "+hello", "y allow", "[n] › ")
        assert not (stand.root / "a.txt").exists()
        await screen.answer(typed, until="✓ Write a.txt" if is_done else "✗ Write a.txt")
        await screen.until(" out")
        assert (stand.root / "a.txt").exists() is is_done
        assert await screen.leave() == 0


async def test_a_conversation_of_the_page_is_continued_and_changes_there_are_shown(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        session = (await page(stand, "POST", "/api/sessions", {"model": DEMO}))["id"]
        await page(stand, "POST", f"/api/sessions/{session}/send", {"text": "say first"})
        async with chatting(stand, tmp_path, "--continue") as screen:
            await screen.until("› say first", "first", "› ")
            screen.type("half typed")
            await screen.until("half typed")
            await page(stand, "POST", f"/api/sessions/{session}/send", {"text": "run: echo ok"})
            await screen.until("› run: echo ok", "? Run this command?", "$ echo ok")
            await stand.decide(option="allow")
            await screen.until("answered elsewhere", "✓ Run echo ok", "› half typed")
            screen.type("\x15")
            await screen.enter("say second")
            await screen.until("second", " out")
            messages = (await page(stand, "GET", f"/api/sessions/{session}"))["messages"]
            assert [turn["parts"][0]["text"] for turn in messages[::2]] == ["say first", "run: echo ok", "say second"]
            await page(stand, "DELETE", f"/api/sessions/{session}")
            await screen.until("was deleted elsewhere")
            assert await screen.leave() == 0


async def test_a_continued_conversation_drops_a_mode_that_its_new_model_lacks(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        session = (await page(stand, "POST", "/api/sessions", {"model": DEMO, "mode": "plan"}))["id"]
        for model, mode in ((DEMO, "plan"), ("demo/unlisted", None)):
            async with chatting(stand, tmp_path, "--continue", "--model", model) as screen:
                await screen.until("› ")
                assert await screen.leave() == 0
            summary = (await page(stand, "GET", f"/api/sessions/{session}"))["summary"]
            assert (summary["model"], summary["mode"]) == (model, mode)


# ── In a pipe ────────────────────────────────────────────────────────────────────────────────────


class Shell:
    """Runs `tieline chat` in this process, without a terminal."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        configured(home, "[server]\nport = 0\n")
        patch.chdir(home)
        for name, value in environment(home).items():
            patch.setenv(name, value)
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "TIELINE_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
            patch.delenv(name, raising=False)
        self._patch = patch
        self._capture = capture

    def run(self, *arguments: str, typed: str = "") -> tuple[int, str, str]:
        """The exit status, and what was printed to both outputs."""
        self._patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        status = main(["chat", *arguments])
        return status, *self._capture.readouterr()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


def test_the_answer_alone_is_printed_and_what_tools_did_goes_to_stderr(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Remember.\n")
    status, out, err = shell.run("-p", "--tools", "read note.txt")
    assert (status, err) == (0, "✓ Read note.txt\n")
    assert out.startswith("I will read note.txt.\n\n`read_file` returned")
    assert "Remember." in out


def test_standard_input_follows_the_prompt_and_the_conversation_can_be_continued(shell: Shell) -> None:
    status, out, _ = shell.run("-p", "--json", "say hello", typed="more\n")
    first = json.loads(out)
    assert status == 0
    assert set(first) == {"text", "calls", "denied", "usage", "ending", "model", "session"}
    assert (first["model"], first["ending"]["reason"]) == (DEMO, "end_turn")
    second = json.loads(shell.run("-p", "--json", "--continue", "say again")[1])
    assert second["session"] == first["session"]
    assert second["text"] == "again"


def test_what_needs_a_person_is_denied_and_the_status_says_so(shell: Shell, tmp_path: Path) -> None:
    status, _, err = shell.run("-p", "--tools", "write hello to a.txt")
    assert status == 3
    assert "Denied, because no one can be asked: Create a.txt" in err
    assert not (tmp_path / "a.txt").exists()


def test_without_a_terminal_it_prints_even_if_not_told_to(shell: Shell) -> None:
    assert shell.run("say hello") == (0, "hello\n", "")


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ((), 2, "there is nothing to ask"),
        (("--session", "none", "x"), 2, "no conversation with an id"),
        (("--continue", "x"), 2, "there is no conversation yet"),
        (("--url", "http://127.0.0.1:9", "x"), 1, "Is `tieline serve` running?"),
        (("--url", "nonsense", "x"), 2, "--url"),
        (("--url", "http://127.0.0.1:9", "--tools", "x"), 2, "--tools cannot change the gateway"),
        (("--mode", "plan", "x"), 2, "has no modes"),
        (("```tieline\nerror: overloaded Too busy.\n```",), 1, "Too busy."),
    ],
)
def test_every_failure_has_its_status_and_one_line(
    shell: Shell, arguments: tuple[str, ...], status: int, words: str
) -> None:
    given, out, err = shell.run("-p", *arguments)
    assert (given, out) == (status, "")
    assert words in err
    assert err.count("\n") == 1


def test_an_interrupt_stops_the_answer(tmp_path: Path) -> None:
    configured(tmp_path, "[server]\nport = 0\n[[tools.rules]]\ntool = 'run_terminal'\ndecision = 'allow'\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "tieline", "chat", "-p", "--tools", "run: touch begun; sleep 60"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.read(6) == "I will"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT)
    assert process.returncode == 130
