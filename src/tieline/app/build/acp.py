"""The backend of coding agents, put together: what they see of ours, what they may do through us, clients' tools."""

import secrets
import sys
import time
from collections.abc import Callable, Mapping

from tieline import __version__
from tieline.app.agent_rules import AgentRules
from tieline.app.audit import Audit
from tieline.app.build.tools import own_rules, shell_of
from tieline.app.build.upstreams import mint_call, state_folder
from tieline.app.config import AcpSettings, Config, McpSettings, key_variables
from tieline.app.local_host import AgentFiles, AgentTerminals
from tieline.app.store import DiskStore
from tieline.backends.acp.backend import AcpBackend
from tieline.backends.acp.catalogue import AgentSpec, Which
from tieline.backends.acp.session_store import SessionStorage
from tieline.backends.acp.settings import AcpBackendSettings
from tieline.backends.acp.tool_bridge import StdioShim, ToolBridge
from tieline.backends.acp.workplace import ToolServer
from tieline.tasks import Tasks
from tieline.tools.guarded_tools import Keeper
from tieline.tools.policy import Policy
from tieline.tools.workspace import Workspace


def agent_runs(
    config: Config,
    env: Mapping[str, str],
    mint_leg: Callable[[], str],
    *,
    agents: Mapping[str, AgentSpec],
    which: Which,
    folder: str,
    folders: Mapping[str, str],
    audit: Audit,
    keeper: Keeper | None = None,
    tasks: Tasks | None = None,
) -> AcpBackend:
    """The backend of these agents, which work in `folder` or one of `folders`, by name.

    `keeper` judges what they do and have done through us.
    """
    settings = config.acp
    return AcpBackend(
        agents,
        AcpBackendSettings(
            cwd=folder,
            env=_environment(settings, env, key_variables(config)),
            version=__version__,
            start_within=settings.start_timeout,
            stall_after=settings.stall_timeout,
            idle_after=settings.idle_timeout,
            processes=settings.processes,
            folders=folders,
            servers={name: _server(server) for name, server in settings.mcp.items()},
            offers_tools=settings.client_tools,
            park_for=config.parking.deadline,
            files=AgentFiles(keeper) if keeper is not None and settings.files else None,
            terminals=_terminals(config, env, keeper, tasks) if keeper is not None and settings.terminals else None,
            rules=_rules(config, env, folder, audit, keeper),
        ),
        which=which,
        mint_call=mint_call,
        mint_leg=mint_leg,
        bridge=_bridge() if settings.client_tools else None,
        storage=_keeping(env) if settings.keep_sessions else None,
    )


def _server(server: McpSettings) -> ToolServer:
    return ToolServer(command=server.command, env=server.env, url=server.url, headers=server.headers)


def _keeping(env: Mapping[str, str]) -> SessionStorage | None:
    """Where sessions are remembered: in a file of their own, and nothing but digests."""
    folder = state_folder(env)
    return SessionStorage(DiskStore(folder / "agents"), time.time) if folder is not None else None


def _rules(config: Config, env: Mapping[str, str], folder: str, audit: Audit, keeper: Keeper | None) -> AgentRules:
    """The rules of our own tools; what was allowed for good counts only where it can be listed and taken back."""
    if keeper is not None:
        return AgentRules(keeper.policy, audit.ruled, keeper.workspace)
    rules = (*own_rules(folder, env), *config.tools.rules)
    workspace = Workspace(folder)
    policy = Policy(workspace.locate, rules=rules, yolo=config.tools.yolo)
    return AgentRules(policy, audit.ruled, workspace.root)


def _terminals(config: Config, env: Mapping[str, str], keeper: Keeper, tasks: Tasks | None) -> AgentTerminals:
    environment, interpreter = shell_of(config.tools, env)
    return AgentTerminals(keeper, tasks or Tasks(), environment=environment, interpreter=interpreter)


def _bridge() -> ToolBridge:
    return ToolBridge(mint_token=lambda: secrets.token_urlsafe(24), shim=StdioShim(sys.executable))


def _environment(settings: AcpSettings, env: Mapping[str, str], hidden: frozenset[str]) -> dict[str, str]:
    """Return what agents get to see: what was named, or all but the keys of the gateway."""
    if settings.environment:
        return {name: env[name] for name in settings.environment if name in env}
    return {name: value for name, value in env.items() if name not in hidden}
