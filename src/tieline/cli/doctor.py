"""The command `tieline doctor`: prints the findings of the checks, as text or as JSON."""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

import msgspec

from tieline import __version__
from tieline.app import logs
from tieline.app.build.round_trip import MAX_TOKENS
from tieline.app.config import ConfigError
from tieline.app.doctor.clients import ClientReport, run_client_check
from tieline.app.doctor.configuration import load_checked
from tieline.app.doctor.cursor_live import LiveReport, live_turn
from tieline.app.doctor.doctor import Doctor
from tieline.app.doctor.findings import Finding, Status, counted
from tieline.cli.client_connection import find_client

Say = Callable[[str], None]

CURSOR = "cursor"
GOOD, PROBLEMS, NOT_CONFIGURED = 0, 1, 2
"""Exit statuses. The last one means that the configuration cannot be used."""
INTERRUPTED = 130
"""The exit status after an interruption: unfinished checks must not look successful."""

MARKS: Mapping[Status, str] = {"ok": "✓", "warning": "!", "problem": "✗", "skipped": "·"}
PLAIN_MARKS: Mapping[Status, str] = {"ok": "+", "warning": "!", "problem": "x", "skipped": "-"}
COLOURS: Mapping[Status, str] = {"ok": "32", "warning": "33", "problem": "31", "skipped": "2"}
NAME_WIDTH = 18
MAX_WIDTH = 120


def run(options: argparse.Namespace, env: Mapping[str, str], here: Path, say: Say) -> int:
    """Run the command with these options, and return its exit status. `say` prints text."""
    logs.configure("CRITICAL")  # findings report whatever goes wrong in a check
    if options.live != (options.client == CURSOR):
        raise ConfigError("`tieline doctor cursor --live` uses your account: it needs both the name and the flag")
    with _interruptible():
        if options.live:
            return _live(options, env, here, say)
        if options.client is not None:
            return _client(options, env, say)
        return _general(options, env, here, say)
    return INTERRUPTED


@contextmanager
def _interruptible() -> Iterator[None]:
    """End the `with` block quietly on SIGINT or SIGTERM, after its clean-up has ended programs and removed folders."""
    earlier = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in earlier:
        signal.signal(number, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _client(options: argparse.Namespace, env: Mapping[str, str], say: Say) -> int:
    client = find_client(options.client)
    if client is None:
        raise ConfigError(f"{options.client} is an editor: it cannot be run without a window")
    report = asyncio.run(run_client_check(client, env))
    say(_json(report) if options.json else client_text(report))
    return PROBLEMS if report.problem else GOOD


def client_text(report: ClientReport) -> str:
    """Return the report on a client as text, with the client's output and the gateway's traffic."""
    name = f"{report.title} {report.version}".strip()
    lines = [f"{'failed' if report.problem else 'passed'}: {name}, {report.duration:.1f} s"]
    lines += [f"  problem   {report.problem}", f"  to do     {report.fix}"] if report.problem else []
    lines += [
        f"  requests  {report.requests}",
        f"  calls     {', '.join(report.calls) or 'none'}",
        "",
        "What the client printed:",
        *(f"  | {line}" for line in report.output),
        "",
        "What the gateway saw:",
        *(f"  | {line}" for line in report.traffic),
    ]
    return "\n".join(lines)


def _live(options: argparse.Namespace, env: Mapping[str, str], here: Path, say: Say) -> int:
    loaded = load_checked(options.config, here, env)
    if loaded.app is None:
        raise ConfigError("the configuration cannot be used; `tieline check-config` says why")
    asyncio.run(loaded.app.aclose())
    if not options.json:
        say("Running a turn with tools on your Cursor account. It counts against your plan.")
    report = asyncio.run(live_turn(loaded.config, env, loaded.source))
    say(_json(report) if options.json else live_text(report))
    return PROBLEMS if report.problem else GOOD


def live_text(report: LiveReport) -> str:
    """Return the summary of a turn as text."""
    if not report.requests:
        return f"failed: {report.problem}\n{report.fix}".strip()
    durations = ", ".join(f"{seconds:.2f}" for seconds in report.durations)
    lines = [
        f"{'failed' if report.problem else 'passed'}: {report.model}, {report.duration:.2f} s",
        *([f"  problem   {report.problem}", f"  to do     {report.fix}"] if report.problem else []),
        f"  runs      {report.runs}",
        f"  resumes   {report.resumes}",
        f"  requests  {report.requests} ({durations} s)",
        f"  tools     {', '.join(report.calls) or 'none'}",
        f"  tokens    {report.input_tokens} in, {report.cached_tokens} from the cache, {report.output_tokens} out",
    ]
    return "\n".join(lines)


def _json(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), indent=2, ensure_ascii=False)


def _general(options: argparse.Namespace, env: Mapping[str, str], here: Path, say: Say) -> int:
    doctor = Doctor(options.config, here, env, offline=options.offline)
    printer = Printer(say, is_terminal=sys.stdout.isatty() and not env.get("NO_COLOR"), encoding=sys.stdout.encoding)
    if doctor.billable and not options.json:
        say(_announcement(doctor.billable))
    findings = asyncio.run(_collect(doctor, printer.ignore if options.json else printer.show))
    status = _exit_status(doctor, findings)
    say(_as_json(findings, status) if options.json else f"\n{_summary(findings)}")
    return status


async def _collect(doctor: Doctor, show: Callable[[Finding], None]) -> list[Finding]:
    found: list[Finding] = []
    async with aclosing(doctor.findings()) as findings:
        async for finding in findings:
            show(finding)
            found.append(finding)
    return found


def _exit_status(doctor: Doctor, findings: Sequence[Finding]) -> int:
    if not doctor.is_configured:
        return NOT_CONFIGURED
    return PROBLEMS if any(finding.status == "problem" for finding in findings) else GOOD


def _announcement(upstreams: Sequence[str]) -> str:
    return (
        f"Sending small requests with a tool to {', '.join(upstreams)}: at least two to each, with up to {MAX_TOKENS}\n"
        "tokens for an answer. They may cost money; `tieline doctor --offline` sends none.\n"
    )


def _as_json(findings: Sequence[Finding], status: int) -> str:
    counts = Counter(finding.status for finding in findings)
    report = {"version": __version__, "exit_status": status, "counts": counts, "findings": findings}
    return _json(report)


def _summary(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.status for finding in findings)
    problems, warnings = counts["problem"], counts["warning"]
    if not problems and not warnings:
        return "No problems found."
    found = ((problems, "problem"), (warnings, "warning"))
    return f"{' and '.join(counted(number, noun) for number, noun in found if number)}."


class Printer:
    """Prints findings as they arrive: a heading for each area, and a mark, a name and a text for each finding.

    Colours are used only on a terminal. `encoding` is that of the output; plain marks are used if it is not UTF-8.
    """

    def __init__(self, say: Say, *, is_terminal: bool, encoding: str | None) -> None:
        self._say = say
        self._is_coloured = is_terminal
        self._marks = MARKS if (encoding or "").lower().replace("-", "") == "utf8" else PLAIN_MARKS
        self._width = min(shutil.get_terminal_size((MAX_WIDTH, 24)).columns, MAX_WIDTH)
        self._area = ""

    def show(self, finding: Finding) -> None:
        """Print a finding."""
        if finding.area != self._area:
            self._say(f"{chr(10) if self._area else ''}{self._styled(finding.area, '1')}")
            self._area = finding.area
        mark = self._styled(self._marks[finding.status], COLOURS[finding.status])
        indent = " " * (NAME_WIDTH + 5)
        text = self._wrapped(finding.text, indent)
        self._say(f"  {mark} {finding.name:<{NAME_WIDTH}} {text}")
        if finding.fix:
            self._say(f"{indent}{self._wrapped(f'→ {finding.fix}' if self._marks is MARKS else finding.fix, indent)}")

    def ignore(self, finding: Finding) -> None:
        """Print nothing."""

    def _wrapped(self, text: str, indent: str) -> str:
        width = max(self._width - len(indent), 40)
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        return f"\n{indent}".join(lines)

    def _styled(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._is_coloured else text
