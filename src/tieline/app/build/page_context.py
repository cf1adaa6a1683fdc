"""The settings and objects that the web page needs from the rest of the program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tieline.app.audit import AuditLog
from tieline.app.build.backends import Backends
from tieline.app.build.model_routes import ModelRoutes
from tieline.app.build.upstreams import MakeUpstream
from tieline.app.build.workspaces import WorkspaceRegistry
from tieline.app.config import Config
from tieline.core.legs.gateway import Gateway
from tieline.core.watch.secrets import Secrets
from tieline.frontends.guard import Guard, PageToken
from tieline.net.client.http import Proxies
from tieline.tasks import Tasks


@dataclass(frozen=True, slots=True)
class PageContext:
    """The settings and objects from which the web page is built."""

    config: Config
    env: Mapping[str, str]
    gateway: Gateway
    guard: Guard
    tasks: Tasks
    backends: Backends
    proxies: Proxies
    new_leg_id: Callable[[], str]
    token: PageToken
    audit: AuditLog
    routes: ModelRoutes
    make_upstream: MakeUpstream
    secrets: Secrets
    """The known secrets, to which the keys of added upstreams are added."""
    workspaces: WorkspaceRegistry
    is_simulated: bool = False
    """Whether the Cursor backend talks to the simulator."""
