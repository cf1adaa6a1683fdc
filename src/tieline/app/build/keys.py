"""Reads keys from files and environment variables: keys for upstreams, and keys that clients must send."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

from tieline.app.config import Config, ConfigError, CursorSettings, KeySettings
from tieline.core.legs.access import ModelAccess
from tieline.core.usage.limits import NANO, KeyLimits
from tieline.frontends.guard import is_loopback
from tieline.frontends.keys import ALL_PATHS, MODEL_PATHS, PAGE_PATHS, NamedKey
from tieline.net.private_files import read_file

AGENTS = "acp"
"""The name of the backend for coding agents."""
KEY_LIMIT = 64 << 10
"""Maximum size of a key file, in bytes."""


def key_from_env(env: Mapping[str, str], name: str) -> str | None:
    """Return the key in an environment variable, if it is set. Raise ConfigError if it is not a valid key."""
    key = env.get(name, "").strip()
    return check_key(key, name) if key else None


def key_from_file(file: str) -> str:
    """Return the key in a file. Raise ConfigError if the file cannot be read or contains no valid key."""
    try:
        key = read_file(Path(file).expanduser(), KEY_LIMIT).decode("utf-8").strip()
    except (OSError, ValueError, RuntimeError) as error:  # expanduser raises RuntimeError without a home directory
        raise ConfigError(f"the key file {file} cannot be read: {error}") from error
    if not key:
        raise ConfigError(f"the key file {file} is empty")
    return check_key(key, f"the key file {file}")


def cursor_key(settings: CursorSettings, env: Mapping[str, str]) -> str | None:
    """Return the API key of the Cursor account, if one is configured."""
    return key_from_file(settings.key_file) if settings.key_file else key_from_env(env, settings.key_env)


def client_keys(config: Config, env: Mapping[str, str]) -> list[str]:
    """Return the gateway's own keys. Raise ConfigError if there are none but other machines can reach the gateway."""
    server = config.server
    keys = [key_from_file(server.key_file)] if server.key_file else []
    if env.get(server.key_env):
        keys.append(env[server.key_env])
    if not keys and not is_loopback(server.host):
        raise ConfigError(
            f"`server.host` is {server.host}, so other machines can reach the gateway, but it has no key. "
            f"Set {server.key_env} (or `server.key_file`) to a long random text and give it to your clients."
        )
    return keys


def named_keys(config: Config, env: Mapping[str, str], own: Sequence[str]) -> tuple[NamedKey, ...]:
    """Return the keys of individual clients. Raise ConfigError for a key that is missing or used twice.

    `own` holds the gateway's own keys. It must not be empty if any client has a key.
    """
    if config.keys and not own:
        raise ConfigError(
            f"`keys` also needs the gateway's own key, for the page and the inbox: set {config.server.key_env} "
            "(or `server.key_file`) to a long random text."
        )
    found: list[NamedKey] = []
    for name, settings in config.keys.items():
        value = key_from_file(settings.key_file) if settings.key_file else key_from_env(env, settings.key_env or "")
        if value is None:
            raise ConfigError(f"`keys.{name}.key_env` is {settings.key_env}, but this variable is not set")
        if value in own or any(value == other.value for other in found):
            raise ConfigError(f"`keys.{name}` is the same key as another one: give each client its own")
        found.append(
            NamedKey(
                name,
                value,
                tools=settings.tools,
                access=model_access(settings.models, agents=settings.agents),
                paths=key_paths(settings.paths, page=settings.page, admin=settings.admin),
                limits=key_limits(settings),
                is_admin=settings.admin,
                expires=None if settings.expires is None else end_of(settings.expires),
            )
        )
    return tuple(found)


def key_paths(paths: Sequence[str], *, page: bool, admin: bool) -> tuple[str, ...]:
    """Return the prefixes of the paths for which a key is valid. `paths` are those of model APIs; empty for all."""
    if admin:
        return ALL_PATHS
    return (*(paths or MODEL_PATHS), *(PAGE_PATHS if page else ()))


def key_limits(settings: KeySettings) -> KeyLimits:
    """Return the limits of a key."""
    return KeyLimits(
        requests_per_minute=settings.requests_per_minute,
        tokens_per_minute=settings.tokens_per_minute,
        tokens_per_day=settings.tokens_per_day,
        tokens_per_month=settings.tokens_per_month,
        cost_per_day=_nano(settings.cost_per_day),
        cost_per_month=_nano(settings.cost_per_month),
    )


def end_of(day: date) -> float:
    """Return the Unix time at which a day (UTC) ends."""
    return datetime.combine(day, time.min, UTC).timestamp() + timedelta(days=1).total_seconds()


def _nano(dollars: float | None) -> int | None:
    return None if dollars is None else round(dollars * NANO)


def model_access(patterns: Sequence[str], *, agents: bool) -> ModelAccess | None:
    """Return the models that a key may use: those that match `patterns`, and agents only if `agents` is true.

    Return None if the key may use all models.
    """
    if not patterns and agents:
        return None
    return ModelAccess(tuple(patterns), () if agents else (AGENTS,))


def check_key(key: str, place: str) -> str:
    """Return the key. Raise ConfigError if an HTTP header cannot carry it. `place` says where the key comes from."""
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{place} does not contain a valid key: it has characters that an HTTP header cannot carry")
    return key
