"""`tieline inbox` and `tieline serve --tools` as a person runs them."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.cli_support import configured, environment, ran, said, serving
from tests.e2e.tools_support import KEY, PATIENCE, TELL, Stand, call, script, whole
from tests.e2e.tools_support import serving as standing
from tieline.cli.main import main

WRITE = script(call("write_file", path="a.txt", content="new\n"), TELL)
WAIT = 60.0


class Shell:
    """Runs `tieline inbox …` against a stand, in this process."""

    def __init__(self, stand: Stand, capture: pytest.CaptureFixture[str]) -> None:
        self._stand = stand
        self._capture = capture

    async def run(self, *arguments: str, code: int = 0) -> str:
        """What the command printed."""
        given = ["inbox", "--url", self._stand.url, *arguments]
        returned = await asyncio.to_thread(main, given)
        out, err = self._capture.readouterr()
        assert returned == code, out + err
        return (out + err).strip()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIELINE_KEY", KEY)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("key")
async def test_what_waits_is_listed_allowed_for_good_and_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with standing(tmp_path) as stand:
        shell = Shell(stand, capsys)
        assert await shell.run() == "The inbox is empty."
        telling = stand.begin("openai", WRITE)
        item = await stand.next_item()
        listed = await shell.run("list")
        for words in ("1 request waits", item.id, "Create a.txt", "+new", f"tieline inbox always {item.id}"):
            assert words in listed
        assert await shell.run("always", item.id[:6]) == f"{item.id}  Create a.txt: answered."
        assert "Created" in (await whole(telling)).text
        rules = await shell.run("rules")
        found = re.search(r"^ +([0-9a-f]+) +Writing a\.txt$", rules, re.MULTILINE)
        assert found is not None
        assert "No longer allowed without asking" in await shell.run("revoke", found[1][:4])
        assert await shell.run("rules") == f"There are no saved permissions for {stand.root}."


@pytest.mark.usefixtures("key")
async def test_each_kind_of_thing_is_answered_in_its_own_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = script(
        call("create_plan", title="T", plan="P"),
        call("create_plan", title="T2", plan="P"),
        call("ask_question", question="Which?", kind="choice", options=[{"label": "red"}, {"label": "blue"}]),
        call("ask_question", question="Why?"),
        call("run_terminal", command="true"),
        call("run_terminal", command="false"),
        "text: Done.",
    )
    async with standing(tmp_path) as stand, stand.watched():
        shell = Shell(stand, capsys)
        telling = stand.begin("anthropic", words)
        for command, *rest in (
            ("reject", "too", "long"),
            ("approve",),
            ("answer", "blue"),
            ("decline",),
            ("allow",),
            ("deny", "not", "now"),
        ):
            item = await stand.next_item()
            assert "answered." in await shell.run(command, item.id, *rest)
        told = await whole(telling)
    for words in (
        "Changes requested: too long",
        "The plan is approved",
        "answered: blue",
        "Not answered.",
        "exit code: 0",
        "Denied: not now.",
    ):
        assert words in told.thinking


@pytest.mark.usefixtures("key")
async def test_what_goes_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with standing(tmp_path) as stand, stand.watched():
        shell = Shell(stand, capsys)
        telling = stand.begin("openai", script(call("ask_question", question="How many?", kind="number"), TELL))
        item = await stand.next_item()
        for arguments, words in (
            (("allow", "nonsense"), "tieline: No request `nonsense` is waiting"),
            (("allow", item.id), "tieline: This is a question"),
            (("answer", item.id, "many"), "tieline: `answer` must be a number."),
            (("revoke", "nonsense/.."), "tieline: `nonsense/..` is not the id of a saved permission"),
        ):
            told = await shell.run(*arguments, code=1)
            assert told.startswith(words)
            assert "\n" not in told
        await stand.decide(values={"answer": 3})
        await whole(telling)


async def test_a_wrong_key_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIELINE_KEY", "wrong")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with standing(tmp_path) as stand:
        shell = Shell(stand, capsys)
        for command in ("list", "watch", "rules"):
            assert "This gateway needs its key" in await shell.run(command, code=1)


@pytest.mark.usefixtures("key")
def test_where_no_gateway_is_that_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in ("list", "watch"):
        assert main(["inbox", "--url", "http://127.0.0.1:1", command]) == 1
        assert "Is `tieline serve` running?" in capsys.readouterr().err
    assert main(["inbox", "--url", "nonsense", "list"]) == 2
    file = configured(tmp_path, "[server]\nport = 0\n") / "tieline.toml"
    assert main(["inbox", "--config", str(file)]) == 2
    assert "with --url" in capsys.readouterr().err


class Screen:
    """A terminal that `tieline inbox watch` runs in."""

    def __init__(self, home: Path, url: str) -> None:
        self._own, theirs = pty.openpty()
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "tieline", "inbox", "--url", url, "watch"],
            cwd=home,
            env=environment(home, TIELINE_KEY=KEY),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.text = ""

    async def until(self, *words: str) -> None:
        """Read until one of these words is there."""
        async with asyncio.timeout(PATIENCE):
            while not any(word in self.text for word in words):
                self.text += (await asyncio.to_thread(os.read, self._own, 4096)).decode()

    def type(self, line: str) -> None:
        os.write(self._own, f"{line}\n".encode())

    async def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        await asyncio.to_thread(self.process.wait, WAIT)
        os.close(self._own)


async def test_on_a_terminal_each_new_ask_is_shown_and_answered_right_there(tmp_path: Path) -> None:
    async with standing(tmp_path) as stand:
        screen = Screen(tmp_path, stand.url)
        await screen.until("It is empty.")
        assert stand.inbox.is_watched
        telling = stand.begin("openai", WRITE)
        await screen.until("? y allow")
        for words in ("Create a.txt", "+new", "waits up to 24 hours", "a always", "n deny"):
            assert words in screen.text
        while not telling.done() and "answered." not in screen.text:
            screen.type("y")
            await screen.until("answered.", "Please answer again")
            screen.text = screen.text.replace("Please answer again", "")
        assert "Created" in (await whole(telling)).text
        await screen.close()
    assert screen.process.returncode == 0


# ── serve --tools ────────────────────────────────────────────────────────────────────────────────


def test_the_start_says_where_tools_act_and_what_is_allowed(tmp_path: Path) -> None:
    for arguments, words in (
        ((), "everything else asks (tieline inbox watch)"),
        (("--yolo",), "EVERYTHING is allowed"),
    ):
        with serving(tmp_path, "--tools", "--workspace", str(tmp_path), *arguments) as (process, _):
            process.send_signal(signal.SIGINT)
            output = said(process)
        assert f"{tmp_path}: " in output
        assert words in output


def test_the_workspace_is_where_the_gateway_was_started_unless_said_otherwise(tmp_path: Path) -> None:
    configured(tmp_path, "[tools]\nenabled = true\n")
    done = ran(tmp_path, "check-config")
    assert f"tools: ready, {tmp_path}: reading is allowed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tools", "--workspace", "nowhere"), "nowhere is not a directory; set the folder"),
        (("--workspace", "."), "add --tools"),
    ],
)
def test_what_cannot_be_meant_stops_the_start_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = ran(tmp_path, "serve", "--port", "0", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interrupt_while_somebody_watches_ends_quietly(tmp_path: Path) -> None:
    with serving(tmp_path, "--tools") as (process, port):
        watching = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "tieline", "inbox", "--url", f"http://127.0.0.1:{port}", "watch"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        assert "It is empty." in watching.stdout.readline()
        process.send_signal(signal.SIGINT)
        output = said(process)
        assert "The gateway has stopped." in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        assert watching.wait(WAIT) == 0
        watching.stdout.close()
    assert process.returncode == 0
    assert "Traceback" not in output
