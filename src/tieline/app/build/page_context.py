"""The program around the web page: what the page is given when it is put together."""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass

from tieline.app.build.upstreams import State
from tieline.app.config import Config
from tieline.core.legs.gateway import Gateway
from tieline.frontends.guard import Guard
from tieline.frontends.token import PageToken
from tieline.model.ports import Backend
from tieline.net.client.http import Proxies
from tieline.tasks import Tasks


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The program that the page is put into."""

    config: Config
    env: Mapping[str, str]
    gateway: Gateway
    guard: Guard
    tasks: Tasks
    backends: MutableMapping[str, Backend]
    states: list[State]
    proxies: Proxies
    mint: Callable[[], str]
    token: PageToken
    workspace: str | None = None
    """Where the gateway's own tools act, if they are on."""
    is_simulated: bool = False
    """Whether Cursor's service is one of our own."""
