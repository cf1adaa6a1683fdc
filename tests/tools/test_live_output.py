"""What is seen of a command while it runs: as it comes, bounded, and not too often."""

import asyncio

import pytest

from tests.tools.calling import call, text_of
from tieline.model.events import Plan
from tieline.model.ports import Progress
from tieline.tools import live_output
from tieline.tools.live_output import HEAD, TAIL, LiveOutput
from tieline.tools.shell import OutputLimits
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace

PATIENCE = 60.0


class Onlooker:
    """Keeps what is told, and can wait for something in it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, update: Progress | Plan) -> None:
        assert isinstance(update, Progress)
        if update.output is not None:
            self.seen.append(update.output)
            self._news.set()

    async def sees(self, text: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not (self.seen and text in self.seen[-1]):
                self._news.clear()
                await self._news.wait()


async def ran(box: WorkspaceToolbox, command: str, **arguments: int) -> tuple[list[str], str]:
    """What was seen of a command, and what the model was told."""
    onlooker = Onlooker()
    async with asyncio.timeout(PATIENCE):
        result = await box.execute(call("run_terminal", command=command, **arguments), onlooker)
    return onlooker.seen, text_of(result)


async def test_a_line_is_seen_while_the_command_goes_on(box: WorkspaceToolbox) -> None:
    onlooker = Onlooker()
    command = "echo first; until [ -e go ]; do sleep 0.01; done; echo second"
    running = asyncio.create_task(box.execute(call("run_terminal", command=command), onlooker))
    await onlooker.sees("first")
    assert not running.done()
    assert onlooker.seen == ["first\n"]
    await box.execute(call("write_file", path="go", content=""))
    async with asyncio.timeout(PATIENCE):
        result = await running
    assert onlooker.seen[-1] == "first\nsecond\n(exit code: 0)"
    assert text_of(result) == "exit code: 0\nstdout:\nfirst\nsecond"


async def test_both_streams_are_seen_in_the_order_they_come(box: WorkspaceToolbox) -> None:
    onlooker = Onlooker()
    wait = "until [ -e {0} ]; do sleep 0.01; done; "
    command = f"echo one; {wait.format('a')}echo two >&2; {wait.format('b')}echo three"
    running = asyncio.create_task(box.execute(call("run_terminal", command=command), onlooker))
    for line, name in (("one", "a"), ("two", "b")):
        await onlooker.sees(line)
        await box.execute(call("write_file", path=name, content=""))
    async with asyncio.timeout(PATIENCE):
        await running
    assert onlooker.seen[-1] == "one\ntwo\nthree\n(exit code: 0)"


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("true", "(exit code: 0)"),
        ("echo bad; exit 3", "bad\n(exit code: 3)"),
        ("echo hit; kill -KILL $$", "hit\n(ended by signal 9 (Killed))"),
    ],
)
async def test_the_end_is_told_below_what_was_written(box: WorkspaceToolbox, command: str, seen: str) -> None:
    assert (await ran(box, command))[0][-1] == seen


async def test_a_command_that_takes_too_long_says_so_at_its_end(box: WorkspaceToolbox) -> None:
    seen, told = await ran(box, "echo begun; sleep 60", timeout=3)
    assert seen[-1] == "begun\n(The command was ended after 3 seconds.)"
    assert told.startswith("The command was ended after 3 seconds.\n")


async def test_a_command_that_writes_without_end_is_seen_within_bounds_and_not_too_often(workspace: Workspace) -> None:
    box = WorkspaceToolbox(workspace, environment={"PATH": "/usr/bin:/bin"}, limits=OutputLimits(total=8 << 20))
    began = asyncio.get_running_loop().time()
    seen, told = await ran(box, "yes 'a line of no meaning'")
    passed = asyncio.get_running_loop().time() - began
    assert "wrote more than" in told
    assert seen[-1].endswith(f"(The command was ended because it wrote more than {8 << 20} bytes.)")
    assert len(seen) <= passed / live_output.MIN_INTERVAL + 2
    assert max(map(len, seen)) < HEAD + TAIL + 200
    assert "bytes omitted" in seen[-1]


async def test_what_cannot_be_started_shows_no_output(workspace: Workspace) -> None:
    box = WorkspaceToolbox(workspace, environment={}, interpreter=("/nonexistent",))
    seen, told = await ran(box, "true")
    assert seen == []
    assert "could not be started" in told


async def test_half_a_character_is_not_seen_and_does_not_mix_with_the_other_stream() -> None:
    onlooker = Onlooker()
    with LiveOutput(onlooker) as shown:
        shown.write(1, "für".encode()[:2])
        await onlooker.sees("f")
        shown.write(2, b"!")
        shown.write(1, "für".encode()[2:])
        shown.write(2, b"\xff\xc3")
        shown.end("over")
    assert onlooker.seen == ["f", "f!ür\ufffd\ufffd\n(over)"]


async def test_the_longer_a_command_goes_on_the_less_often_it_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_output, "SLOWEST_AFTER", 1e-9)
    monkeypatch.setattr(live_output, "MAX_INTERVAL", 1000.0)
    onlooker = Onlooker()
    with LiveOutput(onlooker) as shown:
        shown.write(1, b"one")
        await onlooker.sees("one")
        shown.write(1, b" two")
        await asyncio.sleep(0)
        assert onlooker.seen == ["one"]
        shown.end("over")
    assert onlooker.seen == ["one", "one two\n(over)"]


async def test_nothing_is_told_after_the_end() -> None:
    onlooker = Onlooker()
    with LiveOutput(onlooker) as shown:
        shown.write(1, b"one")
    await asyncio.sleep(0)
    assert onlooker.seen == []
