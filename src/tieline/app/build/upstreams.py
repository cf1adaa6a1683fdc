"""From settings to what they mean: upstreams and their keys, whether they are ready, addresses and folders."""

import os
import pwd
import secrets
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tieline.app.audit import Audit
from tieline.app.config import DEFAULT_URLS, Config, ConfigError, CursorSettings, UpstreamSettings
from tieline.backends.http_api.anthropic import AnthropicBackend, AnthropicCodec
from tieline.backends.http_api.anthropic import headers_for as anthropic_headers
from tieline.backends.http_api.openai import ChatCodec, OpenAIBackend
from tieline.backends.http_api.openai import headers_for as openai_headers
from tieline.backends.http_api.replay import Patience, Upstream
from tieline.frontends.guard import is_loopback
from tieline.frontends.keys import NamedKey
from tieline.model.ports import Backend
from tieline.net.client.http import HttpClient, Origin, Timeouts
from tieline.net.private_files import read_file
from tieline.wire import anthropic, openai_chat
from tieline.wire.shared.conversations import ConversationCache

_ALPHABET = string.ascii_letters + string.digits
_CALL_LENGTH = 22
KEY_LIMIT = 64 << 10
"""Bytes of a file with a key."""


@dataclass(frozen=True, slots=True)
class State:
    """One backend as it is shown to a person."""

    name: str
    is_ready: bool
    text: str
    lack: str = "no key"
    """What it is not ready for want of."""
    standing_if_ready: str = "ready"

    @property
    def standing(self) -> str:
        """How it stands, in a word or two. An upstream that was not reached is at best "configured"."""
        return self.standing_if_ready if self.is_ready else self.lack


def upstream_backend(
    name: str,
    settings: UpstreamSettings,
    key: str | None,
    client: HttpClient,
    mint: Callable[[], str],
    conversations: ConversationCache,
) -> Backend:
    """The backend of one upstream of the configuration."""
    origin, path = Origin.parse(settings.base_url or DEFAULT_URLS[settings.kind])
    timeouts = Timeouts(
        connect=settings.connect_timeout, first_byte=settings.first_byte_timeout, idle=settings.idle_timeout
    )
    patience = Patience(retries=settings.retries)
    key_source = (settings.key_file or settings.key_env or "") if key else ""
    headers = tuple((field.lower(), value) for field, value in settings.headers.items())
    path = path.rstrip("/")
    if settings.kind == "anthropic":
        betas = settings.betas if settings.betas is not None else origin.host == "api.anthropic.com"
        codec = AnthropicCodec(
            anthropic_headers(key, headers), msgspec.convert(settings.dialect, anthropic.Dialect), betas, conversations
        )
        path = path.removesuffix("/v1") + "/v1"
        upstream = Upstream(name, client, origin, path + "/messages", codec, mint, timeouts, patience, key_source)
        return AnthropicBackend(upstream, codec=codec, listing=path + "/models?limit=1000", models=settings.models)
    chat = ChatCodec(openai_headers(key, headers), _chat_dialect(settings, origin), conversations)
    upstream = Upstream(name, client, origin, path + "/chat/completions", chat, mint, timeouts, patience, key_source)
    return OpenAIBackend(upstream, base=path, models=settings.models)


def _chat_dialect(settings: UpstreamSettings, origin: Origin) -> openai_chat.Dialect:
    """What OpenAI itself takes is more than what servers like it take: for its own host the defaults are its own."""
    own = {"max_tokens_field": "max_completion_tokens", "freeform_tools": True, "cache_key": True}
    defaults = own if origin.host == "api.openai.com" else {}
    return msgspec.convert({**defaults, **settings.dialect}, openai_chat.Dialect)


def key_of(name: str, settings: UpstreamSettings, env: Mapping[str, str]) -> tuple[str | None, State]:
    """The key of an upstream, and how it stands."""
    url = settings.base_url or DEFAULT_URLS[settings.kind]
    if settings.key_file is not None:
        return key_file(settings.key_file), _configured(name, f"{url} (key from {settings.key_file})")
    if settings.key_env is None:
        return None, _configured(name, f"{url} (no key)")
    key = key_in(env, settings.key_env)
    if key is None:
        return None, State(name, False, f"{url}: set {settings.key_env} to its key")
    return key, _configured(name, f"{url} (key from {settings.key_env})")


def _configured(name: str, text: str) -> State:
    return State(name, True, text, standing_if_ready="configured")


def key_in(env: Mapping[str, str], name: str) -> str | None:
    """The key that a variable of the environment holds, if it is set."""
    key = env.get(name, "").strip()
    return _checked(key, name) if key else None


def cursor_key(settings: CursorSettings, env: Mapping[str, str]) -> str | None:
    """The key of a Cursor account, if one is used without a login."""
    return key_file(settings.key_file) if settings.key_file else key_in(env, settings.key_env)


def key_file(file: str) -> str:
    """The key that a file holds."""
    try:
        key = read_file(Path(file).expanduser(), KEY_LIMIT).decode("utf-8").strip()
    except (OSError, ValueError, RuntimeError) as error:  # a home that is not known is a RuntimeError
        raise ConfigError(f"the key file {file} cannot be read: {error}") from error
    if not key:
        raise ConfigError(f"the key file {file} is empty")
    return _checked(key, f"the key file {file}")


def _checked(key: str, place: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{place} holds no key: it has characters that no HTTP header can carry")
    return key


# ── Where the gateway is, and for whom ───────────────────────────────────────────────────────────


def address(config: Config, port: int | None = None) -> str:
    """Where clients find the gateway."""
    host = config.server.host
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared, not bound
    return f"http://{shown}:{config.server.port if port is None else port}"


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


def named_keys(config: Config, env: Mapping[str, str], own: Sequence[str]) -> tuple[NamedKey, ...]:
    """Read the keys of single clients; raises ConfigError for one that is missing or stands for two clients."""
    if config.keys and not own:
        raise ConfigError(
            f"`keys` needs the gateway's own key too, for the page and the inbox: set {config.server.key_env} "
            "(or `server.key_file`) to a long random text."
        )
    found: list[NamedKey] = []
    for name, settings in config.keys.items():
        value = key_file(settings.key_file) if settings.key_file else key_in(env, settings.key_env or "")
        if value is None:
            raise ConfigError(f"`keys.{name}.key_env` is {settings.key_env}, which is not set")
        if value in own or any(value == other.value for other in found):
            raise ConfigError(f"`keys.{name}` is the same key as another one: each client needs its own")
        found.append(NamedKey(name, value, settings.tools))
    return tuple(found)


# ── What is the user's ───────────────────────────────────────────────────────────────────────────


def user_folder(env: Mapping[str, str]) -> Path:
    """Where this user's settings, logins and trust are: never relative to the working directory."""
    base, home = _absolute(env.get("XDG_CONFIG_HOME")), _absolute(env.get("HOME"))
    if base is not None:
        return base / "tieline"
    return (home or Path(pwd.getpwuid(os.getuid()).pw_dir)) / ".config" / "tieline"


def state_folder(env: Mapping[str, str]) -> Path | None:
    """Where what the gateway writes down for its user is, if the environment tells."""
    base, home = _absolute(env.get("XDG_STATE_HOME")), _absolute(env.get("HOME"))
    if base is not None:
        return base / "tieline"
    return home / ".local" / "state" / "tieline" if home is not None else None


def _absolute(folder: str | None) -> Path | None:
    """A folder of the environment; one that is not absolute does not count, as the XDG specification demands."""
    return Path(folder) if folder and Path(folder).is_absolute() else None


def audit_log(env: Mapping[str, str]) -> Audit:
    """Where everything asked and decided is written down."""
    folder = state_folder(env)
    return Audit(None if folder is None else folder / "audit.jsonl", clock=time.time)


def mint_call() -> str:
    """An id for a call: short enough for every client, and nobody can guess it."""
    return "call_" + "".join(secrets.choice(_ALPHABET) for _ in range(_CALL_LENGTH))
