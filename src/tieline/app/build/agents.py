"""Coding agents on this machine: which there are, what starts them, what installs the others."""

import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tieline.app.audit import Audit
from tieline.app.build.upstreams import State
from tieline.app.config import AcpSettings, AgentSettings, Config, ConfigError
from tieline.app.late_backend import LateBackend, Later
from tieline.app.lazy import Lazily
from tieline.backends.acp.catalogue import CATALOGUE, NAME, AgentSpec, Which, find, installed
from tieline.model.ports import Backend
from tieline.tasks import Tasks

if TYPE_CHECKING:
    from tieline.app.build.acp import agent_runs
    from tieline.app.build.tools import tool_keeper
    from tieline.tools.guarded_tools import Keeper
else:
    agent_runs = Lazily("tieline.app.build.acp", "agent_runs")
    tool_keeper = Lazily("tieline.app.build.tools", "tool_keeper")

MOST_SHOWN = 6
FOUND = "Found on the PATH (whether they are logged in, only a request can tell):"


def acp_backend(
    config: Config,
    env: Mapping[str, str],
    mint_leg: Callable[[], str],
    *,
    audit: Audit,
    keeper: "Keeper | None" = None,
    tasks: Tasks | None = None,
) -> tuple[LateBackend, State] | None:
    """The backend of all agents, unless it is switched off; `keeper` judges what they do and have done through us."""
    settings = config.acp
    if not settings.enabled:
        return None
    agents, which, folder = catalogue(settings), _which(env), str(_folder(settings))
    _check_servers(settings)
    runs: Later[Backend] = Later(
        agent_runs,
        config,
        env,
        mint_leg,
        agents=agents,
        which=which,
        folder=folder,
        folders=_folders(settings),
        audit=audit,
        keeper=keeper,
        tasks=tasks,
    )
    backend = LateBackend(
        "acp", runs, is_agent=True, reads_options=True, models=lambda: installed(agents.values(), which)
    )
    return backend, _state(agents, which, yolo=config.tools.yolo)


def agents_keeper(config: Config, env: Mapping[str, str], audit: Audit, keeper: "Keeper | None") -> "Keeper | None":
    """Who judges agents: the keeper of our tools, if they act in the same folder; else one of their own, if needed."""
    settings = config.acp
    if not settings.enabled:
        return None
    folder = str(_folder(settings))
    if keeper is not None and keeper.workspace == folder:
        return keeper
    if not (settings.files or settings.terminals):
        return None
    own = tool_keeper(replace(config.tools, enabled=True, workspace=folder), env, audit)
    return own[0] if own is not None else None


def catalogue(settings: AcpSettings) -> dict[str, AgentSpec]:
    """The agents that are known, with those of the configuration."""
    return {**CATALOGUE, **{name: _spec(name, own) for name, own in settings.agents.items()}}


def listing(settings: AcpSettings, env: Mapping[str, str]) -> str:
    """Every agent, for the user: those found with what starts them, the others with what installs them."""
    which = _which(env)
    found = {name: find(spec, which) for name, spec in catalogue(settings).items()}
    width = max(len(name) for name in found)
    ready = [f"  acp/{name:<{width}}  {one.line}" for name, one in found.items() if one.command is not None]
    missing = [f"  {name:<{width + 4}}  {one.line}" for name, one in found.items() if one.command is None]
    lines = [FOUND, *ready, ""] if ready else ["No agent was found on the PATH.", ""]
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
    say(f"This would run:\n\n  {shlex.join(spec.install)}\n")
    if spec.needs:
        say(f"Note: {spec.needs}\n")
    if not _agreed(ask):
        say("Nothing was done.")
        return 1
    try:
        return subprocess.run(spec.install, env=dict(env), check=False).returncode  # noqa: S603 - shown, and agreed to
    except OSError as error:
        say(f"{spec.install[0]} cannot be run: {error.strerror}. Install it first.")
        return 1


def _agreed(ask: Callable[[str], str]) -> bool:
    try:
        return ask("Run it? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # nobody is there to answer
        return False


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


def _folders(settings: AcpSettings) -> dict[str, str]:
    """The folders that a conversation can select, absolute."""
    found: dict[str, str] = {}
    for name, path in settings.folders.items():
        folder = Path(path).expanduser().resolve()
        if not folder.is_dir():
            raise ConfigError(f"`acp.folders.{name}` is {folder}, which is no folder")
        found[name] = str(folder)
    return found


def _check_servers(settings: AcpSettings) -> None:
    for name, server in settings.mcp.items():
        if name == NAME:
            raise ConfigError(f"`acp.mcp.{name}`: this name is taken by the tools of clients")
        if bool(server.command) == bool(server.url):
            raise ConfigError(f"`acp.mcp.{name}` needs either a `command` or a `url`")


def _state(agents: Mapping[str, AgentSpec], which: Which, *, yolo: bool) -> State:
    ready = [name for name, spec in agents.items() if find(spec, which).command is not None]
    if not ready:
        return State("acp", False, "`tieline agents` tells how to get coding agents as models", lack="no agent")
    more = f" and {len(ready) - MOST_SHOWN} more" if len(ready) > MOST_SHOWN else ""
    warned = "; EVERYTHING is allowed without asking (yolo)" if yolo else ""
    return State("acp", True, f"{', '.join(ready[:MOST_SHOWN])}{more} (tieline agents){warned}")
