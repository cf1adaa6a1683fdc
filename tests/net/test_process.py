"""Programs as pipes: what goes in and comes out, how they are started, and that nothing of them is left behind."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from tests.net.programs import (
    ENV,
    IMPATIENT,
    LIVE,
    PATIENT,
    SOON,
    STUBBORN,
    Presence,
    gone,
    output,
    python,
    send_for_ever,
)
from tieline.net.process import stdio, watchdog
from tieline.net.process.program import HIGH_WATER, Exit, Process, ProcessError, StopTimeouts
from tieline.net.process.tree import ProcessTree

Run = Callable[..., Awaitable[Process]]

ECHO = """
    import sys
    while data := sys.stdin.buffer.read1():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
"""


@pytest.fixture(params=["tree", "group"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Programs are run as on Linux, or as everywhere else."""
    if request.param == "group":
        monkeypatch.setattr(ProcessTree, "is_possible", lambda: False)
    elif not ProcessTree.is_possible():
        pytest.skip("only Linux finds everything that comes of a program")
    return str(request.param)


@pytest.fixture
async def run(tmp_path: Path, kind: str) -> AsyncIterator[Run]:
    """Starts Python programs; what they leave running is ended."""
    running: list[Process] = []

    async def start(program: str, *arguments: str, tail: int = 64 * 1024) -> Process:
        process = await Process.start(python(program, *arguments), env=ENV, cwd=str(tmp_path), tail=tail)
        running.append(process)
        return process

    yield start
    for process in running:
        await process.aclose(IMPATIENT)


@pytest.fixture
def presence() -> Iterator[Presence]:
    with Presence() as place:
        yield place


async def is_full(process: Process) -> None:
    """Until as much waits to be taken as may."""
    while process.buffered <= HIGH_WATER:  # noqa: ASYNC110 - there is no event for what a user never waits for
        await asyncio.sleep(0)


# ── in and out ───────────────────────────────────────────────────────────────────────────────────


async def test_what_is_sent_arrives_and_what_is_written_is_read(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(ECHO)
        for line in (b"one\n", b"two\n"):
            await process.send(line)
            assert await process.chunk() == line
        await process.aclose(PATIENT)
        assert process.exit == Exit(status=0)
        assert await process.chunk() == b""


async def test_megabytes_go_both_ways_at_once(run: Run) -> None:
    message = bytes(range(256)) * 16_000
    async with asyncio.timeout(SOON):
        process = await run(ECHO)
        await process.send(message)
        got = bytearray()
        while len(got) < len(message):
            got += await process.chunk()
        assert bytes(got) == message


async def test_a_program_that_writes_faster_than_it_is_read_waits(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(
            """
            import sys
            for _ in range(640):
                sys.stdout.write("x" * 65536)
            """
        )
        await is_full(process)
        most = process.buffered
        assert most < HIGH_WATER + 2 * 1024 * 1024
        assert process.exit is None
        assert len(await output(process)) == 640 * 65536


async def test_senders_wait_while_a_program_does_not_read(run: Run) -> None:
    piece = b"x" * stdio.HIGH_WATER
    async with asyncio.timeout(SOON):
        process = await run("import signal; signal.pause()")
        for _ in range(2):
            await process.send(piece)
        with pytest.raises(ProcessError, match="has not read its input") as caught:
            await process.send(piece, within=0.05)
        assert caught.value.reason == "timeout"


async def test_messages_of_many_senders_stay_whole_and_a_cancelled_one_leaves_no_half(run: Run) -> None:
    size = stdio.HIGH_WATER + 1
    async with asyncio.timeout(SOON):
        process = await run(
            """
            import os, sys
            os.write(1, b"ready")
            os.read(int(sys.stdin.fileno()), 1)
            for line in sys.stdin.buffer:
                print(len(line), len(set(line[:-1])), flush=True)
            """
        )
        assert await process.chunk() == b"ready"
        first = b"\n" + b"a" * size + b"\n"
        await process.send(first + first[1:] * 8)
        senders = [asyncio.create_task(process.send(letter * size + b"\n")) for letter in (b"b", b"c", b"d")]
        await asyncio.sleep(0)
        senders[1].cancel()
        lines = b""
        while lines.count(b"\n") < 11:
            lines += await process.chunk()
    assert set(lines.splitlines()) == {f"{size + 1} 1".encode()}
    assert [sender.cancelled() for sender in senders] == [False, True, False]


async def test_a_program_that_closes_its_input_takes_nothing_more(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(
            """
            import os, signal
            os.close(0)
            os.write(1, b"closed")
            signal.pause()
            """
        )
        assert await process.chunk() == b"closed"
        with pytest.raises(ProcessError, match="accepts no more input") as caught:
            await send_for_ever(process)
        assert caught.value.reason == "ended"
        assert process.exit is None


# ── standard error ───────────────────────────────────────────────────────────────────────────────


async def test_a_flood_on_standard_error_stops_nothing_and_its_end_is_kept(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(
            """
            import sys
            for number in range(200_000):
                sys.stderr.write(f"warning number {number}\\n")
            sys.stderr.flush()
            print("done", flush=True)
            """,
            tail=1000,
        )
        assert await output(process) == b"done\n"
        await process.wait()
    lines = process.stderr.splitlines()
    assert lines[-1] == "warning number 199999"
    assert lines[0].startswith("warning number ")
    assert 500 < len(process.stderr) <= 1000


async def test_the_last_words_of_a_program_that_fails_are_there_when_it_has_ended(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run("import sys; sys.stderr.write('\\x1b[31mno key\\x1b[0m: set API_KEY\\n'); sys.exit(3)")
        assert await process.chunk() == b""
        assert str(await process.wait()) == "exited with status 3"
    assert process.stderr == "no key: set API_KEY"


# ── starting ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("kind")
async def test_the_environment_is_the_one_that_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "1")
    async with asyncio.timeout(SOON):
        process = await Process.start(["/usr/bin/env"], env={"A": "1", "B": "ä"}, cwd=str(tmp_path))
        assert sorted((await output(process)).decode().split()) == ["A=1", "B=ä"]
        await process.aclose()


async def test_a_program_runs_in_its_folder_and_in_a_group_of_its_own(run: Run, tmp_path: Path) -> None:
    async with asyncio.timeout(SOON):
        process = await run("import os; print(os.getcwd(), os.getpgid(0), os.getsid(0))")
        folder, group, session = (await output(process)).decode().split()
    assert Path(folder).name == tmp_path.name
    assert int(group) == int(session) == process.pid
    assert process.pid != os.getpgid(0)


@pytest.mark.usefixtures("kind")
async def test_an_environment_may_be_large(tmp_path: Path) -> None:
    env = {f"LARGE_{number}": "x" * 100_000 for number in range(8)}
    async with asyncio.timeout(SOON):
        process = await Process.start(["/usr/bin/env"], env=env, cwd=str(tmp_path))
        assert dict(line.split("=") for line in (await output(process)).decode().split()) == env
        await process.aclose()


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("env", [{"A=B": "x"}, {"A": "x\0y"}, {"A": "\ud800"}])
async def test_an_environment_no_program_can_have_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(ProcessError, match="could not be started") as caught:
        await Process.start(["/usr/bin/env"], env=env, cwd=str(tmp_path))
    assert caught.value.reason == "failed"


async def test_a_program_gets_its_streams_and_no_other_file_of_ours(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run("import os; print(*os.listdir('/dev/fd'))")
        assert sorted((await output(process)).split()) == [b"0", b"1", b"2", b"3"], "the fourth is the listing's own"


@pytest.mark.usefixtures("kind")
async def test_a_name_is_looked_up_on_the_path_that_is_given(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    async with asyncio.timeout(SOON):
        process = await Process.start(["agent"], env={"PATH": str(program.parent)}, cwd=str(tmp_path))
        assert await output(process) == b"found\n"
        await process.aclose()


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize(
    ("argv", "folder", "reason", "message"),
    [
        (["no-such-agent"], ".", "not_found", "no-such-agent was not found on the PATH"),
        (["/no/such/agent"], ".", "not_found", "/no/such/agent was not found"),
        (["./plain"], ".", "not_executable", "./plain cannot be executed"),
        (["./formless"], ".", "not_executable", "./formless cannot be executed"),
        (["./orphan"], ".", "not_executable", "interpreter was not found"),
        (["."], ".", "not_executable", "cannot be executed"),
        (["/bin/sh"], "missing", "no_folder", "missing is not a directory"),
        (["/bin/sh"], "plain", "no_folder", "plain is not a directory"),
        (["/bin/sh", "a\0b"], ".", "failed", "could not be started"),
        ([], ".", "not_found", "no command"),
        ([""], ".", "not_found", "no command"),
    ],
)
async def test_a_program_that_cannot_start_says_why(
    argv: list[str], folder: str, reason: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").write_text("text")
    for name, text in (("formless", "echo no first line\n"), ("orphan", "#!/no/such/interpreter\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    async with asyncio.timeout(SOON):
        with pytest.raises(ProcessError, match=message) as caught:
            await Process.start(argv, env=ENV, cwd=str(tmp_path / folder))
    assert caught.value.reason == reason


# ── ending ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("raise SystemExit(0)", "exited with status 0"),
        ("raise SystemExit(7)", "exited with status 7"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was ended by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)", f"was ended by signal {signal.SIGRTMIN + 1}"),
    ],
)
async def test_an_end_is_told_in_words(run: Run, program: str, text: str) -> None:
    async with asyncio.timeout(SOON):
        process = await run(program)
        assert str(await process.wait()) == text


async def test_closing_ends_a_program_at_the_end_of_its_input(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(ECHO)
        await process.aclose(PATIENT)
    assert process.exit == Exit(status=0)


async def test_a_program_that_goes_on_after_its_input_is_asked_to_end(run: Run, presence: Presence) -> None:
    async with asyncio.timeout(SOON):
        process = await run(LIVE + "    connection = live(); signal.pause()", presence.port)
        connection = await presence.next()
        await process.aclose(StopTimeouts(eof=0.05, term=SOON, kill=SOON))
        await gone(connection)
    assert process.exit == Exit(signal=signal.SIGTERM)


async def test_a_program_that_will_not_end_is_ended(run: Run, presence: Presence) -> None:
    async with asyncio.timeout(SOON):
        process = await run(STUBBORN, presence.port)
        connection = await presence.next()
        await process.aclose(IMPATIENT)
        await gone(connection)
    assert process.exit == Exit(signal=signal.SIGKILL)


async def test_a_program_that_writes_without_being_read_can_be_closed(run: Run) -> None:
    """It stands still in a write and sees the end of its input only when somebody reads."""
    async with asyncio.timeout(SOON):
        process = await run(
            """
            import sys
            for _ in range(640):
                sys.stdout.write("x" * 65536)
            sys.stdout.flush()
            sys.stdin.read()
            """
        )
        await is_full(process)
        await process.aclose(PATIENT)
    assert process.exit == Exit(status=0)


async def test_closing_twice_and_at_once_is_closing(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(ECHO)
        await asyncio.gather(process.aclose(PATIENT), process.aclose(PATIENT))
        await process.aclose()
        with pytest.raises(ProcessError, match="it exited with status 0"):
            await process.send(b"late")


async def test_whoever_reads_while_it_is_closed_reads_the_end(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(ECHO)
        reading = asyncio.create_task(process.chunk())
        await asyncio.sleep(0)
        await process.aclose(PATIENT)
        assert await reading == b""


PARENT = (
    LIVE
    + """
    child = subprocess.Popen([*sys.orig_argv[:4], sys.argv[2], sys.argv[1]], stdin=subprocess.DEVNULL)
"""
)


@pytest.mark.parametrize("then", ["sys.stdin.read()", "signal.pause()"], ids=["that ends", "that does not"])
async def test_children_of_a_program_end_with_it(run: Run, presence: Presence, then: str) -> None:
    """Seen: most agents are started by a launcher, and what does the work is its child."""
    async with asyncio.timeout(SOON):
        process = await run(f"{PARENT}\n    {then}", presence.port, textwrap.dedent(STUBBORN))
        child = await presence.next()
        await process.aclose(StopTimeouts(eof=0.2, term=0.05, kill=SOON))
        await gone(child)


async def test_children_of_a_program_that_has_ended_are_ended(run: Run, presence: Presence) -> None:
    """They hold its output open: whoever reads must not wait for them."""
    async with asyncio.timeout(SOON):
        process = await run(
            f"{PARENT}\n    print('bye', flush=True); sys.stdin.readline(); sys.exit(4)",
            presence.port,
            textwrap.dedent(STUBBORN),
        )
        child = await presence.next()
        await process.send(b"end\n")
        assert await output(process) == b"bye\n"
        assert await process.wait() == Exit(status=4)
        await gone(child)


@pytest.mark.parametrize("kind", ["group"], indirect=True)
async def test_a_child_that_left_the_group_holds_nobody_up(run: Run, presence: Presence) -> None:
    async with asyncio.timeout(SOON):
        process = await run(
            f"{PARENT.replace('DEVNULL)', 'DEVNULL, start_new_session=True)')}\n    sys.stdin.readline()",
            presence.port,
            textwrap.dedent(LIVE + "    connection = live(); connection.recv(1)"),
        )
        child = await presence.next()
        await process.send(b"end\n")
        assert await output(process) == b""
        assert await process.wait() == Exit(status=0)
        await process.aclose()
        child.close()


async def test_cancelling_a_close_ends_the_group_at_once(run: Run, presence: Presence) -> None:
    async with asyncio.timeout(SOON):
        process = await run(f"{PARENT}\n    signal.pause()", presence.port, textwrap.dedent(STUBBORN))
        child = await presence.next()
        closing = asyncio.create_task(process.aclose(PATIENT))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await gone(child)
    assert process.exit == Exit(signal=signal.SIGKILL)


async def test_a_start_that_is_cancelled_leaves_no_pipe_open(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    popens: list[subprocess.Popen[bytes]] = []

    async def connect(pipe: stdio.OutputPipe, stream: object) -> None:
        popens.append(next(one for one in subprocess_objects() if one.stdout is stream))
        raise asyncio.CancelledError

    def subprocess_objects() -> Iterator[subprocess.Popen[bytes]]:
        return (one for one in gc.get_objects() if type(one) is subprocess.Popen)

    monkeypatch.setattr(stdio.OutputPipe, "connect", connect)
    with pytest.raises(asyncio.CancelledError):
        await run(ECHO)
    (popen,) = popens
    assert [stream.closed for stream in (popen.stdout, popen.stderr) if stream is not None] == [True, True]


async def test_programs_do_not_outlive_us_even_if_we_are_killed(presence: Presence, tmp_path: Path, kind: str) -> None:
    """The signal that nobody can catch: only who watches the program is left to see it."""
    program = f"{PARENT}\n    connection = live(); signal.pause()"
    argv = python(program, presence.port, textwrap.dedent(STUBBORN))
    ours = f"""
import asyncio
from tieline.net.process.program import Process
from tieline.net.process.tree import ProcessTree
ProcessTree.is_possible = lambda: {kind == "tree"}
async def main():
    argv = {argv!r}
    await Process.start(argv, env={ENV!r}, cwd={str(tmp_path)!r})
    await asyncio.Event().wait()
asyncio.run(main())
"""
    async with asyncio.timeout(SOON):
        with subprocess.Popen([sys.executable, "-c", ours]) as we:  # noqa: ASYNC220, S603 - the one to be killed
            first, second = await presence.next(), await presence.next()
            we.kill()
            await gone(first)
            await gone(second)


# ── systems that lack something ──────────────────────────────────────────────────────────────────


async def test_without_process_descriptors_a_thread_waits(
    run: Run, presence: Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    async with asyncio.timeout(SOON):
        process = await run(
            f"{PARENT}\n    sys.stdin.readline(); sys.exit(5)", presence.port, textwrap.dedent(STUBBORN)
        )
        child = await presence.next()
        await process.send(b"end\n")
        assert await process.wait() == Exit(status=5)
        await gone(child)
        await process.aclose()


async def test_without_waiting_for_others_a_process_is_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    monkeypatch.delattr(os, "waitid", raising=False)
    async with asyncio.timeout(SOON):
        process = await run("raise SystemExit(6)")
        assert await process.wait() == Exit(status=6)
        await process.aclose()


@pytest.mark.parametrize("kind", ["group"], indirect=True)
async def test_without_a_shell_there_is_no_watchdog_and_all_else_is_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SHELL", "/no/such/shell")
    async with asyncio.timeout(SOON):
        process = await run(ECHO)
        await process.send(b"hello")
        assert await process.chunk() == b"hello"
        await process.aclose(PATIENT)
    assert process.exit == Exit(status=0)
