"""Runs a turn with several tools on the user's Cursor account, through a gateway, and summarises it.

The summary does not name the account. The tools work in a temporary folder. The model cannot run commands.
"""

import asyncio
import re
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tieline.app.build.round_trip import converse
from tieline.app.config import AcpSettings, Config, ToolSettings, WebSettings
from tieline.app.doctor.accounts import login_finding
from tieline.app.doctor.round_trip import NO_HOST, backend_for
from tieline.app.doctor.traffic import recorded_legs, short
from tieline.app.gateway_models import list_models
from tieline.app.local_gateway import LocalGateway, local_gateway
from tieline.core.watch.record import LegSummary
from tieline.core.watch.secrets import Secrets, hide_likely, secret_values
from tieline.model.content import ToolCall, ToolResult, Value
from tieline.model.errors import GatewayError
from tieline.tools.files import LIST_DIRECTORY, READ_FILE, WRITE_FILE
from tieline.tools.invisible_text import visible
from tieline.tools.toolbox import WorkspaceToolbox
from tieline.tools.workspace import Workspace

LIMIT = 300.0
"""Time limit for the whole turn, in seconds."""
MAX_TOKENS = 4096
SOURCE, COPY = "a.txt", "b.txt"
PROMPT = f"List the files, then read {SOURCE}, then write it to {COPY}, then read {COPY}."
TOOLS = (LIST_DIRECTORY, READ_FILE, WRITE_FILE)
PREFERRED = "cursor/auto"

_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")


class LiveReport(Value, omit_defaults=False):
    """The summary of a turn. Durations are in seconds. `problem` is empty if the turn was successful."""

    model: str = ""
    problem: str = ""
    fix: str = ""
    requests: int = 0
    runs: int = 0
    """Number of runs that were started. Exactly one is expected."""
    resumes: int = 0
    """Number of requests with tool results that continued a parked run."""
    calls: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    durations: tuple[float, ...] = ()
    """The duration of each request."""
    duration: float = 0.0


async def live_turn(config: Config, env: Mapping[str, str], source: Path | None) -> LiveReport:
    """Run the turn, which counts against the user's plan, and summarise it. `source` is the configuration file."""
    login = await login_finding(config.cursor, env)
    if login.status != "ok":
        return LiveReport(problem=login.text, fix=login.fix)
    reduced = replace(
        config,
        cursor=replace(config.cursor, enabled=True),
        default_model=None,
        aliases={},
        upstreams={},
        acp=AcpSettings(enabled=False),
        tools=ToolSettings(),
        web=WebSettings(),
    )
    try:
        async with asyncio.timeout(LIMIT), local_gateway(reduced, env, source=source, always_start=True) as gateway:
            return await _turn(gateway, Secrets(secret_values(env)))
    except TimeoutError:
        return LiveReport(problem=f"the turn took longer than {LIMIT:g} s", fix="Try again, or try another model.")
    except GatewayError as error:
        return LiveReport(problem=_redacted(error.message, Secrets(secret_values(env))), fix="See docs/cursor.md.")


async def _turn(gateway: LocalGateway, known: Secrets) -> LiveReport:
    names = [name for name in await list_models(gateway) if name.startswith("cursor/")]
    if not names:
        return LiveReport(problem="no model of Cursor is available", fix="Check the account with `tieline whoami`.")
    model = PREFERRED if PREFERRED in names else names[0]
    word = f"heron {secrets.randbelow(9000) + 1000}\n"
    with tempfile.TemporaryDirectory(prefix="tieline-doctor-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / SOURCE).write_text(word, "utf-8")
        began = time.monotonic()
        try:
            specs = [tool.spec for tool in TOOLS]
            async with backend_for(gateway) as backend:
                conversation = await converse(
                    backend, NO_HOST, model, PROMPT, specs, _executor(folder), max_tokens=MAX_TOKENS
                )
            problem = "" if _copied(folder) == word.strip() else f"{COPY} was not written: {short(conversation.text)}"
        except GatewayError as error:
            problem = error.message
        took = time.monotonic() - began
    return _report(model, await recorded_legs(gateway), _redacted(problem, known), took)


def _executor(folder: Path) -> "_Executor":
    return _Executor(WorkspaceToolbox(Workspace(folder), environment={}))


class _Executor:
    """Runs the offered tools in one folder, and refuses all others."""

    def __init__(self, toolbox: WorkspaceToolbox) -> None:
        self._toolbox = toolbox

    async def __call__(self, call: ToolCall) -> ToolResult:
        if call.name not in {tool.name for tool in TOOLS}:
            return ToolResult(call_id=call.id, is_error=True)
        return await self._toolbox.execute(call)


def _copied(folder: Path) -> str:
    try:
        return (folder / COPY).read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _report(model: str, legs: Sequence[LegSummary], problem: str, took: float) -> LiveReport:
    legs = [leg for leg in legs if leg.backend == "cursor"]
    usages = [leg.usage for leg in legs if leg.usage is not None]
    runs = sum(not leg.resumed for leg in legs)
    if not problem and runs > 1:
        problem = f"{runs} runs were started for one turn: a parked run was lost"
    return LiveReport(
        model=model,
        problem=problem,
        fix="See docs/cursor.md, and the log of `tieline serve --log info`." if problem else "",
        requests=len(legs),
        runs=runs,
        resumes=sum(leg.resumed for leg in legs),
        calls=tuple(name for leg in legs for name in leg.calls),
        input_tokens=sum(usage.input for usage in usages),
        output_tokens=sum(usage.output for usage in usages),
        cached_tokens=sum(usage.cache_read for usage in usages),
        durations=tuple(round(leg.duration or 0.0, 2) for leg in legs),
        duration=round(took, 2),
    )


def _redacted(text: str, known: Secrets) -> str:
    return visible(short(_ADDRESS.sub("***", hide_likely(known.hide(text)))))
