"""Reads keys from files and environment variables: keys for upstreams, and keys that clients must send."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tieline.app.config import Config, ConfigError, CursorSettings
from tieline.app.keys.rules import named_key
from tieline.frontends.guard import is_loopback
from tieline.frontends.keys import NamedKey
from tieline.net.private_files import read_file

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
    """Return the gateway's own keys.

    Raise ConfigError if a key is not valid, or if there are none but other machines can reach the gateway.
    """
    server = config.server
    keys = [key_from_file(server.key_file)] if server.key_file else []
    from_env = key_from_env(env, server.key_env)
    if from_env is not None:
        keys.append(from_env)
    if not keys and not is_loopback(server.host):
        raise ConfigError(
            f"`server.host` is {server.host}, so other machines can reach the gateway, but it has no key. "
            f"Set {server.key_env} (or `server.key_file`) to a long random string and give it to your clients."
        )
    return keys


def named_keys(config: Config, env: Mapping[str, str], own: Sequence[str]) -> tuple[NamedKey, ...]:
    """Return the keys of individual clients. Raise ConfigError for a key that is missing or used twice.

    `own` holds the gateway's own keys. It must not be empty if any client has a key.
    """
    if config.keys and not own:
        raise ConfigError(
            f"`keys` also needs the gateway's own key, for the page and the inbox: set {config.server.key_env} "
            "(or `server.key_file`) to a long random string."
        )
    found: list[NamedKey] = []
    for name, settings in config.keys.items():
        value = key_from_file(settings.key_file) if settings.key_file else key_from_env(env, settings.key_env or "")
        if value is None:
            raise ConfigError(f"`keys.{name}.key_env` is {settings.key_env}, but this variable is not set")
        if value in own or any(value == other.value for other in found):
            raise ConfigError(f"`keys.{name}` is the same key as another one: give each client its own")
        found.append(named_key(name, settings, value))
    return tuple(found)


def check_key(key: str, place: str) -> str:
    """Return the key. Raise ConfigError if an HTTP header cannot carry it. `place` says where the key comes from."""
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{place} does not contain a valid key: it has characters that an HTTP header cannot carry")
    return key
