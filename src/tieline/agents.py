"""Coding agents on this machine: which there are, what starts them, what installs the others."""

import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from tieline import __version__
from tieline.agent_hands import AgentFiles, AgentTerminals
from tieline.assembly import State, mint_call, shell_of, tool_keeper
from tieline.backends.acp.backend import AcpBackend
from tieline.backends.acp.bridge import Shim, ToolBridge
from tieline.backends.acp.catalogue import CATALOGUE, AgentSpec, Which, find
from tieline.backends.acp.terms import Terms
from tieline.config import AcpSettings, AgentSettings, Config, ConfigError
from tieline.records import Audit
from tieline.tasks import Tasks
from tieline.tools.keeper import Keeper

MOST_SHOWN = 6


def acp_backend(
    config: Config,
    env: Mapping[str, str],
    mint_leg: Callable[[], str],
    *,
    keeper: Keeper | None = None,
    tasks: Tasks | None = None,
) -> tuple[AcpBackend, State] | None:
    """The backend of all agents, unless it is switched off; `keeper` judges what they have done through us."""
    settings = config.acp
    if not settings.enabled:
        return None
    agents, which = catalogue(settings), _which(env)
    terminals = None
    if keeper is not None and settings.terminals:
        environment, interpreter = shell_of(config.tools, env)
        terminals = AgentTerminals(keeper, tasks or Tasks(), environment=environment, interpreter=interpreter)
    backend = AcpBackend(
        agents,
        Terms(
            cwd=str(_folder(settings)),
            env=_environment(settings, env, config.server.key_env),
            version=__version__,
            start_within=settings.start_timeout,
            stall_after=settings.stall_timeout,
            idle_after=settings.idle_timeout,
            processes=settings.processes,
            offers_tools=settings.client_tools,
            park_for=config.parking.deadline,
            files=AgentFiles(keeper) if keeper is not None and settings.files else None,
            terminals=terminals,
        ),
        which=which,
        mint_call=mint_call,
        mint_leg=mint_leg,
        bridge=_bridge() if settings.client_tools else None,
    )
    return backend, _state(agents, which)


def _bridge() -> ToolBridge:
    return ToolBridge(mint_token=lambda: secrets.token_urlsafe(24), shim=Shim(sys.executable))


def agents_keeper(config: Config, env: Mapping[str, str], audit: Audit, keeper: Keeper | None) -> Keeper | None:
    """Who judges what agents have done through us, where that is on: the keeper of our tools, if they act there too."""
    settings = config.acp
    if not settings.enabled or not (settings.files or settings.terminals):
        return None
    folder = str(_folder(settings))
    if keeper is not None and keeper.workspace == folder:
        return keeper
    own = tool_keeper(replace(config.tools, enabled=True, workspace=folder), env, audit)
    return own[0] if own is not None else None


def catalogue(settings: AcpSettings) -> dict[str, AgentSpec]:
    """The agents that are known, with those of the configuration."""
    return {**CATALOGUE, **{name: _spec(name, own) for name, own in settings.agents.items()}}


def listing(settings: AcpSettings, env: Mapping[str, str]) -> str:
    """Every agent, for a person: the ready ones with what starts them, the others with what installs them."""
    which = _which(env)
    found = {name: find(spec, which) for name, spec in catalogue(settings).items()}
    width = max(len(name) for name in found)
    ready = [f"  acp/{name:<{width}}  {one.line}" for name, one in found.items() if one.command is not None]
    missing = [f"  {name:<{width + 4}}  {one.line}" for name, one in found.items() if one.command is None]
    lines = ["Ready to use as models:", *ready, ""] if ready else ["No agent was found on the PATH.", ""]
    return "\n".join([*lines, "Not installed; `tieline agents install <id>` shows the command and asks:", *missing])


def install(
    settings: AcpSettings, name: str, env: Mapping[str, str], *, ask: Callable[[str], str], say: Callable[[str], None]
) -> int:
    """Show the command that installs an agent, and run it if the person says yes."""
    spec = catalogue(settings).get(name)
    if spec is None:
        raise ConfigError(f"there is no agent `{name}`; `tieline agents` lists those that are known")
    if find(spec, _which(env)).command is not None:
        say(f"{spec.title} is installed already.")
        return 0
    if spec.install is None:
        say(f"{spec.title} cannot be installed by one command: {spec.needs}")
        return 1
    say(f"This would run:\n\n  {' '.join(spec.install)}\n")
    if spec.needs:
        say(f"Note: {spec.needs}\n")
    if ask("Run it? [y/N] ").strip().lower() not in ("y", "yes"):
        say("Nothing was done.")
        return 1
    try:
        return subprocess.run(spec.install, env=dict(env), check=False).returncode  # noqa: S603 - shown, and agreed to
    except OSError as error:
        say(f"{spec.install[0]} cannot be run: {error.strerror}. Install it first.")
        return 1


def _spec(name: str, own: AgentSettings) -> AgentSpec:
    """An agent of the configuration; what it leaves open is as it is known."""
    known = CATALOGUE.get(name)
    if known is None and not own.command:
        raise ConfigError(f"`acp.agents.{name}` needs a `command`: it is none of the known agents")
    if known is None:
        return AgentSpec(
            id=name,
            title=own.title or name,
            command=own.command,
            env=own.env,
            login=own.login,
            cwd=own.cwd,
        )
    return replace(
        known,
        title=own.title or known.title,
        command=own.command or known.command,
        alternatives=() if own.command else known.alternatives,
        env={**known.env, **own.env},
        login=own.login or known.login,
        cwd=own.cwd or known.cwd,
    )


def _which(env: Mapping[str, str]) -> Which:
    return lambda program: shutil.which(program, path=env.get("PATH", ""))


def _folder(settings: AcpSettings) -> Path:
    folder = Path(settings.workspace or ".").expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"`acp.workspace` is {folder}, which is no folder")
    return folder


def _environment(settings: AcpSettings, env: Mapping[str, str], hidden: str) -> dict[str, str]:
    """What agents get to see: what was named, or all but our own key. They bring keys and settings of their own."""
    if settings.environment:
        return {name: env[name] for name in settings.environment if name in env}
    return {name: value for name, value in env.items() if name != hidden}


def _state(agents: Mapping[str, AgentSpec], which: Which) -> State:
    ready = [name for name, spec in agents.items() if find(spec, which).command is not None]
    if not ready:
        return State("acp", False, "`tieline agents` tells how to get coding agents as models", lack="no agent")
    more = f" and {len(ready) - MOST_SHOWN} more" if len(ready) > MOST_SHOWN else ""
    return State("acp", True, f"{', '.join(ready[:MOST_SHOWN])}{more} (tieline agents)")
