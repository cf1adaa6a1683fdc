"""Everything that comes of a program ends with it, wherever it went: another session, the background."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
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
from tieline.net.process.program import Exit, Process, ProcessError, StopTimeouts
from tieline.net.process.tree import ProcessTree

pytestmark = pytest.mark.skipif(not ProcessTree.is_possible(), reason="needs Linux")

Run = Callable[..., Awaitable[Process]]

LAUNCH = (
    LIVE
    + """
    child = [*sys.orig_argv[:4], sys.argv[2], sys.argv[1]]
"""
)

WAYS = {
    "in a session of its own": "subprocess.Popen(child, start_new_session=True)",
    "forked twice": "os.fork() and os.wait() or os.setsid() or os.fork() and os._exit(0) or os.execv(child[0], child)",
    "in the background": """subprocess.run(["/bin/sh", "-c", 'nohup "$@" >/dev/null 2>&1 &', "sh", *child])""",
    "in the background of a session": """subprocess.run(["/bin/sh", "-c", 'setsid "$@" & exit', "sh", *child])""",
}
"""How a program leaves another behind; where it forks itself, the first process goes on."""


@pytest.fixture
def presence() -> Iterator[Presence]:
    with Presence() as place:
        yield place


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    """Starts Python programs; what they leave running is ended."""
    running: list[Process] = []

    async def start(program: str, *arguments: str, env: Mapping[str, str] = ENV) -> Process:
        process = await Process.start(python(program, *arguments), env=env, cwd=str(tmp_path))
        running.append(process)
        return process

    yield start
    for process in running:
        await process.aclose(IMPATIENT)


def leaving(way: str, then: str) -> str:
    """A program that leaves another behind, and then does something."""
    return f"{LAUNCH}\n    {way}\n    {then}"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_what_a_program_left_behind_ends_when_it_is_closed(run: Run, presence: Presence, way: str) -> None:
    async with asyncio.timeout(SOON):
        process = await run(leaving(way, "sys.stdin.read(); sys.exit(3)"), presence.port, textwrap.dedent(STUBBORN))
        child = await presence.next()
        await process.aclose(PATIENT)
        await gone(child)
    assert process.exit == Exit(status=3)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_what_a_program_left_behind_ends_when_the_program_does(run: Run, presence: Presence, way: str) -> None:
    program = leaving(way, "sys.stdin.readline(); print('bye', flush=True); os.kill(os.getpid(), signal.SIGUSR1)")
    async with asyncio.timeout(SOON):
        process = await run(program, presence.port, textwrap.dedent(STUBBORN))
        child = await presence.next()
        await process.send(b"end\n")
        assert await output(process) == b"bye\n"
        assert await process.wait() == Exit(signal=signal.SIGUSR1)
        await gone(child)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_what_a_program_left_behind_ends_when_we_are_killed(presence: Presence, tmp_path: Path, way: str) -> None:
    argv = python(leaving(way, "connection = live(); signal.pause()"), presence.port, textwrap.dedent(STUBBORN))
    ours = f"""
import asyncio
from tieline.net.process.program import Process
async def main():
    await Process.start({argv!r}, env={ENV!r}, cwd={str(tmp_path)!r})
    await asyncio.Event().wait()
asyncio.run(main())
"""
    async with asyncio.timeout(SOON):
        with subprocess.Popen([sys.executable, "-c", ours]) as we:  # noqa: ASYNC220, S603 - the one to be killed
            both = await presence.next(), await presence.next()
            we.kill()
            for one in both:
                await gone(one)


async def test_what_a_program_left_behind_ends_when_the_close_is_cancelled(run: Run, presence: Presence) -> None:
    way = WAYS["forked twice"]
    async with asyncio.timeout(SOON):
        process = await run(leaving(way, "signal.pause()"), presence.port, textwrap.dedent(STUBBORN))
        child = await presence.next()
        closing = asyncio.create_task(process.aclose(PATIENT))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await gone(child)
    assert process.exit == Exit(signal=signal.SIGKILL)


async def test_what_a_program_left_behind_is_asked_before_it_is_ended(run: Run, presence: Presence) -> None:
    child = f"""{LIVE}
    connection = live()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(connection.sendall(b"asked ")))
    connection.sendall(b"ready ")
    signal.pause()
    """
    program = leaving(WAYS["in a session of its own"], "signal.pause()")
    async with asyncio.timeout(SOON):
        process = await run(program, presence.port, textwrap.dedent(child))
        connection = await presence.next()
        assert await asyncio.get_running_loop().sock_recv(connection, 100) == b"ready "
        await process.aclose(StopTimeouts(eof=0.05, term=SOON, kill=SOON))
        assert await gone(connection) == b"asked "
    assert process.exit == Exit(signal=signal.SIGTERM)


async def test_orphans_of_a_program_that_runs_on_are_no_zombies(run: Run) -> None:
    async with asyncio.timeout(SOON):
        process = await run(
            """
            import os
            told, telling = os.pipe()
            if not os.fork():
                if not os.fork():
                    os.write(telling, b"%d" % os.getpid())
                os._exit(0)
            os.wait()
            orphan = int(os.read(told, 100))
            try:
                while True:
                    os.kill(orphan, 0)
                    os.sched_yield()
            except ProcessLookupError:
                print("reaped", flush=True)
            """
        )
        assert await output(process) == b"reaped\n"


# ── the one in between ───────────────────────────────────────────────────────────────────────────


async def test_a_program_whose_warden_is_killed_is_killed(run: Run, presence: Presence) -> None:
    program = leaving("subprocess.Popen(child)", "sys.stdin.readline(); os.kill(os.getppid(), 9); signal.pause()")
    async with asyncio.timeout(SOON):
        process = await run(program, presence.port, textwrap.dedent(STUBBORN))
        child = await presence.next()
        await process.send(b"now\n")
        assert await process.wait() == Exit(signal=signal.SIGKILL)
        await gone(child)


async def test_a_program_that_kills_its_own_group_leaves_nothing(run: Run, presence: Presence) -> None:
    program = leaving(WAYS["in a session of its own"], "sys.stdin.readline(); os.killpg(0, signal.SIGKILL)")
    async with asyncio.timeout(SOON):
        process = await run(program, presence.port, textwrap.dedent(STUBBORN))
        child = await presence.next()
        await process.send(b"now\n")
        assert await process.wait() == Exit(signal=signal.SIGKILL)
        await gone(child)


async def test_a_program_has_the_signals_of_any_program(tmp_path: Path) -> None:
    async with asyncio.timeout(SOON):
        process = await Process.start(["/bin/grep", "Sig[BI]", "/proc/self/status"], env=ENV, cwd=str(tmp_path))
        blocked, ignored = (int(line.split()[1], 16) for line in (await output(process)).splitlines())
        await process.aclose()
    # The C library keeps a few for itself: those nobody can set, and they may be inherited from anywhere.
    settable = sum(1 << number - 1 for number in signal.valid_signals())
    assert (blocked & settable, ignored & settable) == (0, 0)


async def test_a_program_does_not_see_what_its_warden_needs(tmp_path: Path) -> None:
    """Python puts variables into its own environment where there are none."""
    async with asyncio.timeout(SOON):
        process = await Process.start(["/usr/bin/env"], env={}, cwd=str(tmp_path))
        assert await output(process) == b""
        await process.aclose()


async def test_the_end_of_a_stream_is_seen_while_the_program_runs(run: Run) -> None:
    """Nobody but the program holds its streams."""
    async with asyncio.timeout(SOON):
        process = await run("import os, signal; os.close(1); os.close(0); signal.pause()")
        assert await process.chunk() == b""
        with pytest.raises(ProcessError, match="accepts no more input"):
            await send_for_ever(process)
        assert process.exit is None


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8])
async def test_of_a_start_that_is_cancelled_nothing_is_left(tmp_path: Path, steps: int) -> None:
    starting = asyncio.create_task(Process.start(["/bin/cat"], env=ENV, cwd=str(tmp_path)))
    for _ in range(steps):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(ChildProcessError):  # we have no children at all
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # noqa: ASYNC222 - it does not wait


@pytest.mark.parametrize(
    ("executable", "message"),
    [("/no/such/python", "/no/such/python cannot be run"), ("/bin/false", "supervising process has exited")],
)
async def test_without_a_warden_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str, message: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    async with asyncio.timeout(SOON):
        with pytest.raises(ProcessError, match=message) as caught:
            await Process.start(["/bin/cat"], env=ENV, cwd=str(tmp_path))
    assert caught.value.reason == "failed"
