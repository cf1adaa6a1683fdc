"""Runs a program without a terminal and without input, within a time limit, and keeps the end of its output."""

import asyncio
import re
from collections.abc import Mapping, Sequence

from tieline.model.content import Value
from tieline.net.process.program import Process, ProcessError, StopTimeouts
from tieline.net.process.tail import Tail

MAX_OUTPUT = 64 << 10
"""Number of bytes that are kept of standard output, and of standard error."""
VERSION_LIMIT = 30.0
STOP = StopTimeouts(eof=0, term=2, kill=2)

_VERSION = re.compile(r"\d+(?:\.\d+)+(?:[\w.+-]*\w)?")


class ProgramRun(Value):
    """How a run ended. `problem` is empty if the program ended by itself with status 0."""

    output: str = ""
    errors: str = ""
    problem: str = ""


async def run_program(argv: Sequence[str], env: Mapping[str, str], folder: str, limit: float) -> ProgramRun:
    """Run a program in a folder. All its processes have ended when this function returns."""
    try:
        process = await Process.start(argv, env=env, cwd=folder, tail=MAX_OUTPUT)
    except ProcessError as error:
        return ProgramRun(problem=error.message)
    output = Tail(MAX_OUTPUT)
    problem = ""
    try:
        process.close_input()
        async with asyncio.timeout(limit):
            while data := await process.chunk():
                output.add(data)
            ended = await process.wait()
        if ended.status != 0:
            problem = f"it {ended}"
    except TimeoutError:
        problem = f"it did not end within {limit:g} s"
    finally:
        await process.aclose(STOP)
    return ProgramRun(output=output.text(), errors=process.stderr, problem=problem)


async def program_version(program: str, env: Mapping[str, str], folder: str) -> str | None:
    """Return the version that a program prints for `--version`, or None if it prints none."""
    ran = await run_program((program, "--version"), env, folder, VERSION_LIMIT)
    found = [_VERSION.search(line) for line in reversed(ran.output.splitlines() or ran.errors.splitlines())]
    return next((match[0] for match in found if match is not None), None) if not ran.problem else None
