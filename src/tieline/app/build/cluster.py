"""Builds this replica's part in a cluster, if one is configured."""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tieline.app.build.keys import key_from_env, key_from_file
from tieline.app.build.storage import Storage
from tieline.app.cluster.cluster import Cluster
from tieline.app.cluster.membership import Membership, Timing
from tieline.app.cluster.peers import CONNECTIONS, ClusterPeers, ClusterSecret
from tieline.app.cluster.remote_agents import RemoteAgents
from tieline.app.cluster.session_claims import DatabaseClaims
from tieline.app.cluster.shared_inbox import DatabaseInbox
from tieline.app.cluster.sharing import Sharing
from tieline.app.cluster.stream_log import DatabaseStreamLog
from tieline.app.config import ClusterSettings, Config, ConfigError
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.routing import Router
from tieline.core.watch.secrets import Secrets
from tieline.frontends.http_app import HttpApp
from tieline.frontends.replicas import PrivateApp, Replicas
from tieline.model.errors import GatewayError
from tieline.net.client.http import HttpClient, Origin
from tieline.tasks import Tasks

WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
"""Addresses that mean all addresses of this machine."""
MIN_SECRET = 16
"""Minimum number of characters of the secret."""


class ClusterParts(NamedTuple):
    """The parts of a cluster that the HTTP application needs. `complete` builds the rest from the application."""

    replicas: Replicas
    page_token: str
    """The token of the web page, which is the same on all replicas."""
    claims: DatabaseClaims
    """The claims on the sessions of the web page."""
    stream_log: DatabaseStreamLog
    """The log of the messages of the page's event stream."""
    alive: Callable[[], int]
    """Returns the number of replicas that are alive, including this one."""
    complete: Callable[[HttpApp], Cluster]


def build_cluster(
    config: Config,
    env: Mapping[str, str],
    tag: str,
    gateway: Gateway,
    router: Router,
    storage: Storage,
    known_secrets: Secrets,
    tasks: Tasks,
) -> ClusterParts:
    """Build the cluster of which this process is the replica `tag`. Raise ConfigError if a setting is missing."""
    settings = config.cluster
    if not storage.is_shared:
        raise ConfigError("`cluster.listen` needs a database that all replicas share: set `store.url`")
    secret, url = _secret(settings, env), _url(settings, env)
    known_secrets.add([secret])
    shared = ClusterSecret(secret)
    peers = ClusterPeers(
        shared,
        lambda model: _backend_of(model, router),
        agents=None if settings.agents else RemoteAgents.name,
        client=HttpClient(per_origin=CONNECTIONS),
    )
    membership = Membership(
        storage.database.now(),
        tag,
        has_agents=settings.agents,
        timing=Timing(settings.heartbeat_seconds, settings.dead_seconds),
        clock=time.monotonic,
        tasks=tasks,
        on_dead=peers.abandon,
    )
    peers.watch(membership)
    replicas = Replicas(peers, tasks, gateway.holds)
    database = storage.database.now()

    def is_alive(other: str) -> bool:
        return membership.find(other) is not None

    shared_inbox = DatabaseInbox(
        database,
        tag,
        tasks,
        is_alive=is_alive,
        interval=settings.heartbeat_seconds,
        clock=time.monotonic,
    )

    def complete(app: HttpApp) -> Cluster:
        return Cluster(
            PrivateApp(app, shared.matches),
            membership,
            peers,
            Sharing(gateway.inbox, shared_inbox),
            listen=settings.listen or "",
            url=url,
            drain_seconds=settings.drain_seconds,
            is_idle=lambda: gateway.is_idle and not replicas.forwarding,
        )

    return ClusterParts(
        replicas,
        shared.derive("page token"),
        DatabaseClaims(database, tag, tasks, is_alive=is_alive, interval=settings.heartbeat_seconds),
        DatabaseStreamLog(database, tasks, interval=settings.heartbeat_seconds),
        lambda: 1 + len(membership.alive()),
        complete,
    )


def _secret(settings: ClusterSettings, env: Mapping[str, str]) -> str:
    found = key_from_file(settings.secret_file) if settings.secret_file else key_from_env(env, settings.secret_env)
    if found is None:
        raise ConfigError(
            f"`cluster.listen` needs a secret that all replicas share: set {settings.secret_env} "
            "(or `cluster.secret_file`) to a long random string"
        )
    if len(found) < MIN_SECRET:
        raise ConfigError(f"the secret of the cluster has {len(found)} characters: expected at least {MIN_SECRET}")
    return found


def _url(settings: ClusterSettings, env: Mapping[str, str]) -> str | None:
    """Return the URL at which other replicas reach this one; None if it follows from `listen`."""
    url = env.get(settings.url_env) or settings.url
    if url is None:
        if (settings.listen or "").rpartition(":")[0].strip("[]") in WILDCARDS:
            raise ConfigError(
                f"`cluster.listen` is {settings.listen}, all addresses of this machine: set `cluster.url` (or "
                f"{settings.url_env}) to the URL at which other replicas reach this one"
            )
        return None
    try:
        Origin.parse(url)
    except ValueError as error:
        raise ConfigError(f"`cluster.url` (or {settings.url_env}): {error}") from error
    return url


def _backend_of(model: str, router: Router) -> str:
    try:
        return router.find(model or router.default_name()).backend.name
    except GatewayError:
        return ""  # serving the request raises the error again
