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
from tieline.app.build.workspaces import ServedWorkspace, WorkspaceRegistry
from tieline.app.config import Config, McpSettings, key_variables
from tieline.app.ids import Ids
from tieline.app.local_host import AgentFiles, AgentTerminals
from tieline.app.workspace_host import WorkspaceAgentFiles, WorkspaceRules, WorkspaceTerminals
from tieline.backends.acp.backend import AcpBackend
from tieline.backends.acp.catalogue import AgentSpec, Which
from tieline.backends.acp.rules import ActionRules
from tieline.backends.acp.session_store import SHELF, SessionStorage
from tieline.backends.acp.settings import AcpBackendSettings, AgentHost, no_workspaces
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
    workspaces: WorkspaceRegistry | None = None,
) -> AcpBackend:
    """Create the backend for `agents`. They work in `folder`, in one of the named `folders`, or in a workspace.

    `tools` judges their actions. If the settings allow it, `tools` also accesses files and runs commands for agents.
    """
    settings = config.acp
    tasks = tasks or Tasks()
    policy = _policy(config, env, folder, tools, workspaces.find("") if workspaces is not None else None)
    hosts = _WorkspaceHosts(config, env, workspaces, audit, tasks) if workspaces is not None else None
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
            rules=AgentRules(policy, audit.write_ruling, tools.workspace if tools is not None else folder),
            workspaces=hosts.find if hosts is not None else no_workspaces,
        ),
        which=which,
        mint_call=ids.call,
        mint_leg=ids.leg,
        bridge=_bridge() if settings.client_tools else None,
        storage=_keeping(storage) if settings.keep_sessions else None,
    )


class _WorkspaceHosts:
    """Creates the rules, file access and terminals of each workspace when an agent first works there."""

    def __init__(
        self, config: Config, env: Mapping[str, str], workspaces: WorkspaceRegistry, audit: AuditLog, tasks: Tasks
    ) -> None:
        self._config = config
        self._env = env
        self._workspaces = workspaces
        self._audit = audit
        self._tasks = tasks
        self._hosts: dict[str, tuple[ServedWorkspace, AgentHost]] = {}

    def find(self, name: str) -> AgentHost | None:
        workspace = self._workspaces.find(name)
        if workspace is None:
            self._hosts.pop(name, None)
            return None
        made_for, host = self._hosts.get(name, (None, None))
        if host is None or made_for is not workspace:
            # The folder may have been removed and registered again; the old tools then refuse every call.
            host = self._host(workspace)
            self._hosts[name] = workspace, host
        return host

    def _host(self, workspace: ServedWorkspace) -> AgentHost:
        settings, terminals = self._config.acp, None
        open_tools = workspace.tools
        if settings.terminals and workspace.has_tools:
            environment, interpreter = command_environment(self._config.tools, self._env)
            terminals = WorkspaceTerminals(open_tools, self._tasks, environment=environment, interpreter=interpreter)
        return AgentHost(
            workspace.path,
            files=WorkspaceAgentFiles(open_tools) if settings.files and workspace.has_tools else None,
            terminals=terminals,
            rules=self._rules(workspace),
        )

    def _rules(self, workspace: ServedWorkspace) -> ActionRules:
        note = self._audit.write_ruling
        if workspace.has_tools:
            return WorkspaceRules(workspace.tools, note)
        policy = _policy(self._config, self._env, workspace.path, None, workspace)
        return AgentRules(policy, note, workspace.path)


def _server(server: McpSettings) -> ToolServer:
    return ToolServer(command=server.command, env=server.env, url=server.url, headers=server.headers)


def _keeping(storage: Storage) -> SessionStorage | None:
    """Return the store for agent sessions, or None if it would not survive a restart.

    It contains digests of messages, but not their text. Without a shared database, it has a file of its own.
    """
    if not storage.is_persistent:
        return None
    shelf = f"{SHELF}/{platform.node()}" if storage.is_shared else SHELF
    return SessionStorage(storage.separate_store("agents"), time.time, shelf)


def _policy(
    config: Config, env: Mapping[str, str], folder: str, tools: GuardedTools | None, workspace: ServedWorkspace | None
) -> Policy:
    """Return the policy for the actions of agents in a folder: that of `tools`, if given.

    Without `tools`, saved grants do not apply, because the user would have no way to revoke them.
    """
    if tools is not None:
        policy = tools.policy
    else:
        rules = (*protecting_rules(folder, env), *config.tools.rules)
        policy = Policy(Workspace(folder).locate if CAN_CONFINE else _unlocated, rules=rules)
    if workspace is not None:
        workspace.govern(policy)
    elif config.tools.yolo:
        policy.autonomy = "all"
    return policy


def _unlocated(path: str) -> str:
    """Treat every path as unknown, so that no rule can allow access to it.

    This is for systems on which links in paths cannot be resolved safely.
    """
    raise ToolFailed(f"this system cannot check whether `{path}` is inside the workspace")


def _terminals(config: Config, env: Mapping[str, str], tools: GuardedTools, tasks: Tasks) -> AgentTerminals:
    environment, interpreter = command_environment(config.tools, env)
    return AgentTerminals(tools, tasks, environment=environment, interpreter=interpreter)


def _bridge() -> ToolBridge:
    return ToolBridge(mint_token=lambda: secrets.token_urlsafe(24), shim=StdioShim(sys.executable))


def agent_environment(config: Config, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that agents receive: those configured or, if none are, all but the gateway's keys."""
    if config.acp.environment:
        return {name: env[name] for name in config.acp.environment if name in env}
    hidden = key_variables(config)
    return {name: value for name, value in env.items() if name not in hidden}
