"""The configuration: one TOML file and the keys in the environment, checked before anything starts.

Everything here has a default. Without a file there is the demo model, and an upstream for each of ANTHROPIC_API_KEY and
OPENAI_API_KEY that is set. Which file is used is decided in `trust`.
"""

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from tieline.core.repair.repairs import RepairName
from tieline.model.content import Value
from tieline.model.rules import Rule
from tieline.net.client.http import Origin, check_header
from tieline.net.private_files import TooLargeError, read_stream
from tieline.tools.policy import check
from tieline.wire import anthropic, openai_chat

FILE_NAME = "tieline.toml"
DEFAULT_PORT = 18741
RESERVED = frozenset({"demo", "cursor", "acp"})
"""Names of backends that are not upstreams of the configuration."""

LIMIT = 256 << 10
"""Bytes of a configuration file."""
MOST_DOTS = 500
"""Dots in one line. The TOML parser takes cubic time for a key with many parts."""

Arguments = Literal["buffered", "incremental"]
Seconds = Annotated[float, Meta(gt=0, le=1e9)]
"""The upper bound rejects infinity; NaN fails every comparison."""
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Number = Annotated[int, Meta(ge=1, le=1_000_000)]
T = TypeVar("T")
Keyed = TypeVar("Keyed", "Server", "UpstreamSettings", "CursorSettings", "KeySettings")


class ConfigError(Exception):
    """The configuration cannot be used; says where and why."""

    def __init__(self, message: str, *, path: Path | None = None, line: int | None = None) -> None:
        place = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(place + message)


class Source(NamedTuple):
    """A configuration file and its bytes, read once: the bytes that were checked are the bytes that are used."""

    path: Path
    data: bytes


class Server(Value, forbid_unknown_fields=True):
    """Where the gateway listens and whom it lets in."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = DEFAULT_PORT
    key_env: str = "TIELINE_KEY"
    key_file: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body_mib: Number = 48
    keep_alive: Seconds = 15.0


class UpstreamSettings(Value, forbid_unknown_fields=True):
    """One upstream: where it is, its key, and how it differs from the others."""

    kind: Literal["anthropic", "openai"]
    base_url: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    headers: Mapping[str, str] = {}
    models: tuple[str, ...] = ()
    connect_timeout: Seconds = 10.0
    first_byte_timeout: Seconds = 300.0
    idle_timeout: Seconds = 120.0
    retries: Count = 2
    betas: bool | None = None
    repairs: tuple[RepairName, ...] = ()
    dialect: Mapping[str, Any] = {}


class CursorSettings(Value, forbid_unknown_fields=True):
    """The Cursor account: where the service is, how we present ourselves, how long we wait."""

    enabled: bool | None = None
    """None: if there is a login or a key."""
    api_url: str = "https://api2.cursor.sh"
    agent_url: str | None = None
    website_url: str = "https://cursor.com"
    transport: Literal["auto", "http2", "http1"] = "auto"
    key_env: str = "CURSOR_API_KEY"
    key_file: str | None = None
    import_login: bool = False
    client_type: str | None = None
    client_version: str | None = None
    ghost_mode: bool | None = None
    machine_id: str | None = None
    """With one, the checksum header is sent."""
    history: Literal["blobs", "text"] = "blobs"
    web: bool = True
    images: bool = True
    workspace: str | None = None
    models: tuple[str, ...] = ()
    connect_timeout: Seconds = 10.0
    first_byte_timeout: Seconds = 30.0
    idle_timeout: Seconds = 30.0
    stall_timeout: Seconds = 120.0


class Parking(Value, forbid_unknown_fields=True):
    """How long a run waits for a tool result, and how many may."""

    deadline: Seconds = 900.0
    limit: Number = 1024


class InboxSettings(Value, forbid_unknown_fields=True):
    """How long something waits for a person."""

    timeout: Seconds = 120.0


class ToolSettings(Value, forbid_unknown_fields=True):
    """The gateway's own tools: where they act, what they may do without asking, and what commands see of ours."""

    enabled: bool = False
    workspace: str | None = None
    """None: where the gateway was started."""
    yolo: bool = False
    rules: tuple[Rule, ...] = ()
    shell: str = "/bin/sh"
    environment: tuple[str, ...] = (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TERM",
        "TZ",
        "TMPDIR",
    )


class AgentSettings(Value, forbid_unknown_fields=True):
    """One coding agent: a command of the user's own, or what differs from a known one."""

    command: tuple[str, ...] = ()
    title: str = ""
    env: Mapping[str, str] = {}
    cwd: str = ""
    login: str = ""


class McpSettings(Value, forbid_unknown_fields=True):
    """An MCP server that a conversation with a coding agent can select: a program, or an address."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}


class AcpSettings(Value, forbid_unknown_fields=True):
    """Coding agents as models: where they work, what they see of ours, how long anybody waits for them."""

    enabled: bool = True
    workspace: str | None = None
    """None: where the gateway was started."""
    environment: tuple[str, ...] = ()
    """The variables agents get to see; none named: all but the gateway's own key."""
    client_tools: bool = True
    """Whether agents may call the tools of clients."""
    files: bool = False
    """Whether agents read and write files through the gateway, under the rules of `tools`."""
    terminals: bool = False
    """Whether agents run commands through the gateway, under the rules of `tools`."""
    keep_sessions: bool = True
    """Whether conversations are known again after a restart of the gateway."""
    processes: Number = 8
    start_timeout: Seconds = 60.0
    stall_timeout: Seconds = 600.0
    idle_timeout: Seconds = 900.0
    agents: Mapping[str, AgentSettings] = {}
    folders: Mapping[str, str] = {}
    """Other working folders that a conversation can select, by name."""
    mcp: Mapping[str, McpSettings] = {}
    """MCP servers that a conversation can select, by name."""


class WebSettings(Value, forbid_unknown_fields=True):
    """The web page."""

    enabled: bool = True
    traffic: Count = 500
    """How many requests are kept for somebody to look into."""


class ClientSettings(Value, forbid_unknown_fields=True):
    """How a kind of client wants its answers."""

    user_agent: str | None = None
    key_env: str | None = None
    arguments: Arguments | None = None
    reasoning: Literal["reasoning_content", "reasoning", "none"] | None = None
    activity: Literal["reasoning", "text", "hidden"] | None = None
    tools: bool | None = None
    """Whether its requests receive the gateway's own tools; None: what its named key says, otherwise no."""


class KeySettings(Value, forbid_unknown_fields=True):
    """A key for one client, and what the client may do with it."""

    key_env: str | None = None
    key_file: str | None = None
    tools: bool = False


class Config(Value, forbid_unknown_fields=True):
    """Everything a user can set."""

    server: Server = Server()
    default_model: str | None = None
    arguments: Arguments | None = None
    activity: Literal["reasoning", "text", "hidden"] | None = None
    demo: bool = True
    log: Literal["debug", "info", "warning", "error"] = "warning"
    aliases: Mapping[str, str] = {}
    cursor: CursorSettings = CursorSettings()
    parking: Parking = Parking()
    inbox: InboxSettings = InboxSettings()
    tools: ToolSettings = ToolSettings()
    acp: AcpSettings = AcpSettings()
    web: WebSettings = WebSettings()
    upstreams: Mapping[str, UpstreamSettings] = {}
    clients: Mapping[str, ClientSettings] = {}
    keys: Mapping[str, KeySettings] = {}


def read(path: Path) -> Source:
    """Read a file that the user named. It may also be a device or a pipe, such as /dev/null."""
    try:
        return Source(path, read_stream(path, LIMIT))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=path) from error
    except TooLargeError as error:
        raise ConfigError(f"cannot be used: {error}", path=path) from error


def load(source: Source | None, env: Mapping[str, str]) -> Config:
    """The configuration of a file, with the upstreams that the environment alone gives."""
    config = Config() if source is None else _parsed(source)
    upstreams = {**_upstreams_of(env, config), **config.upstreams}
    return msgspec.structs.replace(config, upstreams=upstreams)


DEFAULT_URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
KEY_NAMES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def _upstreams_of(env: Mapping[str, str], config: Config) -> dict[str, UpstreamSettings]:
    kinds: tuple[Literal["anthropic", "openai"], ...] = ("anthropic", "openai")
    return {
        kind: UpstreamSettings(kind=kind, key_env=KEY_NAMES[kind])
        for kind in kinds
        if env.get(KEY_NAMES[kind]) and kind not in config.upstreams
    }


def table_of(source: Source) -> dict[str, Any]:
    """The TOML table of a file; raise ConfigError for what is not TOML."""
    path = source.path
    try:
        text = source.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError("is not UTF-8", path=path) from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.count(".") > MOST_DOTS:
            raise ConfigError(f"a line has more than {MOST_DOTS} dots", path=path, line=number)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, place = _syntax(str(error))
        raise ConfigError(message, path=path, line=place) from error
    except RecursionError as error:
        raise ConfigError("not valid TOML: it is nested too deeply", path=path) from error


def _parsed(source: Source) -> Config:
    table, path = table_of(source), source.path
    text = source.data.decode("utf-8")
    try:
        config = _converted(table)
    except _Misfit as error:
        raise ConfigError(error.message, path=path, line=line_of(text, error.place)) from error
    for place, message in _mistakes(config):
        raise ConfigError(message, path=path, line=line_of(text, place))
    return _anchored(config, path.parent)


def _anchored(config: Config, folder: Path) -> Config:
    """Resolve key files against the folder of the configuration: never against the folder we happen to be in."""

    def anchored(settings: Keyed) -> Keyed:
        if settings.key_file is None or settings.key_file.startswith("~"):
            return settings
        return msgspec.structs.replace(settings, key_file=str(folder / settings.key_file))

    return msgspec.structs.replace(
        config,
        server=anchored(config.server),
        cursor=anchored(config.cursor),
        upstreams={name: anchored(upstream) for name, upstream in config.upstreams.items()},
        keys={name: anchored(key) for name, key in config.keys.items()},
    )


class _Misfit(Exception):
    """A value that does not fit its setting."""

    def __init__(self, complaint: str, within: str) -> None:
        self.message, self.place = _complaint(complaint, within)


def _converted(table: dict[str, Any]) -> Config:
    """The settings of a table; named tables are converted one by one, since a complaint does not say the name."""
    tables = ("upstreams", "clients", "keys")
    named = {name: table.pop(name) for name in tables if isinstance(table.get(name), dict)}
    config = _fit(table, Config, "")
    return msgspec.structs.replace(
        config,
        upstreams={
            name: _fit(t, UpstreamSettings, f"upstreams.{name}") for name, t in named.get("upstreams", {}).items()
        },
        clients={name: _fit(t, ClientSettings, f"clients.{name}") for name, t in named.get("clients", {}).items()},
        keys={name: _fit(t, KeySettings, f"keys.{name}") for name, t in named.get("keys", {}).items()},
    )


def _fit(table: Any, kind: type[T], within: str) -> T:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise _Misfit(str(error), within) from error


def _mistakes(config: Config) -> list[tuple[str, str]]:
    """What types cannot say: the place and the complaint of everything that is wrong."""
    wrong: list[tuple[str, str]] = []
    for name, upstream in config.upstreams.items():
        place = f"upstreams.{name}"
        if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name) or name in RESERVED:
            wrong.append((place, f"`{name}` cannot name an upstream: use small letters, digits, `.`, `_`, `-`"))
        try:
            Origin.parse(upstream.base_url or DEFAULT_URLS[upstream.kind])
        except ValueError as error:
            wrong.append((f"{place}.base_url", f"`{place}.base_url`: {error}"))
        wrong += _dialect_mistakes(place, upstream)
        wrong += _header_mistakes(place, upstream)
    wrong += _cursor_mistakes(config.cursor)
    wrong += _tool_mistakes(config)
    wrong += _key_mistakes(config)
    names = {*config.upstreams, *KEY_NAMES, *RESERVED}
    targets = [(f"aliases.{alias}", target) for alias, target in config.aliases.items()]
    if config.default_model is not None:
        targets.append(("default_model", config.default_model))
    for place, target in targets:
        backend, slash, _ = target.partition("/")
        if not slash or backend not in names:
            wrong.append((place, f"`{place}` is `{target}`: it must be `<upstream>/<model>`, and exist"))
    return wrong


def _header_mistakes(place: str, upstream: UpstreamSettings) -> list[tuple[str, str]]:
    """Headers that cannot be sent. Values are not repeated: they may be secrets."""
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


def _tool_mistakes(config: Config) -> list[tuple[str, str]]:
    wrong: list[tuple[str, str]] = []
    try:
        check(config.tools.rules)
    except ValueError as error:
        wrong.append(("tools.rules", f"`tools.rules`: {error}"))
    for name in sorted(key_variables(config) & set(config.tools.environment)):
        message = f"`tools.environment` holds {name}: a command that has the key can allow itself all"
        wrong.append(("tools.environment", message))
    return wrong


def key_variables(config: Config) -> frozenset[str]:
    """The environment variables that hold keys of the gateway; no command or agent gets to see them."""
    named = (key.key_env for key in config.keys.values())
    return frozenset((config.server.key_env, *(name for name in named if name is not None)))


def _key_mistakes(config: Config) -> list[tuple[str, str]]:
    return [
        (f"keys.{name}", f"`keys.{name}` needs `key_env` or `key_file`, and only one of them")
        for name, key in config.keys.items()
        if (key.key_env is None) == (key.key_file is None)
    ]


def _dialect_mistakes(place: str, upstream: UpstreamSettings) -> list[tuple[str, str]]:
    known = anthropic.Dialect if upstream.kind == "anthropic" else openai_chat.Dialect
    fields = known.__struct_fields__
    for key in upstream.dialect:
        if key not in fields:
            return [(f"{place}.dialect.{key}", f"`{place}.dialect.{key}` is unknown{_closest(key, fields)}")]
    try:
        msgspec.convert(upstream.dialect, known)
    except msgspec.ValidationError as error:
        message, field = _complaint(str(error))
        return [(f"{place}.dialect.{field}", f"{place}.dialect: {message}")]
    return []


def _syntax(message: str) -> tuple[str, int | None]:
    found = re.search(r"\(at line (\d+), column \d+\)", message)
    return f"not valid TOML: {message}", int(found[1]) if found else None


def _complaint(message: str, within: str = "") -> tuple[str, str]:
    """msgspec's words in ours, and the dotted path of the field."""
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
        "server": Server,
        "cursor": CursorSettings,
        "parking": Parking,
        "inbox": InboxSettings,
        "tools": ToolSettings,
        "web": WebSettings,
        "acp": AcpSettings,
        "upstreams": UpstreamSettings,
        "clients": ClientSettings,
        "keys": KeySettings,
    }
    return (tables[top] if "." in place and top in tables else Config).__struct_fields__


def _closest(key: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(key, known, n=1)
    return f": do you mean `{close[0]}`?" if close else f": the settings here are {', '.join(known)}"


def line_of(text: str, place: str) -> int | None:
    """The line of a TOML text where a dotted path is set, or the closest one above it."""
    *tables, key = place.split(".")
    found: int | None = None
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+([^\]]+)\]+", line)
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
