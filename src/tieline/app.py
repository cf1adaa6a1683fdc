"""The composition root: a configuration becomes objects, and objects a running program.

Nobody below this module reads the configuration, the environment or the clock of the wall.
"""

import asyncio
import contextlib
import gc
import itertools
import logging
import os
import resource
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import uvicorn
from msgspec.structs import replace

from tieline import __version__
from tieline.agents import acp_backend, agents_keeper
from tieline.assembly import State, audit_log, cursor_backend, key_file, key_of, tool_keeper, upstream_backend
from tieline.backends.demo import DemoBackend
from tieline.config import Config, ConfigError
from tieline.core.bus import Bus
from tieline.core.gateway import Gateway
from tieline.core.inbox import Inbox
from tieline.core.repair import DEFAULT
from tieline.core.routing import Router
from tieline.core.secrets import Secrets
from tieline.frontends.http import Guard, HttpApp, is_loopback
from tieline.frontends.inbox import InboxFrontend
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.relay import Relay
from tieline.frontends.routes import http_app
from tieline.model.ports import Backend
from tieline.net.http import HttpClient, Proxies
from tieline.page import Page, Surroundings, build_page
from tieline.sim.cursor import CursorSim
from tieline.tasks import Tasks
from tieline.tools.keeper import Keeper

MIB = 1024 * 1024
KEEP_IDLE = 75
BACKLOG = 4096
MOST_FILES = 65536
DRAIN = 1
"""Seconds that open requests get when the gateway is asked to stop."""

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
    keeper: Keeper | None = None
    """The gateway's own tools, if they are on."""
    page: Page | None = None

    async def aclose(self) -> None:
        """End what runs in the background and close every connection."""
        if self.page is not None:
            await self.page.aclose()
        await self.gateway.aclose()
        await self.tasks.aclose()
        for backend in self.backends.values():
            await backend.aclose()
        await self.client.aclose()


def build(config: Config, env: Mapping[str, str], cursor_token: str | None = None) -> App:
    """The program that a configuration describes; raises ConfigError if it cannot be."""
    proxies = Proxies.from_env(env)
    client = HttpClient(proxies=proxies)
    mint = _minter()
    backends: dict[str, Backend] = {}
    states: list[State] = []
    keys: list[str] = []
    if config.demo:
        backends["demo"] = DemoBackend()
        states.append(State("demo", True, "no key, no network: ask for demo/scripted"))
    for name, settings in config.upstreams.items():
        key, state = key_of(name, settings, env)
        backends[name] = upstream_backend(name, settings, key, client, mint)
        states.append(state)
        keys += [key] if key else []
    if cursor := cursor_backend(config.cursor, env, proxies, mint, cursor_token):
        backends["cursor"] = cursor[0]
        states.append(cursor[1])
    audit, tasks = audit_log(env), Tasks()
    tools = tool_keeper(config.tools, env, audit)
    keeper = tools[0] if tools else None
    hands_keeper = agents_keeper(config, env, audit, keeper)
    if acp := acp_backend(config, env, mint, keeper=hands_keeper, tasks=tasks):
        backends["acp"] = acp[0]
        states.append(acp[1])
    router = Router(backends, aliases=_aliases(config, backends), default=_default(config, backends))
    if config.demo:
        router.know(["demo/scripted"])
    router.know(f"{name}/{model}" for name, settings in config.upstreams.items() for model in settings.models)
    repairs = {name: DEFAULT | frozenset(settings.repairs) for name, settings in config.upstreams.items()}
    states += [tools[1]] if tools else []
    keys += client_keys(config, env)
    known = Secrets(keys)
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
        bus=Bus(clock=time.time, secrets=known, most_legs=config.web.traffic if config.web.enabled else 0),
    )
    guard = Guard(
        hosts=(config.server.host, *config.server.hosts),
        origins=config.server.origins,
        keys=client_keys(config, env),
    )
    words = welcome(config, tuple(states))
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
        workspace=keeper.workspace if keeper is not None else None,
        is_simulated=cursor_token is not None,
    )
    page = build_page(around, words) if config.web.enabled else None
    asgi = http_app(
        gateway,
        Relay(gateway, tasks, keep_alive=config.server.keep_alive),
        _profiles(config, env),
        InboxFrontend(gateway.inbox, tasks, rulebook=keeper or hands_keeper, keep_alive=config.server.keep_alive),
        guard=guard,
        clock=time.time,
        limit=config.server.max_body_mib * MIB,
        welcome=words,
        page=page.routes if page is not None else None,
    )
    return App(asgi, gateway, tuple(states), backends, client, tasks, keeper, page)


def address(config: Config, port: int | None = None) -> str:
    """Where clients find the gateway."""
    host = config.server.host
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared, not bound
    return f"http://{shown}:{config.server.port if port is None else port}"


def welcome(config: Config, states: tuple[State, ...], port: int | None = None) -> str:
    """What the gateway says of itself when it starts, and to a browser: where it is, what works, what to try first."""
    url = address(config, port)
    width = max((len(state.name) for state in states), default=0)
    lines = [
        f"  {state.name:<{width}}  {'ready' if state.is_ready else state.lack:<8}  {state.text}" for state in states
    ]
    model = config.default_model or ("demo/scripted" if config.demo else "<backend>/<model>")
    ask = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "What can you do?"}}]}}'
    return "\n".join(
        [
            f"Tieline {__version__} is listening on {url}",
            "",
            *lines,
            "",
            "Try it:",
            *([f"  open {url} in a browser"] if config.web.enabled else []),
            f"  curl {url}/v1/chat/completions -H 'content-type: application/json' -d '{ask}'",
            "",
            "Point a client here (any key will do):" if not _needs_key(config) else "Point a client here:",
            f"  Claude Code   ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=local ANTHROPIC_MODEL={model} claude",
            f"  OpenAI SDKs   OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=local, and the model {model}",
            "",
        ]
    )


def serve(
    config: Config, env: Mapping[str, str], announce: Callable[[str], None], *, simulate_cursor: bool = False
) -> None:
    """Run until interrupted; open requests get a second to end.

    With `simulate_cursor` the Cursor backend talks to a simulator of the service instead of the service.
    """
    listener = _listen(config)

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            token = None
            settings = config
            if simulate_cursor:
                sim = await stack.enter_async_context(CursorSim())
                settings = replace(
                    config,
                    cursor=replace(config.cursor, **_simulated(sim.url)),
                    default_model=config.default_model or "cursor/demo",
                )
                token = "demo"  # noqa: S105 - the simulator takes any
            app = build(settings, env, token)
            stack.push_async_callback(app.aclose)
            announce(welcome(settings, app.states, listener.getsockname()[1]))
            # What exists now lives as long as the process, and requests leave hardly any cycles: look seldom.
            gc.collect()
            gc.freeze()
            gc.set_threshold(20_000, 20, 20)
            server = uvicorn.Server(_uvicorn(app))
            # What goes wrong in a request is told by ourselves; the server would add a traceback when it stops one.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            await server.serve(sockets=[listener])

    _allow_files()
    # A shell starts what runs in its background deaf to interrupts. We end on one in any case, from the first moment.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def _allow_files() -> None:
    """Every stream and every parked run is an open file, and the usual limit is a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else MOST_FILES, hard))


def _simulated(url: str) -> dict[str, object]:
    return {"enabled": True, "api_url": url, "agent_url": url, "transport": "http2", "ghost_mode": True}


def _uvicorn(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app.asgi,
        http="httptools",
        loop="auto",
        ws="none",
        lifespan="off",
        proxy_headers=False,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_IDLE,
        timeout_graceful_shutdown=DRAIN,
        backlog=BACKLOG,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    return uvicorn.Config("", loop="auto").get_loop_factory()


def _listen(config: Config) -> socket.socket:
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}. Another tieline may be running; "
            "`tieline serve --port` takes another port."
        ) from error


def client_keys(config: Config, env: Mapping[str, str]) -> list[str]:
    """The keys clients must bring; beyond this machine there must be one."""
    server = config.server
    keys = [key_file(server.key_file)] if server.key_file else []
    if env.get(server.key_env):
        keys.append(env[server.key_env])
    if not keys and not is_loopback(server.host):
        raise ConfigError(
            f"`server.host` is {server.host}, which others can reach: that needs a key. "
            f"Set {server.key_env} (or `server.key_file`) to a long random text and give it to your clients."
        )
    return keys


def _needs_key(config: Config) -> bool:
    return config.server.key_file is not None or not is_loopback(config.server.host)


def _profiles(config: Config, env: Mapping[str, str]) -> Profiles:
    return Profiles(
        [
            Profile(
                user_agent=client.user_agent,
                key=env.get(client.key_env) if client.key_env else None,
                arguments=client.arguments,
                reasoning=client.reasoning,
                activity=client.activity,
            )
            for client in config.clients.values()
        ],
        Profile(arguments=config.arguments, activity=config.activity),
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
