"""Builds all backends: the demo model, configured upstreams, the Cursor account and coding agents."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tieline.app.audit import AuditLog
from tieline.app.build.acp import acp_backend
from tieline.app.build.added_upstreams import AddedUpstream, LoadedUpstreams, load_now
from tieline.app.build.cursor import cursor_backend
from tieline.app.build.status import BackendStatus
from tieline.app.build.storage import Storage
from tieline.app.build.upstreams import ADDED_KEY, MakeUpstream, added_status, upstream_key
from tieline.app.build.workspaces import WorkspaceRegistry
from tieline.app.cluster.remote_agents import RemoteAgents
from tieline.app.config import Config, UpstreamSettings
from tieline.app.config_file import upstream_mistakes
from tieline.app.ids import Ids
from tieline.app.lazy import LazyImport
from tieline.app.lazy_backend import LazyBackend, LazyObject
from tieline.core.watch.secrets import secret_values
from tieline.demo import MODELS
from tieline.model.ports import Backend
from tieline.net.client.http import Proxies
from tieline.tasks import Tasks

if TYPE_CHECKING:
    from tieline.backends.demo import DemoBackend
    from tieline.tools.guarded_tools import GuardedTools
else:
    DemoBackend = LazyImport("tieline.backends.demo", "DemoBackend")


log = logging.getLogger("tieline")


@dataclass(frozen=True, slots=True)
class Backends:
    """All backends by name, with their status.

    The page replaces the Cursor backend after a login, and adds and removes upstreams.
    """

    by_name: dict[str, Backend] = field(default_factory=dict)
    statuses: list[BackendStatus] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    """Keys and other secret values that are sent to upstreams and agents. Records must not contain them."""
    upstreams: dict[str, UpstreamSettings] = field(default_factory=dict)
    """The settings of all upstreams by name: the configured ones, and those that were added on the page."""
    added: dict[str, AddedUpstream] = field(default_factory=dict)
    """The upstreams that were added on the page, including those hidden by a configured upstream with the same name."""

    def put(self, name: str, backend: Backend, status: BackendStatus) -> Backend | None:
        """Add a backend and its status. Return the backend that it replaces, if any."""
        replaced = self.by_name.get(name)
        self.by_name[name] = backend
        self.statuses[:] = [*(other for other in self.statuses if other.name != name), status]
        return replaced

    def remove(self, name: str) -> None:
        """Remove an upstream. Requests that are using its backend are not affected."""
        self.by_name.pop(name, None)
        self.upstreams.pop(name, None)
        self.statuses[:] = [status for status in self.statuses if status.name != name]


def build_backends(
    config: Config,
    env: Mapping[str, str],
    *,
    make_upstream: MakeUpstream,
    proxies: Proxies,
    tasks: Tasks,
    audit: AuditLog,
    storage: Storage,
    agent_tools: "GuardedTools | None",
    ids: Ids,
    cursor_token: str | None = None,
    workspaces: WorkspaceRegistry | None = None,
) -> Backends:
    """Build every backend that the configuration enables. `agent_tools` judges the actions of coding agents.

    If `cursor_token` is given, the Cursor backend talks to the simulator.
    """
    backends = Backends()
    if config.demo:
        demo = LazyBackend("demo", LazyObject(DemoBackend), models=lambda: MODELS)
        backends.put("demo", demo, BackendStatus("demo", True, "needs no key and no network; model demo/scripted"))
    for name, settings in config.upstreams.items():
        key, status = upstream_key(name, settings, env)
        backends.put(name, make_upstream(name, settings, key), status)
        backends.upstreams[name] = settings
        backends.secrets.extend([key] if key else [])
        backends.secrets.extend(secret_values(settings.headers))
    _put_added(backends, load_now(env), make_upstream)
    park_for = config.parking.deadline
    if cursor := cursor_backend(config.cursor, env, proxies, ids, cursor_token, park_for=park_for):
        backends.put("cursor", *cursor)
    if config.acp.enabled and config.cluster.listen is not None and not config.cluster.agents:
        status = BackendStatus("acp", True, "on the replica that has the workspace")
        backends.put("acp", RemoteAgents(), status)
    elif acp := acp_backend(
        config,
        env,
        ids,
        audit=audit,
        storage=storage,
        tools=agent_tools,
        tasks=tasks,
        workspaces=workspaces,
    ):
        backends.put("acp", *acp)
    for agent in config.acp.agents.values():
        backends.secrets.extend(secret_values(agent.env))
    for server in config.acp.mcp.values():
        backends.secrets.extend([*secret_values(server.env), *secret_values(server.headers)])
    return backends


def _put_added(backends: Backends, loaded: LoadedUpstreams, make_upstream: MakeUpstream) -> None:
    """Add the upstreams that the user added on the page. A configured upstream with the same name takes precedence."""
    if loaded.problem:
        log.warning("%s", loaded.problem)
    for name, added in loaded.upstreams.items():
        settings, key = added.settings(), loaded.keys.get(name)
        if mistakes := upstream_mistakes(name, settings):
            log.warning("ignoring an upstream that was added on the page: %s", mistakes[0][1])
            continue
        backends.added[name] = added
        if name in backends.upstreams:
            continue
        status = added_status(name, settings, has_key=key is not None, lacks_key=added.has_key and key is None)
        backends.put(name, make_upstream(name, settings, key, key_source=ADDED_KEY), status)
        backends.upstreams[name] = settings
        backends.secrets.extend([key] if key else [])
