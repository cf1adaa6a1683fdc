"""The composition root: a configuration becomes objects, and objects a running program.

Nobody below this module reads the configuration, the environment or the clock of the wall.
"""

import asyncio
import gc
import itertools
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvicorn

from tieline import __version__
from tieline.backends.anthropic import AnthropicBackend, AnthropicCodec
from tieline.backends.anthropic import headers_for as anthropic_headers
from tieline.backends.demo import DemoBackend
from tieline.backends.openai import ChatCodec
from tieline.backends.openai import headers_for as openai_headers
from tieline.backends.replay import Patience, ReplayBackend, Upstream
from tieline.config import DEFAULT_URLS, Config, ConfigError, UpstreamSettings
from tieline.core.gateway import Gateway
from tieline.core.repair import DEFAULT
from tieline.core.routing import Router
from tieline.core.secrets import Secrets
from tieline.frontends.http import Guard, HttpApp, is_loopback
from tieline.frontends.profiles import Profile, Profiles
from tieline.frontends.relay import Relay
from tieline.frontends.routes import http_app
from tieline.model.ports import Backend
from tieline.net.http import HttpClient, Origin, Proxies, Timeouts
from tieline.tasks import Tasks
from tieline.wire import anthropic, openai_chat

MIB = 1024 * 1024
KEEP_IDLE = 75
BACKLOG = 4096
DRAIN = 1
"""Seconds that open requests get when the gateway is asked to stop."""

BARE_NAMES = {
    "anthropic": ("claude-*",),
    "openai": ("gpt-*", "chatgpt-*", "o1*", "o3*", "o4*", "codex-*"),
}
"""Which bare names belong to the two upstreams that everybody knows."""


@dataclass(frozen=True, slots=True)
class State:
    """One backend as it is shown to a person."""

    name: str
    is_ready: bool
    text: str


@dataclass(frozen=True, slots=True)
class App:
    """Everything that was built, ready to serve."""

    asgi: HttpApp
    gateway: Gateway
    states: tuple[State, ...]
    backends: Mapping[str, Backend]
    client: HttpClient
    tasks: Tasks

    async def aclose(self) -> None:
        """End what runs in the background and close every connection."""
        await self.gateway.aclose()
        await self.tasks.aclose()
        for backend in self.backends.values():
            await backend.aclose()
        await self.client.aclose()


def build(config: Config, env: Mapping[str, str]) -> App:
    """The program that a configuration describes; raises ConfigError if it cannot be."""
    client = HttpClient(proxies=Proxies.from_env(env))
    mint = _minter()
    backends: dict[str, Backend] = {}
    states: list[State] = []
    keys: list[str] = []
    if config.demo:
        backends["demo"] = DemoBackend()
        states.append(State("demo", True, "no key, no network: ask for demo/scripted"))
    for name, settings in config.upstreams.items():
        key, state = _key_of(name, settings, env)
        backends[name] = _backend(name, settings, key, client, mint)
        states.append(state)
        keys += [key] if key else []
    router = Router(backends, aliases=_aliases(config, backends), default=_default(config, backends))
    if config.demo:
        router.know(["demo/scripted"])
    router.know(f"{name}/{model}" for name, settings in config.upstreams.items() for model in settings.models)
    repairs = {name: DEFAULT | frozenset(settings.repairs) for name, settings in config.upstreams.items()}
    tasks = Tasks()
    gateway = Gateway(router, tasks=tasks, clock=time.perf_counter, repairs=repairs, secrets=Secrets(keys))
    asgi = http_app(
        gateway,
        Relay(gateway, tasks, keep_alive=config.server.keep_alive),
        _profiles(config, env),
        guard=Guard(
            hosts=(config.server.host, *config.server.hosts),
            origins=config.server.origins,
            keys=_keys(config, env),
        ),
        clock=time.time,
        limit=config.server.max_body_mib * MIB,
        welcome=welcome(config, tuple(states)),
    )
    return App(asgi, gateway, tuple(states), backends, client, tasks)


def address(config: Config, port: int | None = None) -> str:
    """Where clients find the gateway."""
    host = config.server.host
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared, not bound
    return f"http://{shown}:{config.server.port if port is None else port}"


def welcome(config: Config, states: tuple[State, ...], port: int | None = None) -> str:
    """What the gateway says of itself when it starts, and to a browser: where it is, what works, what to try first."""
    url = address(config, port)
    width = max((len(state.name) for state in states), default=0)
    lines = [f"  {state.name:<{width}}  {'ready ' if state.is_ready else 'no key'}  {state.text}" for state in states]
    model = config.default_model or ("demo/scripted" if config.demo else "<backend>/<model>")
    ask = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "What can you do?"}}]}}'
    return "\n".join(
        [
            f"Tieline {__version__} is listening on {url}",
            "",
            *lines,
            "",
            "Try it:",
            f"  curl {url}/v1/chat/completions -H 'content-type: application/json' -d '{ask}'",
            "",
            "Point a client here (any key will do):" if not _needs_key(config) else "Point a client here:",
            f"  Claude Code   ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=local ANTHROPIC_MODEL={model} claude",
            f"  OpenAI SDKs   OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=local, and the model {model}",
            "",
        ]
    )


def serve(config: Config, env: Mapping[str, str], announce: Callable[[str], None]) -> None:
    """Run until interrupted; open requests get a second to end."""
    app = build(config, env)
    listener = _listen(config)
    settings = uvicorn.Config(
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

    async def run() -> None:
        try:
            await uvicorn.Server(settings).serve(sockets=[listener])
        finally:
            await app.aclose()

    # What goes wrong in a request is told by ourselves; the server would add a traceback when it stops one.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    announce(welcome(config, app.states, listener.getsockname()[1]))
    # What exists now lives as long as the process, and requests leave hardly any cycles: look for those seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    with asyncio.Runner(loop_factory=settings.get_loop_factory()) as runner:
        runner.run(run())


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


def _backend(
    name: str, settings: UpstreamSettings, key: str | None, client: HttpClient, mint: Callable[[], str]
) -> Backend:
    origin, path = Origin.parse(settings.base_url or DEFAULT_URLS[settings.kind])
    timeouts = Timeouts(
        connect=settings.connect_timeout, first_byte=settings.first_byte_timeout, idle=settings.idle_timeout
    )
    patience = Patience(retries=settings.retries)
    headers = tuple((field.lower(), value) for field, value in settings.headers.items())
    path = path.rstrip("/")
    if settings.kind == "anthropic":
        betas = settings.betas if settings.betas is not None else origin.host == "api.anthropic.com"
        codec = AnthropicCodec(
            anthropic_headers(key, headers), msgspec.convert(settings.dialect, anthropic.Dialect), betas
        )
        path = path.removesuffix("/v1") + "/v1"
        upstream = Upstream(name, client, origin, path + "/messages", codec, mint, timeouts, patience)
        return AnthropicBackend(upstream, codec=codec, listing=path + "/models?limit=1000", models=settings.models)
    chat = ChatCodec(openai_headers(key, headers), _chat_dialect(settings, origin))
    upstream = Upstream(name, client, origin, path + "/chat/completions", chat, mint, timeouts, patience)
    return ReplayBackend(upstream, listing=path + "/models", models=settings.models)


def _chat_dialect(settings: UpstreamSettings, origin: Origin) -> openai_chat.Dialect:
    """What OpenAI itself takes is more than what servers like it take: for its own host the defaults are its own."""
    own = {"max_tokens_field": "max_completion_tokens", "freeform_tools": True, "cache_key": True}
    defaults = own if origin.host == "api.openai.com" else {}
    return msgspec.convert({**defaults, **settings.dialect}, openai_chat.Dialect)


def _key_of(name: str, settings: UpstreamSettings, env: Mapping[str, str]) -> tuple[str | None, State]:
    url = settings.base_url or DEFAULT_URLS[settings.kind]
    if settings.key_file is not None:
        return _key_file(settings.key_file), State(name, True, f"{url} (key from {settings.key_file})")
    if settings.key_env is None:
        return None, State(name, True, f"{url} (no key)")
    key = env.get(settings.key_env, "").strip()
    if not key:
        return None, State(name, False, f"{url}: set {settings.key_env} to its key")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{settings.key_env} holds no key: it has characters that no HTTP header can carry")
    return key, State(name, True, f"{url} (key from {settings.key_env})")


def _key_file(file: str) -> str:
    try:
        return Path(file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key file {file} cannot be read: {error}") from error


def _keys(config: Config, env: Mapping[str, str]) -> list[str]:
    """The keys clients must bring; beyond this machine there must be one."""
    server = config.server
    keys = [_key_file(server.key_file)] if server.key_file else []
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
            )
            for client in config.clients.values()
        ],
        Profile(arguments=config.arguments),
    )


def _aliases(config: Config, backends: Mapping[str, Backend]) -> dict[str, str]:
    known = {pattern: f"{name}/*" for name, patterns in BARE_NAMES.items() if name in backends for pattern in patterns}
    return {**config.aliases, **{alias: target for alias, target in known.items() if alias not in config.aliases}}


def _default(config: Config, backends: Mapping[str, Backend]) -> str | None:
    """Where a bare name goes that nobody knows; with nothing but the demo model, there."""
    if config.default_model is not None:
        return config.default_model
    return "demo/scripted" if set(backends) == {"demo"} else None


def _minter() -> Callable[[], str]:
    """Ids that are unique over restarts and cost nothing."""
    prefix, numbers = secrets.token_hex(8), itertools.count(1)
    return lambda: f"tl-{prefix}{next(numbers):06x}"
