"""From settings to backends: which upstreams and accounts there are, with which keys, and whether they are ready."""

import asyncio
import platform
import secrets
import shutil
import string
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tieline.backends.anthropic import AnthropicBackend, AnthropicCodec
from tieline.backends.anthropic import headers_for as anthropic_headers
from tieline.backends.cursor import commands
from tieline.backends.cursor.auth import Account
from tieline.backends.cursor.backend import CursorBackend, Terms
from tieline.backends.cursor.imports import places
from tieline.backends.cursor.login import Api
from tieline.backends.cursor.store import Store
from tieline.backends.openai import ChatCodec
from tieline.backends.openai import headers_for as openai_headers
from tieline.backends.replay import Patience, ReplayBackend, Upstream
from tieline.config import DEFAULT_URLS, ConfigError, CursorSettings, ToolSettings, UpstreamSettings
from tieline.model.ports import Backend
from tieline.net.duplex import Http2Client
from tieline.net.http import HttpClient, Origin, Proxies, Timeouts
from tieline.records import Audit, Remembered
from tieline.tools.box import Toolbox
from tieline.tools.failure import ToolFailed
from tieline.tools.globs import escaped
from tieline.tools.keeper import Keeper
from tieline.tools.policy import Policy, Rule
from tieline.tools.search import find_ripgrep
from tieline.tools.workspace import Workspace
from tieline.wire import anthropic, openai_chat
from tieline.wire.cursor.identity import CLI, Checksum, Identity
from tieline.wire.cursor.queries import Queries
from tieline.wire.cursor.request import Settings, Surroundings

CONNECTIONS = 8192
"""Over HTTP/1.1 every parked run holds a connection, and needs others beside it."""

_ALPHABET = string.ascii_letters + string.digits
_CALL_LENGTH = 22


@dataclass(frozen=True, slots=True)
class State:
    """One backend as it is shown to a person."""

    name: str
    is_ready: bool
    text: str
    lack: str = "no key"
    """What it is not ready for want of."""


def upstream_backend(
    name: str, settings: UpstreamSettings, key: str | None, client: HttpClient, mint: Callable[[], str]
) -> Backend:
    """The backend of one upstream of the configuration."""
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


def key_of(name: str, settings: UpstreamSettings, env: Mapping[str, str]) -> tuple[str | None, State]:
    """The key of an upstream, and how it stands."""
    url = settings.base_url or DEFAULT_URLS[settings.kind]
    if settings.key_file is not None:
        return key_file(settings.key_file), State(name, True, f"{url} (key from {settings.key_file})")
    if settings.key_env is None:
        return None, State(name, True, f"{url} (no key)")
    key = _key_in(env, settings.key_env)
    if key is None:
        return None, State(name, False, f"{url}: set {settings.key_env} to its key")
    return key, State(name, True, f"{url} (key from {settings.key_env})")


def _key_in(env: Mapping[str, str], name: str) -> str | None:
    key = env.get(name, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{name} holds no key: it has characters that no HTTP header can carry")
    return key or None


def key_file(file: str) -> str:
    """The key that a file holds."""
    try:
        return Path(file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key file {file} cannot be read: {error}") from error


# ── The gateway's own tools ──────────────────────────────────────────────────────────────────────


def state_folder(env: Mapping[str, str]) -> Path | None:
    """Where what the gateway writes down for its user is, if the environment tells."""
    base, home = env.get("XDG_STATE_HOME"), env.get("HOME")
    if base:
        return Path(base) / "tieline"
    return Path(home) / ".local" / "state" / "tieline" if home else None


def audit_log(env: Mapping[str, str]) -> Audit:
    """Where everything asked and decided is written down."""
    folder = state_folder(env)
    return Audit(None if folder is None else folder / "audit.jsonl", clock=time.time)


def tool_keeper(settings: ToolSettings, env: Mapping[str, str], audit: Audit) -> tuple[Keeper, State] | None:
    """The gateway's own tools and what they may do, if they are switched on."""
    if not settings.enabled:
        return None
    try:
        workspace = Workspace(Path(settings.workspace or ".").expanduser())
    except ToolFailed as error:
        raise ConfigError(f"{error}; `--workspace` (or `tools.workspace`) names the folder that tools act in") from None
    kept = Remembered(user_folder(env), workspace.root)
    policy = Policy(
        workspace.locate,
        rules=(*_own_rules(workspace.root, env), *settings.rules),
        remembered=kept.load(),
        yolo=settings.yolo,
    )
    environment, interpreter = shell_of(settings, env)
    box = Toolbox(
        workspace,
        environment=environment,
        interpreter=interpreter,
        ripgrep=find_ripgrep(env.get("PATH", "")),
        hides=policy.hides,
    )
    return Keeper(box, policy, save=kept.save, note=audit.ruled), _tool_state(settings, policy, workspace.root)


def shell_of(settings: ToolSettings, env: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, str]]:
    """What commands get to see of our environment, and what runs a command line."""
    seen = {name: env[name] for name in settings.environment if name in env}
    return seen, (_shell(settings.shell, env), "-c")


def _own_rules(root: str, env: Mapping[str, str]) -> list[Rule]:
    """Our logins and what was allowed are none of a model's business, even where they lie inside the workspace."""
    folders = [folder.resolve() for folder in (user_folder(env), state_folder(env)) if folder is not None]
    inside = [folder.relative_to(root).as_posix() for folder in folders if folder.is_relative_to(root)]
    return [Rule(decision="deny", path="**" if folder == "." else f"{escaped(folder)}/") for folder in inside]


def _shell(shell: str, env: Mapping[str, str]) -> str:
    found = shutil.which(shell, path=env.get("PATH", ""))
    if found is None:
        raise ConfigError(f"`tools.shell` is {shell}, which is no program that can be run")
    return found


def _tool_state(settings: ToolSettings, policy: Policy, root: str) -> State:
    if settings.yolo:
        return State("tools", True, f"{root}: EVERYTHING is allowed without asking (--yolo)")
    rules = f"; {len(settings.rules)} rules of yours" if settings.rules else ""
    always = f"; {len(policy.remembered)} things always allowed (tieline inbox rules)" if policy.remembered else ""
    return State("tools", True, f"{root}: reading is allowed, the rest asks (tieline inbox watch){rules}{always}")


# ── Cursor ───────────────────────────────────────────────────────────────────────────────────────


def user_folder(env: Mapping[str, str]) -> Path:
    """Where this user's settings and logins are."""
    base = env.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path(env.get("HOME") or Path.home()) / ".config") / "tieline"


def cursor_account(
    settings: CursorSettings, env: Mapping[str, str], client: HttpClient, token: str | None = None
) -> tuple[Account, State]:
    """The account that the settings name, and how it stands; a `token` is used as it is."""
    api = Api(client, settings.api_url)
    if token is not None:
        return Account.fixed(api, token, clock=time.time), State("cursor", True, settings.api_url)
    key = key_file(settings.key_file) if settings.key_file else _key_in(env, settings.key_env)
    if key is not None:
        place = settings.key_file or settings.key_env
        state = State("cursor", True, f"{settings.api_url} (key from {place})")
        return Account.with_key(api, key, clock=time.time), state
    store = Store(user_folder(env))
    text = f"{settings.api_url} (your login)" if store.path.exists() else "run: tieline login cursor"
    state = State("cursor", store.path.exists(), text, lack="no login")
    return Account.stored(api, store, clock=time.time), state


def cursor_backend(
    settings: CursorSettings,
    env: Mapping[str, str],
    proxies: Proxies,
    mint_leg: Callable[[], str],
    token: str | None = None,
) -> tuple[CursorBackend, State] | None:
    """The Cursor backend, unless it is switched off, or left open and there is no login."""
    if settings.enabled is False:
        return None
    http = HttpClient(proxies=proxies, per_origin=CONNECTIONS)
    account, state = cursor_account(settings, env, http, token)
    if settings.enabled is None and not state.is_ready:
        return None
    backend = CursorBackend(
        _terms(settings, env),
        account,
        http,
        Http2Client(proxies=proxies),
        mint_call=mint_call,
        mint_id=lambda: str(uuid.uuid4()),
        mint_leg=mint_leg,
        clock=time.monotonic,
    )
    return backend, state


async def login_cursor(
    settings: CursorSettings, env: Mapping[str, str], *, take: bool, say: Callable[[str], None]
) -> str:
    """Log in through a browser, or with the login of Cursor's own client."""
    store = Store(user_folder(env))
    if take or settings.import_login:
        home = Path(env.get("HOME") or Path.home())
        config_home, app_data = env.get("XDG_CONFIG_HOME"), env.get("APPDATA")
        paths = places(
            sys.platform, home, Path(config_home) if config_home else None, Path(app_data) if app_data else None
        )
        return await commands.take_over(store, paths, clock=time.time, platform=sys.platform)
    client = HttpClient(proxies=Proxies.from_env(env))
    try:
        return await commands.login(
            client,
            store,
            say=say,
            sleep=asyncio.sleep,
            random=secrets.token_bytes,
            clock=time.time,
            api=settings.api_url,
            website=settings.website_url,
        )
    finally:
        await client.aclose()


async def logout_cursor(settings: CursorSettings, env: Mapping[str, str]) -> str:  # noqa: ARG001 - as the others
    """Forget the login."""
    return await commands.logout(Store(user_folder(env)))


async def whoami(settings: CursorSettings, env: Mapping[str, str]) -> str:
    """Say which account is in use."""
    client = HttpClient(proxies=Proxies.from_env(env))
    account, _ = cursor_account(settings, env, client)
    try:
        return await commands.whoami(account, clock=time.time)
    finally:
        await account.aclose()
        await client.aclose()


def mint_call() -> str:
    """An id for a call: short enough for every client, and nobody can guess it."""
    return "call_" + "".join(secrets.choice(_ALPHABET) for _ in range(_CALL_LENGTH))


def _terms(settings: CursorSettings, env: Mapping[str, str]) -> Terms:
    checksum = Checksum(machine_id=settings.machine_id) if settings.machine_id else None
    identity = Identity(
        client_type=settings.client_type or CLI.client_type,
        client_version=settings.client_version or CLI.client_version,
        ghost_mode=settings.ghost_mode,
        checksum=checksum,
        started_ms=int(time.time() * 1000),
    )
    return Terms(
        api=Origin.parse(settings.api_url)[0],
        agent=Origin.parse(settings.agent_url)[0] if settings.agent_url else None,
        transport=None if settings.transport == "auto" else settings.transport,
        identity=identity,
        timeouts=Timeouts(
            connect=settings.connect_timeout, first_byte=settings.first_byte_timeout, idle=settings.idle_timeout
        ),
        settings=Settings(history=settings.history, web_search=settings.web, web_fetch=settings.web),
        surroundings=Surroundings(
            os_version=f"{platform.system().lower()} {platform.release()}",
            shell=Path(env.get("SHELL", "/bin/sh")).name,
            time_zone=env.get("TZ", "") or "UTC",
            workspace=settings.workspace or "",
        ),
        queries=Queries(allow_web=settings.web),
        models=settings.models,
        stall_after=settings.stall_timeout,
    )
