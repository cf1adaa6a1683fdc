"""Checks whether coding agents are available, and builds their backend. The backend's code is imported on first use."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tieline.app.audit import AuditLog
from tieline.app.build.agents import catalogue, which_in
from tieline.app.build.status import BackendStatus
from tieline.app.build.storage import Storage
from tieline.app.build.workspaces import WorkspaceRegistry
from tieline.app.config import AcpSettings, Config, ConfigError
from tieline.app.ids import Ids
from tieline.app.lazy import LazyImport
from tieline.app.lazy_backend import LazyBackend, LazyObject
from tieline.backends.acp.catalogue import NAME, find, installed
from tieline.model.ports import Backend
from tieline.tasks import Tasks

if TYPE_CHECKING:
    from tieline.app.build.acp_backend import make_acp_backend
    from tieline.app.build.tools import build_tools
    from tieline.tools.guarded_tools import GuardedTools
else:
    make_acp_backend = LazyImport("tieline.app.build.acp_backend", "make_acp_backend")
    build_tools = LazyImport("tieline.app.build.tools", "build_tools")

MOST_SHOWN = 6


def acp_backend(
    config: Config,
    env: Mapping[str, str],
    ids: Ids,
    *,
    audit: AuditLog,
    storage: Storage,
    tools: "GuardedTools | None" = None,
    tasks: Tasks | None = None,
    workspaces: WorkspaceRegistry | None = None,
) -> tuple[LazyBackend, BackendStatus] | None:
    """Build the backend for all coding agents, and describe its status. Return None if it is disabled.

    `tools` judges the actions of agents. If the settings allow it, `tools` also accesses files and runs commands for
    agents.
    """
    settings = config.acp
    if not settings.enabled:
        return None
    agents, which, folder = catalogue(settings), which_in(env), str(_workspace(settings))
    _check_servers(settings)
    backend: LazyObject[Backend] = LazyObject(
        make_acp_backend,
        config,
        env,
        ids,
        agents=agents,
        which=which,
        folder=folder,
        folders=_folders(settings),
        audit=audit,
        storage=storage,
        tools=tools,
        tasks=tasks,
        workspaces=workspaces,
    )
    models = partial(installed, agents.values(), which, offers_tools=settings.client_tools)
    lazy_backend = LazyBackend("acp", backend, is_agent=True, reads_options=True, models=models)
    return lazy_backend, acp_status(config, env)


def tools_for_agents(
    config: Config, env: Mapping[str, str], audit: AuditLog, tools: "GuardedTools | None", storage: Storage
) -> "GuardedTools | None":
    """Return the tools for coding agents, or None if agents need no tools.

    If agents have the same workspace as the gateway's own `tools`, return those. Otherwise, build new ones.
    """
    settings = config.acp
    if not settings.enabled:
        return None
    folder = str(_workspace(settings))
    if tools is not None and tools.workspace == folder:
        return tools
    if not (settings.files or settings.terminals):
        return None
    own_tools, _ = build_tools(replace(config.tools, workspace=folder), env, audit, storage)
    return own_tools


def _workspace(settings: AcpSettings) -> Path:
    folder = Path(settings.workspace or ".").expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"`acp.workspace` is {folder}, which is not a folder")
    return folder


def _folders(settings: AcpSettings) -> dict[str, str]:
    """Return the absolute paths, by name, of the folders that a conversation can select instead of the default one."""
    found: dict[str, str] = {}
    for name, path in settings.folders.items():
        folder = Path(path).expanduser().resolve()
        if not folder.is_dir():
            raise ConfigError(f"`acp.folders.{name}` is {folder}, which is not a folder")
        found[name] = str(folder)
    return found


def _check_servers(settings: AcpSettings) -> None:
    for name, server in settings.mcp.items():
        if name == NAME:
            raise ConfigError(f"`acp.mcp.{name}`: this name is reserved for clients' tools; choose another")
        if bool(server.command) == bool(server.url):
            raise ConfigError(f"`acp.mcp.{name}` needs either a `command` or a `url`")


def acp_status(config: Config, env: Mapping[str, str]) -> BackendStatus:
    """Return the status of the backend for coding agents: which agents are installed at the moment."""
    agents, which = catalogue(config.acp), which_in(env)
    ready = [name for name, spec in agents.items() if find(spec, which).command is not None]
    if not ready:
        text = "run `tieline agents` to see which coding agents can be installed"
        return BackendStatus("acp", False, text, missing="no agent")
    more = f" and {len(ready) - MOST_SHOWN} more" if len(ready) > MOST_SHOWN else ""
    warned = "; EVERYTHING is allowed without asking (yolo)" if config.tools.yolo else ""
    return BackendStatus("acp", True, f"{', '.join(ready[:MOST_SHOWN])}{more} (tieline agents){warned}")
