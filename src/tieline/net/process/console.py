"""Runs a program on this process's console (Windows). For other systems, see `foreground.py`.

The program and this process share the console and its input. Both receive Ctrl-C, which this process ignores while the
program runs. The program and all processes that it started end with this process, because they belong to a job object.
"""

import asyncio
import signal
import subprocess
from collections.abc import Mapping, Sequence

from tieline.net.process import exits
from tieline.net.process.exits import Exit
from tieline.net.process.job import JobApi, Popen, start_in_job


async def run_on_console(
    argv: Sequence[str], env: Mapping[str, str], *, api: JobApi | None = None, popen: Popen = subprocess.Popen
) -> Exit:
    """Run a program until it exits. `argv[0]` is its path. Raise OSError if it cannot be started.

    `api` and `popen` provide the system functions; tests replace them.
    """
    api = api or JobApi()
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        started, job = start_in_job(list(argv), api, popen, env=dict(env))
        ended = asyncio.Event()
        stop = exits.on_exit(started, ended.set)
        try:
            await ended.wait()
        finally:
            stop()
            api.close(job)  # ends the processes that are left
        return Exit.of(started.wait())
    finally:
        signal.signal(signal.SIGINT, before)
