"""Checks coding agents: starts each installed one, which must answer ACP's first request."""

import tempfile
from collections.abc import Mapping, Sequence

from tieline import __version__
from tieline.app.build.acp_backend import agent_environment
from tieline.app.build.agents import catalogue, which_in
from tieline.app.config import Config, ConfigError
from tieline.app.doctor.findings import Check, Finding, known, ok, problem, skipped
from tieline.backends.acp.agent import Agent
from tieline.backends.acp.catalogue import AgentLookup, AgentSpec, find
from tieline.backends.acp.settings import AcpBackendSettings
from tieline.model.errors import GatewayError
from tieline.net.process.program import StopTimeouts
from tieline.tasks import Tasks, step_aside

AREA = "Agents"
START_WITHIN = 30.0
"""Time limit for an agent to answer, in seconds. Some need more than ten seconds when they start for the first time."""
ENDS_WITHIN = StopTimeouts(eof=1, term=1, kill=2)


def agent_checks(config: Config, env: Mapping[str, str]) -> Sequence[Check]:
    """Return a check for each installed agent, and one that names the others."""
    if not config.acp.enabled:
        return [known(AREA, "agents", skipped("disabled in the configuration"))]
    try:
        specs = catalogue(config.acp)
    except ConfigError as error:
        return [known(AREA, "agents", problem(str(error)))]
    which = which_in(env)
    found = {name: (spec, find(spec, which)) for name, spec in specs.items()}
    checks = [
        _check(name, spec, lookup, config, env) for name, (spec, lookup) in found.items() if lookup.command is not None
    ]
    missing = [name for name, (_, lookup) in found.items() if lookup.command is None]
    if missing:
        names = skipped(f"not installed: {', '.join(missing)}", "`tieline agents` shows how to install them.")
        checks.append(known(AREA, "others", names))
    return checks


def _check(name: str, spec: AgentSpec, lookup: AgentLookup, config: Config, env: Mapping[str, str]) -> Check:
    limit = START_WITHIN + ENDS_WITHIN.eof + ENDS_WITHIN.term + ENDS_WITHIN.kill + 1
    return Check(AREA, f"acp/{name}", lambda: _start(spec, lookup, config, env), limit)


async def _start(spec: AgentSpec, lookup: AgentLookup, config: Config, env: Mapping[str, str]) -> Finding:
    """Start an agent in an empty folder, and end it after its first answer."""
    tasks = Tasks()
    with tempfile.TemporaryDirectory(prefix="tieline-doctor-", ignore_cleanup_errors=True) as folder:
        settings = AcpBackendSettings(
            cwd=folder,
            env=agent_environment(config, env),
            version=__version__,
            start_within=min(START_WITHIN, config.acp.start_timeout),
            patience=ENDS_WITHIN,
        )
        try:
            agent = await Agent.start(spec, lookup.command or (), settings, tasks, folder=folder)
            about = agent.about
            await agent.end("was ended after the check")
        except GatewayError as error:
            return problem(error.message, f"Try it in a terminal: `{lookup.line}`.")
        finally:
            await step_aside()  # a task that ends the process must have begun: cancelling it then kills the process
            await tasks.aclose()
    version = about.agent_version or "of unknown version"
    return ok(f"{about.title or about.name or spec.title} {version} ({lookup.line})")
