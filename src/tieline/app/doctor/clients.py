"""Checks client programs: finds those that are installed and, for `tieline doctor <client>`, runs one.

That client gets a temporary home and working directory, and none of the user's keys. Its gateway has only the demo
model.
"""

import os
import re
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tieline.app.config import AcpSettings, Config, CursorSettings
from tieline.app.doctor.findings import Check, Finding, known, ok, problem, skipped
from tieline.app.doctor.programs import VERSION_LIMIT, ProgramRun, program_version, run_program
from tieline.app.doctor.traffic import recorded_legs, transcript
from tieline.app.launch import client_environment, find_program, write_files
from tieline.app.local_gateway import LocalGateway, local_gateway
from tieline.clients.catalogue import CLIENTS
from tieline.clients.client import CONTEXT, OUTPUT, Client, Connection
from tieline.core.watch.record import LegSummary
from tieline.core.watch.secrets import Secrets, hide_likely, is_secret_name
from tieline.model.content import Value
from tieline.model.ports import ModelFacts
from tieline.tools.invisible_text import visible

AREA = "Clients"
MODEL = "demo/scripted"
LIMIT = 180.0
"""Time limit for a client to end, in seconds. With an empty home, some wait for servers that they cannot reach."""
MAX_LINES = 120
MAX_LINE = 600
"""Maximum number of lines of the client's output that are shown, and of characters in each line."""
MAX_SHOWN = 200
SOURCE, COPY = "a.txt", "b.txt"
TOOLS_PROMPT = f"read {SOURCE} then write it to {COPY} then read {COPY}"
EXPECTED_CALLS = 3

_OWN_SETTINGS = re.compile(
    r"(ANTHROPIC|OPENAI|CLAUDE|CODEX|GEMINI|AIDER|GOOSE|CLINE|COPILOT|XDG|TIELINE|LLM)_", re.ASCII
)
"""Matches the names of variables that configure clients, or that point to the user's own folders."""
_SHIMS = {
    "PYENV_ROOT": ".pyenv",
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
    "RUSTUP_HOME": ".rustup",
}
"""Folders below the home in which version managers keep programs, by the variable that names the folder.

The variables are set for the client, because version managers would otherwise look for programs in its empty home.
"""


class ClientReport(Value, omit_defaults=False):
    """The result of a run, with both transcripts. `problem` is empty if the client passed."""

    client: str
    title: str
    version: str = ""
    problem: str = ""
    fix: str = ""
    duration: float = 0.0
    requests: int = 0
    calls: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    """What the client printed."""
    traffic: tuple[str, ...] = ()
    """What the gateway saw."""


def client_checks(env: Mapping[str, str]) -> list[Check]:
    """Return a check for each installed client, and one that names the others."""
    found = {client: find_program(client, env) for client in CLIENTS.values()}
    checks = [_version_check(client, program, env) for client, program in found.items() if program is not None]
    missing = [client.id for client, program in found.items() if program is None]
    if missing:
        fix = "`tieline doctor <client>` shows how to install one."
        checks.append(known(AREA, "others", skipped(f"not installed: {', '.join(missing)}", fix)))
    return checks


def _version_check(client: Client, program: str, env: Mapping[str, str]) -> Check:
    async def run() -> Finding:
        with tempfile.TemporaryDirectory(prefix="tieline-doctor-", ignore_cleanup_errors=True) as folder:
            version = await program_version(program, isolated(env, Path(folder), Path(folder)), folder)
        if version is None:
            text = f"{program} does not print its version"
            return problem(text, f"Try it in a terminal, or install it again: `{client.install}`.")
        return ok(f"{client.title} {version} ({program})")

    return Check(AREA, client.id, run, VERSION_LIMIT + 5)


def isolated(env: Mapping[str, str], home: Path, folder: Path) -> dict[str, str]:
    """Return the environment for a client in `folder`: with its own `home`, without the user's keys and settings."""
    kept = {name: value for name, value in env.items() if not is_secret_name(name) and not _OWN_SETTINGS.match(name)}
    own = Path(env.get("HOME") or "/")
    shims = {name: str(own / path) for name, path in _SHIMS.items() if name not in env and (own / path).is_dir()}
    # Some clients take the working directory from PWD.
    return {**kept, **shims, "HOME": str(home), "PWD": str(folder), "TERM": "dumb", "NO_COLOR": "1", "CI": "1"}


async def run_client_check(client: Client, env: Mapping[str, str], *, limit: float = LIMIT) -> ClientReport:
    """Run a client on the demo model: it reads a file, writes a copy, and reads the copy. Report what happened."""
    report = ClientReport(client=client.id, title=client.title)
    program = find_program(client, env)
    if program is None:
        return replace(report, problem="it is not installed", fix=f"Install it: `{client.install}`.")
    with tempfile.TemporaryDirectory(prefix="tieline-doctor-", ignore_cleanup_errors=True) as name:
        return await _Trial(client, program, Path(name), env, limit).run(report)


class _Trial:
    """One run of a client, in folders below `root`."""

    def __init__(self, client: Client, program: str, root: Path, env: Mapping[str, str], limit: float) -> None:
        self._client = client
        self._program = program
        self._root = root
        self._limit = limit
        self._work = root / "work"
        self._settings = root / "settings"
        for folder in (self._work, self._settings, root / "home", root / "gateway"):
            folder.mkdir(mode=0o700)
        self._env = isolated(env, root / "home", self._work)
        self._word = f"heron {secrets.randbelow(9000) + 1000}"

    async def run(self, report: ClientReport) -> ClientReport:
        (self._work / SOURCE).write_text(f"{self._word}\n", "utf-8")
        version = await program_version(self._program, self._env, str(self._work)) or ""
        config = Config(default_model=MODEL, cursor=CursorSettings(enabled=False), acp=AcpSettings(enabled=False))
        own = {"HOME": str(self._root / "gateway"), "PATH": os.defpath}
        async with local_gateway(config, own, always_start=True) as gateway:
            began = time.monotonic()
            ran = await self._run(gateway)
            took = time.monotonic() - began
            legs = await recorded_legs(gateway)
            traffic = await transcript(gateway, legs)
        known_secrets = Secrets([gateway.key or ""])
        wrong, fix = self._judge(ran, legs)
        return replace(
            report,
            version=version,
            problem=_line(wrong, known_secrets),
            fix=fix,
            duration=round(took, 2),
            requests=len(legs),
            calls=tuple(name for leg in legs for name in leg.calls),
            output=_shown([*ran.output.splitlines(), *ran.errors.splitlines()], known_secrets),
            traffic=tuple(_line(line, known_secrets) for line in traffic),
        )

    async def _run(self, gateway: LocalGateway) -> ProgramRun:
        facts = ModelFacts(context=CONTEXT, max_output=OUTPUT, tools=True)
        connection = Connection(url=gateway.url, model=MODEL, key=gateway.key or "", facts=facts)
        recipe = self._client.launch(connection, str(self._settings))
        write_files(recipe, self._settings)
        headless = self._client.headless(self._prompt)
        env = {**client_environment(recipe, self._env), **headless.env}
        argv = (self._program, *recipe.arguments, *headless.arguments)
        return await run_program(argv, env, str(self._work), self._limit)

    @property
    def _uses_tools(self) -> bool:
        return self._client.headless("").uses_tools

    @property
    def _prompt(self) -> str:
        return TOOLS_PROMPT if self._uses_tools else f"write {self._word} to {COPY}"

    def _judge(self, ran: ProgramRun, legs: Sequence[LegSummary]) -> tuple[str, str]:
        """Return what went wrong and what to do, or two empty strings."""
        if not legs:
            fix = "Look for another configuration of the client that takes precedence, and at its output."
            return f"it sent no request to the gateway{f'; {ran.problem}' if ran.problem else ''}", fix
        failed = [leg for leg in legs if leg.status == "failed"]
        if failed:
            return f"a request failed: {failed[0].message}", "See the traffic of the gateway."
        if ran.problem:
            return ran.problem, "See the output of the client."
        calls = sum(len(leg.calls) for leg in legs)
        if self._uses_tools and calls < EXPECTED_CALLS:
            return f"only {calls} of {EXPECTED_CALLS} tool calls were made", "See both transcripts."
        written = self._written()
        if self._word not in written:  # some clients put a header above the content of a file
            return f"{COPY} contains {written[:MAX_SHOWN]!r} instead of {self._word!r}", "See both transcripts."
        return "", ""

    def _written(self) -> str:
        try:
            return (self._work / COPY).read_text("utf-8", "replace")
        except OSError:
            return ""


def _shown(lines: list[str], known_secrets: Secrets) -> tuple[str, ...]:
    """Return the beginning and the end of the output, without secrets."""
    half = MAX_LINES // 2
    cut = len(lines) - MAX_LINES
    some = [*lines[:half], f"… {cut} more lines …", *lines[-half:]] if cut > 0 else lines
    return tuple(_line(line, known_secrets) for line in some)


def _line(text: str, known_secrets: Secrets) -> str:
    hidden = hide_likely(known_secrets.hide(text))
    return visible(hidden if len(hidden) <= MAX_LINE else f"{hidden[:MAX_LINE]}…")
