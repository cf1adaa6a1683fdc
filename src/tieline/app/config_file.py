"""Reads and checks the configuration file. Errors name the line and the setting where possible.

The module `trust` decides which file is used.
"""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from tieline.app.config import (
    BUILT_IN,
    DEFAULT_URLS,
    KEY_NAMES,
    RESERVED,
    AcpSettings,
    ClientSettings,
    ClusterSettings,
    Config,
    ConfigError,
    CursorSettings,
    InboxSettings,
    KeySettings,
    ModelSettings,
    ParkingSettings,
    PriceSettings,
    ResponsesSettings,
    ServerSettings,
    StoreSettings,
    ToolSettings,
    UpstreamSettings,
    UsageSettings,
    WebSettings,
    WorkspaceSettings,
    key_variables,
)
from tieline.frontends.keys import MODEL_PATHS, RESERVED_NAMES
from tieline.model.rules import Rule
from tieline.net.client.http import Origin, check_header
from tieline.net.private_files import TooLargeError, read_stream
from tieline.tools.policy import check_rules
from tieline.wire import anthropic, openai_chat, openai_responses

LIMIT = 256 << 10
"""Maximum size of a configuration file, in bytes."""
MOST_DOTS = 500
"""Maximum number of dots in a line. It is limited because the TOML parser takes cubic time for dotted keys."""

_DIALECTS: Mapping[str, tuple[type[msgspec.Struct], ...]] = {
    "anthropic": (anthropic.Dialect,),
    "chat": (openai_chat.Dialect,),
    "responses": (openai_responses.Dialect,),
    "auto": (openai_chat.Dialect, openai_responses.Dialect),
}
"""The dialects that the settings of an upstream are checked against, by the upstream's API."""

T = TypeVar("T")
Keyed = TypeVar("Keyed", ServerSettings, UpstreamSettings, CursorSettings, KeySettings)


class ConfigFile(NamedTuple):
    """A configuration file and its content. The file is read once, so it cannot change after the trust check."""

    path: Path
    data: bytes


def read_config_file(path: Path) -> ConfigFile:
    """Read a configuration file that the user named. It may also be a device or a pipe, such as /dev/null."""
    try:
        return ConfigFile(path, read_stream(path, LIMIT))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=path) from error
    except TooLargeError as error:
        raise ConfigError(f"cannot be used: {error}", path=path) from error


def load_config(source: ConfigFile | None, env: Mapping[str, str]) -> Config:
    """Return the settings in `source`, or the defaults if it is None. Add upstreams for the API keys in `env`."""
    config = Config() if source is None else _parse(source)
    upstreams = {**_upstreams_of(env, config), **config.upstreams}
    return msgspec.structs.replace(config, upstreams=upstreams)


def _upstreams_of(env: Mapping[str, str], config: Config) -> dict[str, UpstreamSettings]:
    kinds: tuple[Literal["anthropic", "openai"], ...] = ("anthropic", "openai")
    return {
        kind: UpstreamSettings(kind=kind, key_env=KEY_NAMES[kind])
        for kind in kinds
        if env.get(KEY_NAMES[kind]) and kind not in config.upstreams
    }


def parse_toml(source: ConfigFile) -> dict[str, Any]:
    """Parse the TOML of a file. Raise ConfigError if it is not valid TOML."""
    path = source.path
    try:
        text = source.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("not valid UTF-8", path=path) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS:
            raise ConfigError(f"this line has more than {MOST_DOTS} dots", path=path, line=number)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        error_line = int(found[1]) if found else None
        raise ConfigError(f"not valid TOML: {error}", path=path, line=error_line) from error
    except RecursionError as error:
        raise ConfigError("not valid TOML: nested too deeply", path=path) from error


def _parse(source: ConfigFile) -> Config:
    table, path = parse_toml(source), source.path
    text = source.data.decode("utf-8")
    try:
        config = _convert(table)
    except _InvalidSetting as error:
        raise ConfigError(error.message, path=path, line=line_of(text, error.place)) from error
    for place, message in _mistakes(config):
        raise ConfigError(message, path=path, line=line_of(text, place))
    return _resolve_paths(config, path.parent)


def _resolve_paths(config: Config, folder: Path) -> Config:
    """Resolve relative paths of key files and workspaces against the folder of the configuration file."""

    def resolved(settings: Keyed) -> Keyed:
        if settings.key_file is None or settings.key_file.startswith("~"):
            return settings
        return msgspec.structs.replace(settings, key_file=str(folder / settings.key_file))

    def placed(settings: WorkspaceSettings) -> WorkspaceSettings:
        if settings.path.startswith("~"):
            return settings
        return msgspec.structs.replace(settings, path=str(folder / settings.path))

    return msgspec.structs.replace(
        config,
        workspaces={name: placed(workspace) for name, workspace in config.workspaces.items()},
        server=resolved(config.server),
        cluster=_with_secret_file(config.cluster, folder),
        cursor=resolved(config.cursor),
        upstreams={name: resolved(upstream) for name, upstream in config.upstreams.items()},
        keys={name: resolved(key) for name, key in config.keys.items()},
    )


def _with_secret_file(settings: ClusterSettings, folder: Path) -> ClusterSettings:
    if settings.secret_file is None or settings.secret_file.startswith("~"):
        return settings
    return msgspec.structs.replace(settings, secret_file=str(folder / settings.secret_file))


class _InvalidSetting(Exception):
    """msgspec rejected a setting: its name is unknown, or its value is invalid."""

    def __init__(self, message: str, within: str) -> None:
        self.message, self.place = _explain(message, within)


def _convert(table: dict[str, Any]) -> Config:
    """Convert a parsed TOML file into settings.

    Tables whose names are chosen by the user are converted one by one, because msgspec's errors do not contain the
    names.
    """
    tables = ("upstreams", "clients", "keys", "models", "prices", "workspaces")
    named = {name: table.pop(name) for name in tables if isinstance(table.get(name), dict)}
    config = _convert_table(table, Config, "")

    def each(group: str, kind: type[T]) -> dict[str, T]:
        return {name: _convert_table(one, kind, f"{group}.{name}") for name, one in named.get(group, {}).items()}

    return msgspec.structs.replace(
        config,
        upstreams=each("upstreams", UpstreamSettings),
        clients=each("clients", ClientSettings),
        keys=each("keys", KeySettings),
        models=each("models", ModelSettings),
        workspaces=each("workspaces", WorkspaceSettings),
        prices=each("prices", PriceSettings),
    )


def _convert_table(table: Any, kind: type[T], within: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise _InvalidSetting(str(error), within) from error


def _mistakes(config: Config) -> list[tuple[str, str]]:
    """Check rules that types cannot express. Return the dotted path and an error message for each invalid setting."""
    wrong: list[tuple[str, str]] = []
    for name, upstream in config.upstreams.items():
        wrong += upstream_mistakes(name, upstream)
    wrong += _cursor_mistakes(config.cursor)
    wrong += _tool_mistakes(config)
    wrong += _key_mistakes(config)
    wrong += _model_mistakes(config)
    wrong += _store_mistakes(config.store)
    wrong += _target_mistakes(config)
    wrong += _workspace_mistakes(config)
    wrong += _cluster_mistakes(config.cluster)
    return wrong


def upstream_mistakes(name: str, upstream: UpstreamSettings) -> list[tuple[str, str]]:
    """Check the name and the settings of one upstream. Return the dotted path and a message for each mistake."""
    wrong: list[tuple[str, str]] = []
    place = f"upstreams.{name}"
    if name in RESERVED:
        wrong.append((place, f"`{name}` is reserved: choose another name for this upstream"))
    elif not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        wrong.append((place, f"`{name}` cannot name an upstream: use lower-case letters, digits, `.`, `_`, `-`"))
    try:
        Origin.parse(upstream.base_url or DEFAULT_URLS[upstream.kind])
    except ValueError as error:
        wrong.append((f"{place}.base_url", f"`{place}.base_url`: {error}"))
    if upstream.api is not None and upstream.kind != "openai":
        wrong.append((f"{place}.api", f'`{place}.api` is only for upstreams of the kind "openai"'))
    if upstream.stateful and upstream.api not in ("responses", "auto"):
        wrong.append((f"{place}.stateful", f'`{place}.stateful` needs `api = "responses"` or `api = "auto"`'))
    return [*wrong, *_dialect_mistakes(place, upstream), *_header_mistakes(place, upstream)]


def _target_mistakes(config: Config) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    names = {*config.upstreams, *KEY_NAMES, *BUILT_IN}
    targets = [(f"aliases.{alias}", target) for alias, target in config.aliases.items()]
    if config.default_model is not None:
        targets.append(("default_model", config.default_model))
    for place, target in targets:
        backend, slash, _ = target.partition("/")
        if not slash:
            wrong.append((place, f"`{place}` is `{target}`: expected `<upstream>/<model>`"))
        elif backend not in names:
            known = ", ".join(sorted(names))
            wrong.append((place, f"`{place}` is `{target}`: there is no upstream `{backend}`, only {known}"))
    return wrong


def _header_mistakes(place: str, upstream: UpstreamSettings) -> list[tuple[str, str]]:
    """Check that the configured headers can be sent. Error messages omit their values, which may be secrets."""
    wrong: list[tuple[str, str]] = []
    for field, value in upstream.headers.items():
        where = f"{place}.headers.{field}"
        try:
            check_header(field, value)
        except ValueError as error:
            wrong.append((where, f"`{where}`: {error}"))
    return wrong


def _cursor_mistakes(settings: CursorSettings) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    for field in ("api_url", "agent_url", "website_url"):
        url = getattr(settings, field)
        try:
            Origin.parse(url or settings.api_url)
        except ValueError as error:
            wrong.append((f"cursor.{field}", f"`cursor.{field}`: {error}"))
    return wrong


def _cluster_mistakes(settings: ClusterSettings) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    if settings.listen is not None:
        host, _, port = settings.listen.rpartition(":")
        if not host or not (port.isascii() and port.isdecimal() and int(port) < 65536):
            wrong.append(("cluster.listen", f"`cluster.listen` is `{settings.listen}`: expected `host:port`"))
    try:
        Origin.parse(settings.url or "http://localhost")
    except ValueError as error:
        wrong.append(("cluster.url", f"`cluster.url`: {error}"))
    if settings.dead_seconds < 2 * settings.heartbeat_seconds:
        message = f"`cluster.dead_seconds` is {settings.dead_seconds:g}: expected at least twice `heartbeat_seconds`"
        wrong.append(("cluster.dead_seconds", message))
    return wrong


def _tool_mistakes(config: Config) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    try:
        check_rules(config.tools.rules)
    except ValueError as error:
        wrong.append(("tools.rules", f"`tools.rules`: {error}"))
    for name in sorted(key_variables(config) & set(config.tools.environment)):
        message = f"`tools.environment` must not contain {name}: with this key a command could approve its own calls"
        wrong.append(("tools.environment", message))
    return wrong


def _key_mistakes(config: Config) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    for name, key in config.keys.items():
        if name in RESERVED_NAMES:
            wrong.append((f"keys.{name}", f"`keys.{name}`: this name is reserved, choose another one"))
        if (key.key_env is None) == (key.key_file is None):
            wrong.append((f"keys.{name}", f"`keys.{name}` needs `key_env` or `key_file`, and only one of them"))
        for path in key.paths:
            if not path.startswith(MODEL_PATHS):
                expected = ", ".join(MODEL_PATHS)
                message = f"`keys.{name}.paths`: `{path}` must begin with one of {expected} (named keys are for models)"
                wrong.append((f"keys.{name}.paths", message))
    return wrong


def _model_mistakes(config: Config) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    for name, model in config.models.items():
        if model.context is not None and model.max_output is not None and model.max_output > model.context:
            place = f"models.{name}.max_output"
            wrong.append((place, f"`{place}` is {model.max_output}: expected at most its `context`, {model.context}"))
    return wrong


def _workspace_mistakes(config: Config) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    for name, workspace in config.workspaces.items():
        place = f"workspaces.{name}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", name):
            message = f"`{name}` cannot name a workspace: use at most 64 lower-case letters, digits, `.`, `_`, `-`"
            wrong.append((place, message))
        if not workspace.path.strip():
            wrong.append((f"{place}.path", f"`{place}.path` is empty: expected the path of a folder"))
    return wrong


def _store_mistakes(settings: StoreSettings) -> list[tuple[str, str]]:
    """Check the URL of the database. Error messages omit it, because it may contain a password."""
    if settings.url is None:
        return []
    if settings.url_env is not None:
        return [("store.url_env", "`store` has `url` and `url_env`: expected only one of them")]
    if not settings.url.startswith(("postgresql://", "postgres://")):
        return [("store.url", "`store.url`: expected postgresql://user@host/database")]
    return []


def _dialect_mistakes(place: str, upstream: UpstreamSettings) -> list[tuple[str, str]]:
    known = _DIALECTS["anthropic" if upstream.kind == "anthropic" else upstream.api or "chat"]
    fields = tuple(dict.fromkeys(field for dialect in known for field in dialect.__struct_fields__))
    for key in upstream.dialect:
        if key not in fields:
            return [(f"{place}.dialect.{key}", f"`{place}.dialect.{key}` is unknown{_closest(key, fields)}")]
    try:
        for dialect in known:
            msgspec.convert(upstream.dialect, dialect)
    except msgspec.ValidationError as error:
        message, field = _explain(str(error))
        return [(f"{place}.dialect.{field}", f"{place}.dialect: {message}")]
    return []


def _explain(message: str, within: str = "") -> tuple[str, str]:
    """Translate a msgspec error into a message for the user. Return the message and the dotted path of the setting.

    `within` is the dotted path of the table that was converted.
    """
    complaint, _, path = message.partition(" - at `")
    place = within + re.sub(r"\[[^\]]*\]", "", path.removesuffix("`").removeprefix("$"))
    place = place.removeprefix(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", complaint)
    if unknown:
        place = f"{place}.{unknown[1]}".removeprefix(".")
        return f"`{place}` is not a setting{_closest(unknown[1], _settings(place))}", place
    return f"`{place}`: {complaint[:1].lower()}{complaint[1:]}", place


def _settings(place: str) -> tuple[str, ...]:
    if place.startswith("tools.rules."):
        return Rule.__struct_fields__
    top = place.partition(".")[0]
    tables: dict[str, type[msgspec.Struct]] = {
        "server": ServerSettings,
        "cursor": CursorSettings,
        "parking": ParkingSettings,
        "inbox": InboxSettings,
        "tools": ToolSettings,
        "responses": ResponsesSettings,
        "store": StoreSettings,
        "web": WebSettings,
        "cluster": ClusterSettings,
        "acp": AcpSettings,
        "upstreams": UpstreamSettings,
        "clients": ClientSettings,
        "keys": KeySettings,
        "models": ModelSettings,
        "workspaces": WorkspaceSettings,
        "prices": PriceSettings,
        "usage": UsageSettings,
    }
    return (tables[top] if "." in place and top in tables else Config).__struct_fields__


def _closest(key: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(key, known, n=1)
    return f": do you mean `{close[0]}`?" if close else f": the settings here are {', '.join(known)}"


def line_of(text: str, place: str) -> int | None:
    """Return the number of the line that sets the dotted path `place`, or else the line where its table begins.

    Return None if neither is found.
    """
    *tables, key = place.split(".")
    found: int | None = None
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+(.+?)\]+\s*(?:#.*)?$", line)
        if header:
            table = [_unquoted(piece) for piece in header[1].split(".")]
            if table in ([*tables, key], tables):
                found = number
            continue
        name = re.match(r"\s*([\w.\"'*/-]+)\s*=", line)
        if name and [*table, *map(_unquoted, name[1].split("."))] == [*tables, key]:
            return number
        if name and tables and [*table, _unquoted(name[1])] == tables:
            found = number
    return found


def _unquoted(piece: str) -> str:
    return piece.strip().strip("\"'")
