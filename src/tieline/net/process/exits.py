"""Waits for processes to exit, and describes how they ended."""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass

REAP_TIMEOUT = 5.0
"""Seconds to wait for a process that is about to exit before it is killed."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a program ended: with an exit status or by a signal."""

    status: int | None = None
    signal: int | None = None

    @classmethod
    def of(cls, returncode: int) -> "Exit":
        return cls(signal=-returncode) if returncode < 0 else cls(status=returncode)

    def __str__(self) -> str:
        if self.signal is None:
            return f"exited with status {self.status}"
        try:
            return f"was ended by {signal.Signals(self.signal).name}"
        except ValueError:
            return f"was ended by signal {self.signal}"


def on_exit(process: subprocess.Popen[bytes], callback: Callable[[], None]) -> Callable[[], None]:
    """Call `callback` once when a process has exited. Return a function that cancels the callback.

    On systems with pidfd or waitid, the process is not reaped before the callback is called, so that its pid cannot be
    reused until then.
    """
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return _watch_in_thread(loop, process, callback)

    def stop() -> None:
        nonlocal descriptor
        if descriptor >= 0:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            descriptor = -1

    def ended() -> None:
        stop()
        callback()

    loop.add_reader(descriptor, ended)
    return stop


async def reaped(process: subprocess.Popen[bytes] | None) -> None:
    """Wait for a process that is about to exit, and reap it. Kill it if it has not exited after REAP_TIMEOUT."""
    if process is None or process.poll() is not None:
        return
    ended = asyncio.Event()
    stop = on_exit(process, ended.set)
    try:
        async with asyncio.timeout(REAP_TIMEOUT):
            await ended.wait()
    except TimeoutError:
        process.kill()
    finally:
        stop()
    process.wait()


def reap_now(process: subprocess.Popen[bytes] | None) -> None:
    """Reap a process that is about to exit. This blocks the event loop for some milliseconds, at most for a second."""
    if process is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)


def close_pipes(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes to the standard streams of a process."""
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _watch_in_thread(
    loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes], callback: Callable[[], None]
) -> Callable[[], None]:
    stopped = threading.Event()

    def ended() -> None:
        if not stopped.is_set():
            callback()

    def watch() -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        # The loop may be closed by now.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended)

    threading.Thread(target=watch, name=f"wait for {process.pid}", daemon=True).start()
    return stopped.set
