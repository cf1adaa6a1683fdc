"""The composition root: builds the whole program from a configuration. `serve` runs it.

Modules outside `app` and `cli` read neither the configuration nor the environment; this module passes values to them.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from tieline.app.audit import AuditLog, open_audit_log
from tieline.app.build.acp import tools_for_agents
from tieline.app.build.backends import Backends, build_backends
from tieline.app.build.keys import client_keys, key_from_env, named_keys
from tieline.app.build.model_families import FAMILIES
from tieline.app.build.model_routes import ModelRoutes
from tieline.app.build.page_context import PageContext
from tieline.app.build.responses import build_archives
from tieline.app.build.startup_text import NEEDS_KEY, StartupText
from tieline.app.build.status import BackendStatus
from tieline.app.build.storage import Storage
from tieline.app.build.upstreams import upstream_backend
from tieline.app.build.workspaces import WorkspaceRegistry
from tieline.app.config import ClientSettings, Config, UpstreamSettings
from tieline.app.ids import Ids
from tieline.app.lazy import LazyImport
from tieline.app.lazy_backend import LazyBackend, LazyObject
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.model_facts import FactTable, ModelDescriptions
from tieline.core.legs.routing import Router
from tieline.core.repair.repairs import DEFAULT
from tieline.core.usage.meter import Meter
from tieline.core.watch.bus import Bus, ModelsChanged
from tieline.core.watch.secrets import Secrets
from tieline.frontends.guard import Guard, PageToken
from tieline.frontends.http import BodyBudget
from tieline.frontends.http_app import HttpApp, Observer
from tieline.frontends.inbox import InboxFrontend
from tieline.frontends.keyless import Keyless
from tieline.frontends.keys import NamedKey
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.relay import Relay
from tieline.frontends.responses.routes import ResponseArchives, responses_routes
from tieline.frontends.routes import build_http_app, build_tunnel_app
from tieline.frontends.status import Hello, Readiness, StopFrontend
from tieline.frontends.workspaces import WorkspacesFrontend
from tieline.model.ports import Backend, Store
from tieline.model.scope import Scope
from tieline.net.client.http import HttpClient, Proxies
from tieline.net.memory import trim
from tieline.net.server import socket_owner
from tieline.tasks import Tasks
from tieline.web.routes import page_routes
from tieline.wire.shared.conversations import ConversationCache, conversation_cache

if TYPE_CHECKING:
    from tieline.app.build.cluster import build_cluster
    from tieline.app.build.page import Page, build_page
    from tieline.app.build.shared_records import audit_copy, remove_old_records, retained_traffic
    from tieline.app.build.tools import build_tools
    from tieline.app.build.usage import UsageParts, build_usage
    from tieline.app.cluster.cluster import Cluster
    from tieline.tools.guarded_tools import GuardedTools
else:
    audit_copy = LazyImport("tieline.app.build.shared_records", "audit_copy")
    remove_old_records = LazyImport("tieline.app.build.shared_records", "remove_old_records")
    retained_traffic = LazyImport("tieline.app.build.shared_records", "retained_traffic")
    build_cluster = LazyImport("tieline.app.build.cluster", "build_cluster")
    build_page = LazyImport("tieline.app.build.page", "build_page")
    build_tools = LazyImport("tieline.app.build.tools", "build_tools")
    build_usage = LazyImport("tieline.app.build.usage", "build_usage")

MIB = 1024 * 1024
EDITOR_NAME = "cursor"
"""The name of the `[clients]` entry with the options for Cursor's editor."""


@runtime_checkable
class _WorksInWorkspaces(Protocol):
    """The part of the backend for coding agents that is used here. Importing its class would be too slow."""

    def leave_workspace(self, name: str) -> None: ...


class Tunnel(NamedTuple):
    """A tunnel that makes a listener public: the only key that the listener accepts, and an observer of its requests.

    `clock` is used to measure the request rate.
    """

    key: NamedKey
    observe: Observer | None = None
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class App:
    """The whole program, ready to serve."""

    asgi: HttpApp
    gateway: Gateway
    statuses: tuple[BackendStatus, ...]
    backends: Mapping[str, Backend]
    upstreams: Mapping[str, UpstreamSettings]
    """The settings of all upstreams, including those that were added on the page."""
    client: HttpClient
    tasks: Tasks
    archives: ResponseArchives
    store: LazyObject[Store]
    """The store that contains the archives of the Responses API."""
    startup: StartupText
    storage: Storage
    """The gateway's database."""
    usage: "UsageParts | None" = None
    """Measures and limits usage; None if there are no keys and usage is not recorded."""
    tools: "GuardedTools | None" = None
    """The gateway's own tools, if they are enabled."""
    lazy_page: "LazyObject[Page] | None" = None
    warnings: tuple[str, ...] = ()
    """Warnings to print at start-up."""
    tunnel: HttpApp | None = None
    """The application for the listener behind a tunnel, if there is one."""
    workspaces: WorkspaceRegistry | None = None
    cluster: "Cluster | None" = None
    """This replica's part in a cluster, if there is one."""

    @property
    def page(self) -> "Page | None":
        """The web page, built on first access; None if it is disabled."""
        return self.lazy_page.now() if self.lazy_page is not None else None

    async def start(self) -> None:
        """Start using the database, and read the stored keys and usage that requests need.

        If that fails or takes too long, log a warning and continue.
        """
        self.storage.start()
        if self.usage is not None:
            await self.usage.start()

    async def aclose(self) -> None:
        """Stop background tasks and close every connection."""
        if self.cluster is not None:
            await self.cluster.aclose()
        if self.lazy_page is not None and self.lazy_page.made is not None:
            await self.lazy_page.made.aclose()
        await self.gateway.aclose()
        await self.tasks.aclose()
        await self.archives.aclose()
        if self.usage is not None:
            await self.usage.aclose()
        if self.store.made is not None:
            await self.store.made.aclose()
        for backend in self.backends.values():
            await backend.aclose()
        await self.client.aclose()
        await self.storage.aclose()


def build(
    config: Config,
    env: Mapping[str, str],
    cursor_token: str | None = None,
    *,
    source: Path | None = None,
    tunnel: Tunnel | None = None,
    stop: Callable[[], None] | None = None,
) -> App:
    """Build the program. Raise ConfigError if the configuration cannot be used.

    `source` is the configuration file. If `cursor_token` is given, the Cursor backend talks to the simulator. If
    `tunnel` is given, also build the application for the listener behind the tunnel. `stop` stops the gateway; if it is
    None, clients cannot stop it.
    """
    tasks = Tasks()
    storage = Storage(config.store, env)
    ids = Ids()
    audit = open_audit_log(env, audit_copy(storage, ids.tag) if storage.is_shared else None)
    proxies = Proxies.from_env(env)
    client = HttpClient(proxies=proxies)

    tools, tools_status = build_tools(config.tools, env, audit, storage) if config.tools.enabled else (None, None)
    agent_tools = tools_for_agents(config, env, audit, tools, storage)
    workspaces = WorkspaceRegistry(config, env, audit, tools, storage)
    conversations = conversation_cache()
    make_upstream = partial(upstream_backend, client=client, new_leg_id=ids.leg, conversations=conversations)
    backends = build_backends(
        config,
        env,
        make_upstream=make_upstream,
        proxies=proxies,
        tasks=tasks,
        audit=audit,
        storage=storage,
        agent_tools=agent_tools,
        ids=ids,
        cursor_token=cursor_token,
        workspaces=workspaces,
    )
    if tools_status is not None:
        backends.statuses.append(tools_status)

    own_keys = client_keys(config, env)
    named = named_keys(config, env, own_keys)
    usage: UsageParts | None = None
    if own_keys or config.usage.enabled:
        usage = build_usage(config, env, storage, tasks, own_keys, named, backends.upstreams.keys())
    every_key = named if tunnel is None else (*named, tunnel.key)
    known_secrets = Secrets([*backends.secrets, *storage.secrets, *own_keys, *(key.value for key in every_key)])
    routes = ModelRoutes(config, backends)
    meter = None if usage is None else usage.meter
    gateway = _gateway(
        config, routes.router, backends, tasks, audit, tools, known_secrets, conversations, workspaces, meter, ids
    )
    if usage is not None:
        gateway.metrics.sources.append(usage.metric_lines)

    if storage.is_shared:
        remove_old_records(storage, tasks)
    traffic = retained_traffic(storage, gateway.bus, tasks) if storage.is_shared and config.web.enabled else None
    guard = _guard(config, own_keys, named, usage)
    cluster = (
        build_cluster(config, env, ids.tag, gateway, routes.router, storage, known_secrets, tasks)
        if config.cluster.listen is not None
        else None
    )
    if usage is not None and cluster is not None:
        usage.meter.accounts.replicas = cluster.alive
    replicas = None if cluster is None else cluster.replicas
    page_token = PageToken(secrets.token_urlsafe(24) if cluster is None else cluster.page_token)
    context = PageContext(
        config,
        env,
        gateway,
        guard,
        tasks,
        backends,
        proxies,
        ids,
        page_token,
        audit,
        routes,
        make_upstream,
        known_secrets,
        workspaces,
        storage,
        traffic=traffic,
        usage=usage,
        is_simulated=cursor_token is not None,
        cluster=cluster,
    )
    page = LazyObject(build_page, context) if config.web.enabled else None
    profiles = _profiles(config, env, has_named_keys=bool(named))
    if usage is not None and usage.stored is not None:
        usage.stored.on_change.append(profiles.distinguish)
    archives, store = build_archives(config.responses, storage, tasks)
    startup = StartupText(config, backends.statuses, backends.upstreams, routes.aliases, guard.has_keys, source)
    relay = Relay(gateway, tasks, keep_alive=config.server.keep_alive, replicas=replicas)
    bodies = BodyBudget(trim=trim)
    asgi = build_http_app(
        gateway,
        relay,
        profiles,
        InboxFrontend(
            gateway.inbox,
            tasks,
            page_token,
            rulebook=tools or agent_tools,
            has_file=tools.has_file if tools is not None else None,
            workspaces=workspaces,
            keep_alive=config.server.keep_alive,
            replicas=replicas,
        ),
        guard=guard,
        clock=time.time,
        responses=responses_routes(
            gateway,
            relay,
            profiles,
            archives,
            guard,
            tasks,
            clock=time.time,
            mint=ids.document,
            keep_alive=config.server.keep_alive,
            replicas=replicas,
        ),
        limit=config.server.max_body_mib * MIB,
        bodies=bodies,
        hello=Hello(guard, startup.text, NEEDS_KEY),
        page=partial(page_routes, page.get) if page is not None else None,
        workspaces=WorkspacesFrontend(workspaces, page_token),
        stop=StopFrontend(page_token, stop),
        readiness=lambda: Readiness(replicas is not None and replicas.is_draining, storage.is_available),
        cluster=replicas,
    )
    workspaces.on_change(partial(gateway.bus.publish, ModelsChanged()))
    workspaces.on_remove(partial(_leave_workspace, asgi, gateway, backends, page))
    return App(
        asgi,
        gateway,
        tuple(backends.statuses),
        backends.by_name,
        backends.upstreams,
        client,
        tasks,
        archives,
        store,
        startup,
        storage,
        usage,
        tools,
        page,
        guard.warnings(),
        None if tunnel is None else _tunnel_app(config, env, tunnel, gateway, relay, bodies),
        workspaces,
        None if cluster is None else cluster.complete(asgi),
    )


async def _leave_workspace(
    asgi: HttpApp, gateway: Gateway, backends: Backends, page: "LazyObject[Page] | None", name: str
) -> None:
    """Stop everything that runs in a workspace, because it has been removed."""
    asgi.stop_workspace(name)
    if page is not None and page.made is not None:
        await page.made.sessions.stop_workspace(name)
    for backend in backends.by_name.values():
        made: object = backend.backend.made if isinstance(backend, LazyBackend) else backend
        if isinstance(made, _WorksInWorkspaces):
            made.leave_workspace(name)
    gateway.inbox.withdraw(Scope(workspace=name), "The workspace was removed.")


def _tunnel_app(
    config: Config, env: Mapping[str, str], tunnel: Tunnel, gateway: Gateway, relay: Relay, bodies: BodyBudget
) -> HttpApp:
    return build_tunnel_app(
        gateway,
        relay,
        _profiles(config, env, has_named_keys=True, give_tools=False),
        guard=Guard(hosts=("*",), named=(tunnel.key,), rate_clock=tunnel.clock),
        clock=time.time,
        limit=config.server.max_body_mib * MIB,
        bodies=bodies,
        observe=tunnel.observe,
    )


def _gateway(
    config: Config,
    router: Router,
    backends: Backends,
    tasks: Tasks,
    audit: AuditLog,
    tools: "GuardedTools | None",
    known_secrets: Secrets,
    conversations: ConversationCache,
    workspaces: WorkspaceRegistry,
    meter: Meter | None,
    ids: Ids,
) -> Gateway:
    inbox = Inbox(mint=ids.inbox_item, clock=time.time, audit=audit.write_entry, timeout=config.inbox.timeout)
    bus = Bus(
        clock=time.time,
        mint=lambda: f"req_{secrets.token_hex(10)}",
        secrets=known_secrets,
        max_legs=config.web.traffic if config.web.enabled else 0,
        prefix=f"{secrets.token_hex(4)}." if config.store.is_used else "",
    )
    descriptions = ModelDescriptions(
        configured=FactTable({name: settings.facts() for name, settings in config.models.items()}),
        families=FactTable(FAMILIES),
        upstreams=backends.upstreams.keys(),
    )
    return Gateway(
        router,
        tasks=tasks,
        inbox=inbox,
        toolbox=tools,
        workspaces=workspaces,
        clock=time.perf_counter,
        park_for=config.parking.deadline,
        park_at_most=config.parking.limit,
        repairs={name: DEFAULT | frozenset(settings.repairs) for name, settings in config.upstreams.items()},
        secrets=known_secrets,
        bus=bus,
        conversations=conversations,
        descriptions=descriptions,
        meter=meter,
    )


def _guard(config: Config, own_keys: Sequence[str], named: Sequence[NamedKey], usage: "UsageParts | None") -> Guard:
    owner_of, users = socket_owner.owner_lookup() or (None, ())
    return Guard(
        hosts=(config.server.host, *config.server.hosts),
        origins=config.server.origins,
        keys=own_keys,
        named=named,
        stored=None if usage is None else usage.stored,
        accounts=None if usage is None else usage.accounts,
        keyless=Keyless(
            key_name=config.server.key_env,
            is_published=bool(config.server.hosts),
            owner_of=owner_of,
            users=users,
        ),
    )


def _profiles(config: Config, env: Mapping[str, str], *, has_named_keys: bool, give_tools: bool = True) -> Profiles:
    """Return the client profiles.

    If `give_tools` is false, no profile allows the gateway's own tools, but a named key still can.
    """
    known: dict[str, Profile] = {}
    for name, client in config.clients.items():
        key = key_from_env(env, client.key_env) if client.key_env else None
        # Skip a profile whose key variable is not set: without the key it would match every client.
        if client.key_env is None or key is not None:
            known[name] = _profile(client, key, give_tools)
    editor = known.get(EDITOR_NAME)
    if editor is not None and editor.user_agent is None and editor.key is None:
        del known[EDITOR_NAME]  # it would match every client; the editor is recognised by its requests
    return Profiles(
        known.values(),
        Profile(arguments=config.arguments, activity=config.activity),
        has_named_keys=has_named_keys,
        editor=editor,
    )


def _profile(client: ClientSettings, key: str | None, give_tools: bool) -> Profile:
    return Profile(
        user_agent=client.user_agent,
        key=key,
        arguments=client.arguments,
        reasoning=client.reasoning,
        freeform=client.freeform,
        incomplete=client.incomplete,
        activity=client.activity,
        tools=client.tools if give_tools else None,
    )
