"""The composition root: a configuration becomes objects; `serving` runs them.

Nobody below this module reads the configuration, the environment or the clock of the wall.
"""

import itertools
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tieline.app.build.accounts import cursor_backend
from tieline.app.build.agents import acp_backend, agents_keeper
from tieline.app.build.page_context import Surroundings
from tieline.app.build.startup_text import NEEDS_KEY, StartupText
from tieline.app.build.upstreams import State, audit_log, client_keys, key_of, named_keys, upstream_backend
from tieline.app.config import Config
from tieline.app.late_backend import LateBackend, Later
from tieline.app.lazy import Lazily
from tieline.core.inbox.inbox import Inbox
from tieline.core.legs.gateway import Gateway
from tieline.core.legs.routing import Router
from tieline.core.repair.repairs import DEFAULT
from tieline.core.watch.bus import Bus
from tieline.core.watch.secrets import Secrets, secret_values
from tieline.demo import MODELS
from tieline.frontends.bodies import HeldBodies
from tieline.frontends.http import Guard, HttpApp
from tieline.frontends.inbox import InboxFrontend
from tieline.frontends.keyless import Keyless
from tieline.frontends.keys import NamedKey
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.relay import Relay
from tieline.frontends.routes import http_app
from tieline.frontends.status import Hello
from tieline.frontends.token import PageToken
from tieline.model.ports import Backend
from tieline.net.client.http import HttpClient, Proxies
from tieline.net.memory import trim
from tieline.net.server import socket_owner
from tieline.tasks import Tasks
from tieline.web.routes import page_routes

if TYPE_CHECKING:
    from tieline.app.build.page import Page, build_page
    from tieline.app.build.tools import tool_keeper
    from tieline.backends.demo import DemoBackend
    from tieline.tools.guarded_tools import Keeper
else:
    DemoBackend = Lazily("tieline.backends.demo", "DemoBackend")
    build_page = Lazily("tieline.app.build.page", "build_page")
    tool_keeper = Lazily("tieline.app.build.tools", "tool_keeper")

MIB = 1024 * 1024

BARE_NAMES = {
    "anthropic": ("claude-*",),
    "openai": ("gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "codex-*"),
}
"""Which bare names belong to the two upstreams that everybody knows."""


@dataclass(frozen=True, slots=True)
class App:
    """Everything that was built, ready to serve."""

    asgi: HttpApp
    gateway: Gateway
    states: tuple[State, ...]
    backends: Mapping[str, Backend]
    client: HttpClient
    tasks: Tasks
    startup: StartupText
    keeper: "Keeper | None" = None
    """The gateway's own tools, if they are on."""
    late_page: "Later[Page] | None" = None
    warnings: tuple[str, ...] = ()
    """What the person who starts it has to know."""

    @property
    def page(self) -> "Page | None":
        """The web page, unless it is switched off."""
        return self.late_page.now() if self.late_page is not None else None

    async def aclose(self) -> None:
        """End what runs in the background and close every connection."""
        if self.late_page is not None and self.late_page.made is not None:
            await self.late_page.made.aclose()
        await self.gateway.aclose()
        await self.tasks.aclose()
        for backend in self.backends.values():
            await backend.aclose()
        await self.client.aclose()


def build(
    config: Config, env: Mapping[str, str], cursor_token: str | None = None, *, source: Path | None = None
) -> App:
    """The program that a configuration describes, read from `source`; raises ConfigError if it cannot be."""
    proxies = Proxies.from_env(env)
    client = HttpClient(proxies=proxies)
    mint = _minter()
    backends: dict[str, Backend] = {}
    states: list[State] = []
    keys: list[str] = []
    if config.demo:
        backends["demo"] = LateBackend("demo", Later(DemoBackend), models=lambda: MODELS)
        states.append(State("demo", True, "no key, no network: ask for demo/scripted"))
    for name, settings in config.upstreams.items():
        key, state = key_of(name, settings, env)
        backends[name] = upstream_backend(name, settings, key, client, mint)
        states.append(state)
        keys += [key, *secret_values(settings.headers)] if key else secret_values(settings.headers)
    if cursor := cursor_backend(config.cursor, env, proxies, mint, cursor_token, park_for=config.parking.deadline):
        backends["cursor"] = cursor[0]
        states.append(cursor[1])
    audit, tasks = audit_log(env), Tasks()
    tools = tool_keeper(config.tools, env, audit) if config.tools.enabled else None
    keeper = tools[0] if tools else None
    hands_keeper = agents_keeper(config, env, audit, keeper)
    if acp := acp_backend(config, env, mint, audit=audit, keeper=hands_keeper, tasks=tasks):
        backends["acp"] = acp[0]
        states.append(acp[1])
    aliases = _aliases(config, backends)
    router = Router(backends, aliases=aliases, default=_default(config, backends))
    if config.demo:
        router.add_models(["demo/scripted"])
    router.add_models(f"{name}/{model}" for name, settings in config.upstreams.items() for model in settings.models)
    repairs = {name: DEFAULT | frozenset(settings.repairs) for name, settings in config.upstreams.items()}
    states += [tools[1]] if tools else []
    own_keys = client_keys(config, env)
    named = named_keys(config, env, own_keys)
    given = [
        *(agent.env for agent in config.acp.agents.values()),
        *(mapping for server in config.acp.mcp.values() for mapping in (server.env, server.headers)),
    ]
    keys += [value for mapping in given for value in secret_values(mapping)]
    known = Secrets([*keys, *own_keys, *(key.value for key in named)])
    gateway = Gateway(
        router,
        tasks=tasks,
        inbox=Inbox(
            mint=lambda: secrets.token_hex(6), clock=time.time, audit=audit.entry, timeout=config.inbox.timeout
        ),
        toolbox=keeper,
        clock=time.perf_counter,
        park_for=config.parking.deadline,
        park_at_most=config.parking.limit,
        repairs=repairs,
        secrets=known,
        bus=Bus(
            clock=time.time,
            mint=lambda: f"req_{secrets.token_hex(10)}",
            secrets=known,
            max_legs=config.web.traffic if config.web.enabled else 0,
        ),
    )
    guard = Guard(
        hosts=(config.server.host, *config.server.hosts),
        origins=config.server.origins,
        keys=own_keys,
        named=named,
        keyless=Keyless(
            key_name=config.server.key_env,
            is_published=bool(config.server.hosts),
            owner_of=socket_owner.owner_of if socket_owner.IS_KNOWN_HERE else None,
            users=(0, os.geteuid()),
        ),
    )
    token = PageToken(secrets.token_urlsafe(24))
    startup = StartupText(config, states, aliases, guard.has_keys, source)
    around = Surroundings(
        config,
        env,
        gateway,
        guard,
        tasks,
        backends,
        states,
        proxies,
        mint,
        token,
        workspace=keeper.workspace if keeper is not None else None,
        is_simulated=cursor_token is not None,
    )
    page = Later(build_page, around) if config.web.enabled else None
    asgi = http_app(
        gateway,
        Relay(gateway, tasks, keep_alive=config.server.keep_alive),
        _profiles(config, env, named),
        InboxFrontend(
            gateway.inbox,
            tasks,
            token,
            rulebook=keeper or hands_keeper,
            has_file=keeper.has_file if keeper is not None else None,
            keep_alive=config.server.keep_alive,
        ),
        guard=guard,
        clock=time.time,
        limit=config.server.max_body_mib * MIB,
        bodies=HeldBodies(trim=trim),
        hello=Hello(guard, startup.text, NEEDS_KEY),
        page=partial(page_routes, page.get) if page is not None else None,
    )
    return App(asgi, gateway, tuple(states), backends, client, tasks, startup, keeper, page, guard.warnings())


def _profiles(config: Config, env: Mapping[str, str], named: Sequence[NamedKey]) -> Profiles:
    # A profile whose key is not set fits nobody: without the key it would fit everybody.
    known = [client for client in config.clients.values() if client.key_env is None or env.get(client.key_env)]
    return Profiles(
        [
            Profile(
                user_agent=client.user_agent,
                key=env.get(client.key_env) if client.key_env else None,
                arguments=client.arguments,
                reasoning=client.reasoning,
                activity=client.activity,
                tools=client.tools,
            )
            for client in known
        ],
        Profile(arguments=config.arguments, activity=config.activity),
        named,
    )


def _aliases(config: Config, backends: Mapping[str, Backend]) -> dict[str, str]:
    known = {pattern: f"{name}/*" for name, patterns in BARE_NAMES.items() if name in backends for pattern in patterns}
    return {**config.aliases, **{alias: target for alias, target in known.items() if alias not in config.aliases}}


def _default(config: Config, backends: Mapping[str, Backend]) -> str | None:
    """Where a bare name goes that nobody knows; with nothing but the demo model, there."""
    if config.default_model is not None:
        return config.default_model
    return "demo/scripted" if set(backends) <= {"demo", "acp"} and "demo" in backends else None


def _minter() -> Callable[[], str]:
    """Ids that are unique over restarts and cost nothing."""
    prefix, numbers = secrets.token_hex(8), itertools.count(1)
    return lambda: f"tl-{prefix}{next(numbers):06x}"
