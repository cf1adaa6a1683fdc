"""Defines checks and findings. Checks run several at a time, each with a time limit; their findings stay in order."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from tieline.backends.credentials import in_thread
from tieline.model.content import Value
from tieline.model.errors import GatewayError
from tieline.tasks import Tasks

log = logging.getLogger("tieline.doctor")

AT_ONCE = 4
"""Maximum number of checks that run at once. Some start programs, which need most of a core for a few seconds."""
TIME_LIMIT = 10.0

Status = Literal["ok", "warning", "problem", "skipped"]


class Finding(Value, kw_only=True, omit_defaults=False):
    """What a check found. `fix` tells the user what to do about a warning or a problem."""

    area: str = ""
    """The group under which the finding is shown. It is taken from the check, and so is `name` if it is empty."""
    name: str = ""
    status: Status
    text: str
    fix: str = ""


def ok(text: str, *, name: str = "") -> Finding:
    """Return a finding that needs no action."""
    return Finding(name=name, status="ok", text=text)


def warning(text: str, fix: str = "", *, name: str = "") -> Finding:
    """Return a finding about something that works, but not as well as it could."""
    return Finding(name=name, status="warning", text=text, fix=fix)


def problem(text: str, fix: str = "", *, name: str = "") -> Finding:
    """Return a finding about something that does not work."""
    return Finding(name=name, status="problem", text=text, fix=fix)


def skipped(text: str, fix: str = "", *, name: str = "") -> Finding:
    """Return a finding about something that was not checked, and does not have to be."""
    return Finding(name=name, status="skipped", text=text, fix=fix)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "2 models"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class Check(NamedTuple):
    """A check with one or more findings. A finding without a name gets the name of the check.

    `run` is cancelled after `limit` seconds.
    """

    area: str
    name: str
    run: Callable[[], Awaitable[Finding | Sequence[Finding]]]
    limit: float = TIME_LIMIT


def blocking_check(area: str, name: str, look: Callable[[], Finding]) -> Check:
    """Return a check that accesses the disk or another blocking resource. `look` runs in a thread."""
    return Check(area, name, lambda: in_thread(look, TIME_LIMIT))


def known(area: str, name: str, finding: Finding) -> Check:
    """Return a check whose finding is already known."""

    async def run() -> Finding:
        return finding

    return Check(area, name, run)


async def run_checks(checks: Sequence[Check]) -> AsyncGenerator[Finding, None]:
    """Yield the findings of each check, in the order of `checks`. A check that fails or hangs yields a problem."""
    tasks = Tasks()
    gate = asyncio.Semaphore(AT_ONCE)
    running = [tasks.start(_run(check, gate), check.name) for check in checks]
    try:
        for task in running:
            for finding in await task:
                yield finding
    finally:
        await tasks.aclose()


async def _run(check: Check, gate: asyncio.Semaphore) -> list[Finding]:
    async with gate:
        outcome = await _outcome(check)
    findings = [outcome] if isinstance(outcome, Finding) else outcome
    return [replace(one, area=check.area, name=one.name or check.name) for one in findings]


async def _outcome(check: Check) -> Finding | Sequence[Finding]:
    try:
        async with asyncio.timeout(check.limit):
            return await check.run()
    except TimeoutError:
        return problem(f"no result within {check.limit:g} s")
    except GatewayError as error:
        return problem(error.message)
    except OSError as error:
        return problem(f"cannot be checked: {error}")
    except Exception as error:
        log.debug("the check %s failed", check.name, exc_info=True)
        return problem(f"cannot be checked: {type(error).__name__}: {error}", "This is a bug in Tieline.")
