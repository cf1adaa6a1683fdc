"""Commands: what they say, what they may take, and that nothing of them is left."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.alive import Alive
from tests.tools.calling import call, done, refused, text_of
from tests.tools.conftest import ENVIRONMENT
from tieline.tools import shell
from tieline.tools.bounded_output import BoundedOutput
from tieline.tools.errors import ToolFailed
from tieline.tools.shell import OutputLimits, RunningCommand
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace

LINGERING = {
    "in the foreground": "exec 9>alive; echo up >&9; sleep 1000",
    "as a grandchild": "exec 9>alive; sh -c 'sh -c \"echo up >&9; sleep 1000\"; true'; true",
    "in the background": "exec 9>alive; sleep 1000 & echo up >&9; sleep 1000",
    "in a session of its own": "exec 9>alive; setsid sh -c 'echo up >&9; sleep 1000' & wait; sleep 1000",
    "forked twice": "exec 9>alive; (setsid sh -c '(echo up >&9; sleep 1000 &) ; exit' &); sleep 1000",
    "deaf to TERM": "exec 9>alive; trap '' TERM HUP INT; echo up >&9; while :; do sleep 1000; done",
    "stopped": "exec 9>alive; echo up >&9; kill -STOP $$; sleep 1000",
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "GRACE", 0.1)


async def test_a_command_gives_its_exit_code_and_both_streams(box: WorkspaceToolbox) -> None:
    said = await done(box, "run_terminal", command="echo out; echo err >&2; exit 3")
    assert said == "exit code: 3\nstdout:\nout\nstderr:\nerr"
    assert await done(box, "run_terminal", command="true") == "exit code: 0\n(no output)"


async def test_a_command_runs_where_it_is_told_to(box: WorkspaceToolbox, root: Path) -> None:
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "there").symlink_to("sub/deep")
    assert await done(box, "run_terminal", command="pwd") == f"exit code: 0\nstdout:\n{root}"
    assert await done(box, "run_terminal", command="pwd -P", cwd="there") == f"exit code: 0\nstdout:\n{root}/sub/deep"
    (root / "file").write_text("")
    assert "not a directory" in await refused(box, "run_terminal", command="pwd", cwd="file")
    assert "there is no `gone`" in await refused(box, "run_terminal", command="pwd", cwd="gone")


async def test_a_command_sees_the_environment_it_is_given_and_no_other(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "not for commands")
    box = WorkspaceToolbox(
        workspace, environment={"PATH": ENVIRONMENT["PATH"], "EMPTY": "", "ODD": "a=b\nc ü"}, interpreter=("sh", "-c")
    )
    said = await done(box, "run_terminal", command="env -u PWD -u SHLVL -u OLDPWD -u _ env")
    assert said == f"exit code: 0\nstdout:\nPATH={ENVIRONMENT['PATH']}\nEMPTY=\nODD=a=b\nc ü"
    bare = WorkspaceToolbox(workspace, environment={})
    assert "PATH" not in await done(bare, "run_terminal", command="export -p | grep -v PWD; true")


async def test_a_command_has_no_input(box: WorkspaceToolbox) -> None:
    assert await done(box, "run_terminal", command="cat; read line; echo $?") == "exit code: 0\nstdout:\n1"


async def test_a_command_gets_no_open_files_of_ours(box: WorkspaceToolbox) -> None:
    said = await done(box, "run_terminal", command="ls /proc/self/fd 2>/dev/null || ls /dev/fd")
    assert said.split("stdout:\n")[1].split() == ["0", "1", "2", "3"], "the fourth is the listing's own"


async def test_a_command_that_a_signal_ends_says_which(box: WorkspaceToolbox) -> None:
    assert "ended by signal 9 (Killed)" in await done(box, "run_terminal", command="kill -9 $$")


async def test_signals_are_as_in_any_shell(box: WorkspaceToolbox) -> None:
    """Python ignores SIGPIPE for itself; a command that inherited that would print errors instead of ending."""
    said = await done(box, "run_terminal", command="yes | head -1; sh -c 'kill -TERM $$'; echo $?")
    assert said == "exit code: 0\nstdout:\ny\n143\nstderr:\nTerminated" or said == "exit code: 0\nstdout:\ny\n143"


async def test_a_long_command_is_ended_and_what_it_said_is_kept(box: WorkspaceToolbox, root: Path) -> None:
    async with Alive(root) as alive:
        said = await refused(box, "run_terminal", command=f"echo begun; {LINGERING['as a grandchild']}", timeout=3)
        assert said.startswith("The command was ended after 3 seconds.\n")
        assert "stdout:\nbegun" in said
        await alive.says("up")
        await alive.is_over()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("command", LINGERING.values(), ids=LINGERING)
async def test_nothing_of_a_cancelled_command_is_left(box: WorkspaceToolbox, root: Path, command: str) -> None:
    async with Alive(root) as alive:
        running = asyncio.create_task(box.execute(call("run_terminal", command=command)))
        await alive.says("up")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await alive.is_over()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "left",
    [
        "sleep 1000 &",
        "setsid sleep 1000 & sleep 1000 &",
        "nohup sh -c 'trap \"\" TERM; sleep 1000' >/dev/null 2>&1 &",
        "(setsid sh -c 'sleep 1000 & exit' &);",
    ],
)
async def test_nothing_a_command_leaves_in_the_background_outlives_it(
    box: WorkspaceToolbox, root: Path, left: str
) -> None:
    async with Alive(root) as alive:
        said = await done(box, "run_terminal", command=f"exec 9>alive; echo up >&9; {left} echo finished; exit 5")
        assert said.startswith("exit code: 5\nstdout:\nfinished")
        await alive.says("up")
        await alive.is_over()


@pytest.mark.usefixtures("impatient")
async def test_a_command_that_kills_its_watcher_is_killed(box: WorkspaceToolbox, root: Path) -> None:
    async with Alive(root) as alive:
        command = "exec 9>alive; echo up >&9; sleep 1000 & kill -9 $PPID; sleep 1000"
        assert "was killed" in await refused(box, "run_terminal", command=command)
        await alive.says("up")
        await alive.is_over()


async def test_a_command_that_kills_its_whole_group_leaves_nothing(box: WorkspaceToolbox, root: Path) -> None:
    async with Alive(root) as alive:
        command = "exec 9>alive; echo up >&9; setsid sleep 1000 & kill -9 0"
        assert "ended by signal 9" in await done(box, "run_terminal", command=command)
        await alive.says("up")
        await alive.is_over()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_commands_work_on_every_event_loop(workspace: Workspace, root: Path, new_loop: type) -> None:
    async def scene() -> None:
        box = WorkspaceToolbox(workspace, environment=ENVIRONMENT)
        said = await done(box, "run_terminal", command="echo out; echo $GREETING >&2; exit 3")
        assert said == "exit code: 3\nstdout:\nout\nstderr:\nhello"
        async with Alive(root) as alive:
            running = asyncio.create_task(box.execute(call("run_terminal", command=LINGERING["in the background"])))
            await alive.says("up")
            running.cancel()
            await asyncio.wait([running])
            await alive.is_over()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(scene())


@pytest.mark.parametrize("way", ["in the background", "in a session of its own", "forked twice"])
async def test_commands_end_when_the_gateway_is_killed(root: Path, way: str) -> None:
    """A gateway that gets KILL can do nothing any more; the pipe it held ends, and that is enough."""
    script = (
        "import asyncio, sys\n"
        "from tests.tools.calling import call\n"
        "from tieline.tools.toolbox import WorkspaceToolbox\n"
        "from tieline.tools.workspace import Workspace\n"
        "box = WorkspaceToolbox(Workspace(sys.argv[1]), environment={'PATH': sys.argv[2]})\n"
        "asyncio.run(box.execute(call('run_terminal', command=sys.argv[3])))\n"
    )
    async with Alive(root) as alive:
        argv = [sys.executable, "-c", script, str(root), ENVIRONMENT["PATH"], LINGERING[way]]
        with subprocess.Popen(argv, cwd=Path(__file__).parents[2]) as gateway:  # noqa: S603, ASYNC220 (our own script)
            await alive.says("up")
            gateway.send_signal(signal.SIGKILL)
        await alive.is_over()


async def test_of_huge_output_the_beginning_and_the_end_are_kept(box: WorkspaceToolbox) -> None:
    said = await done(box, "run_terminal", command="seq 1 300000; echo problem >&2")
    assert said.startswith("exit code: 0\nstdout:\n1\n2\n3\n")
    assert "\n300000\nstderr:\nproblem" in said
    assert len(said) < 60_000
    lines = said.splitlines()
    gap = next(number for number, line in enumerate(lines) if "bytes omitted" in line)
    before, after = int(lines[gap - 1]), int(lines[gap + 1])
    lost = sum(len(f"{number}\n") for number in range(before + 1, after))
    assert lines[gap] == f"… {lost} bytes omitted …"


async def test_a_command_that_never_stops_writing_is_ended(workspace: Workspace) -> None:
    box = WorkspaceToolbox(workspace, environment=ENVIRONMENT, limits=OutputLimits(head=100, tail=100, total=1 << 20))
    said = await refused(box, "run_terminal", command="yes")
    assert said.startswith("The command was ended because it wrote more than 1048576 bytes.")
    assert len(said) < 500


async def test_output_that_is_no_text_is_shown_as_well_as_can_be(box: WorkspaceToolbox) -> None:
    said = await done(box, "run_terminal", command=r"printf 'a\377\000b'")
    assert said == "exit code: 0\nstdout:\na\ufffd\0b"


@pytest.mark.parametrize("command", ["echo \0", "x" * 30_001, ""])
async def test_a_command_no_shell_can_be_given_is_refused(box: WorkspaceToolbox, command: str) -> None:
    assert await refused(box, "run_terminal", command=command)


async def test_a_shell_that_does_not_exist_is_said_not_to(workspace: Workspace) -> None:
    box = WorkspaceToolbox(workspace, environment=ENVIRONMENT, interpreter=("/no/such/shell", "-c"))
    assert "No such file" in await refused(box, "run_terminal", command="true")


async def test_only_so_many_commands_run_at_once(workspace: Workspace, root: Path) -> None:
    box = WorkspaceToolbox(workspace, environment=ENVIRONMENT, commands_at_once=1)
    command = "mkdir lock || exit 9; rmdir lock"
    results = await asyncio.gather(*(box.execute(call("run_terminal", command=command)) for _ in range(4)))
    assert {text_of(result) for result in results} == {"exit code: 0\n(no output)"}


async def test_a_command_can_be_looked_at_while_it_runs(workspace: Workspace, root: Path) -> None:
    """What a terminal of an editor needs: output so far, an end on request, and how it went."""
    async with Alive(root) as alive:
        with workspace.directory(".") as spot:
            command = await RunningCommand.start(
                ["sh", "-c", "exec 9>alive; echo begun; echo up >&9; sleep 1000"],
                directory=spot.directory,
                environment=ENVIRONMENT,
            )
        await alive.says("up")
        assert not command.is_over
        assert command.outcome().exit_code is None
        command.end()
        outcome = await command.wait(60)
        assert (outcome.signal, outcome.stdout, outcome.timed_out) == (signal.SIGTERM, "begun\n", False)
        assert command.is_over
        await alive.is_over()


@pytest.mark.parametrize("environment", [{"": "x"}, {"A=B": "x"}, {"A": "x\0y"}, {"A": "\ud800"}])
async def test_an_environment_no_process_can_have_is_refused(workspace: Workspace, environment: dict[str, str]) -> None:
    with workspace.directory(".") as spot, pytest.raises(ToolFailed, match="environment"):
        await RunningCommand.start(["true"], directory=spot.directory, environment=environment)


async def test_nothing_stays_open_when_commands_are_over(box: WorkspaceToolbox) -> None:
    await done(box, "run_terminal", command="true")
    before = open_files()
    for _ in range(5):
        await done(box, "run_terminal", command="true")
    assert open_files() <= before


def open_files() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


@given(st.binary(max_size=300), st.integers(0, 40), st.integers(0, 40), st.integers(1, 60))
def test_what_is_kept_of_a_stream_does_not_depend_on_how_it_is_cut(data: bytes, head: int, tail: int, cut: int) -> None:
    captured, whole = BoundedOutput(head, tail), BoundedOutput(head, tail)
    for at in range(0, len(data), cut):
        captured.feed(data[at : at + cut])
    whole.feed(data)
    assert (captured.head, captured.tail, captured.omitted) == (whole.head, whole.tail, whole.omitted)
    assert captured.head == data[:head]
    assert captured.omitted == max(0, len(data) - head - tail)
    assert (captured.head + captured.tail == data) is not captured.omitted
    assert data.endswith(captured.tail)
