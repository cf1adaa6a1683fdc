"""Creates the backend for coding agents: their environment, rules, file access, terminals and client tools."""

import platform
import secrets
import sys
import time
from collections.abc import Mapping

from tieline import __version__
from tieline.app.agent_rules import AgentRules
from tieline.app.audit import AuditLog
from tieline.app.build.storage import Storage
from tieline.app.build.tools import command_environment, protecting_rules
from tieline.app.config import Config, McpSettings, key_variables
from tieline.app.ids import Ids
from tieline.app.local_host import AgentFiles, AgentTerminals
from tieline.backends.acp.backend import AcpBackend
from tieline.backends.acp.catalogue import AgentSpec, Which
from tieline.backends.acp.session_store import SHELF, SessionStorage
from tieline.backends.acp.settings import AcpBackendSettings
from tieline.backends.acp.tool_bridge import StdioShim, ToolBridge
from tieline.backends.acp.workplace import ToolServer
from tieline.tasks import Tasks
from tieline.tools.errors import ToolFailed
from tieline.tools.guarded_tools import GuardedTools
from tieline.tools.policy import Policy
from tieline.tools.workspace import CAN_CONFINE, Workspace


def make_acp_backend(
    config: Config,
    env: Mapping[str, str],
    ids: Ids,
    *,
    agents: Mapping[str, AgentSpec],
    which: Which,
    folder: str,
    folders: Mapping[str, str],
    audit: AuditLog,
    storage: Storage,
    tools: GuardedTools | None = None,
    tasks: Tasks | None = None,
) -> AcpBackend:
    """Create the backend for `agents`. They work in `folder`, or in one of the named `folders`.

    `tools` judges their actions. If the settings allow it, `tools` also accesses files and runs commands for agents.
    """
    settings = config.acp
    return AcpBackend(
        agents,
        AcpBackendSettings(
            cwd=folder,
            env=agent_environment(config, env),
            version=__version__,
            start_within=settings.start_timeout,
            stall_after=settings.stall_timeout,
            idle_after=settings.idle_timeout,
            processes=settings.processes,
            folders=folders,
            servers={name: _server(server) for name, server in settings.mcp.items()},
            offers_tools=settings.client_tools,
            park_for=config.parking.deadline,
            files=AgentFiles(tools) if tools is not None and settings.files else None,
            terminals=_terminals(config, env, tools, tasks) if tools is not None and settings.terminals else None,
            rules=_rules(config, env, folder, audit, tools),
        ),
        which=which,
        mint_call=ids.call,
        mint_leg=ids.leg,
        bridge=_bridge() if settings.client_tools else None,
        storage=_keeping(storage) if settings.keep_sessions else None,
    )


def _server(server: McpSettings) -> ToolServer:
    return ToolServer(command=server.command, env=server.env, url=server.url, headers=server.headers)


def _keeping(storage: Storage) -> SessionStorage | None:
    """Return the store for agent sessions, or None if it would not survive a restart.

    The store has a file of its own, which contains digests of messages but not their text.
    """
    if not storage.is_persistent:
        return None
    shelf = f"{SHELF}/{platform.node()}" if storage.is_shared else SHELF
    return SessionStorage(storage.separate_store("agents"), time.time, shelf)


def _rules(
    config: Config, env: Mapping[str, str], folder: str, audit: AuditLog, tools: GuardedTools | None
) -> AgentRules:
    """Return an object that applies the rules for the gateway's own tools to the actions of agents.

    Without `tools`, saved grants do not apply, because the user would have no way to revoke them.
    """
    if tools is not None:
        return AgentRules(tools.policy, audit.write_ruling, tools.workspace)
    rules = (*protecting_rules(folder, env), *config.tools.rules)
    if not CAN_CONFINE:
        return AgentRules(Policy(_unlocated, rules=rules, yolo=config.tools.yolo), audit.write_ruling, folder)
    workspace = Workspace(folder)
    policy = Policy(workspace.locate, rules=rules, yolo=config.tools.yolo)
    return AgentRules(policy, audit.write_ruling, workspace.root)


def _unlocated(path: str) -> str:
    """Treat every path as unknown, so that no rule can allow access to it.

    This is for systems on which links in paths cannot be resolved safely.
    """
    raise ToolFailed(f"this system cannot check whether `{path}` is inside the workspace")


def _terminals(config: Config, env: Mapping[str, str], tools: GuardedTools, tasks: Tasks | None) -> AgentTerminals:
    environment, interpreter = command_environment(config.tools, env)
    return AgentTerminals(tools, tasks or Tasks(), environment=environment, interpreter=interpreter)


def _bridge() -> ToolBridge:
    return ToolBridge(mint_token=lambda: secrets.token_urlsafe(24), shim=StdioShim(sys.executable))


def agent_environment(config: Config, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables in `env` that agents receive: the configured ones or, by default, all but our own keys."""
    if config.acp.environment:
        return {name: env[name] for name in config.acp.environment if name in env}
    hidden = key_variables(config)
    return {name: value for name, value in env.items() if name not in hidden}
