"""The settings of the gateway. All have defaults. The module `config_file` reads them from a TOML file.

Without a file, the gateway offers the demo model. If ANTHROPIC_API_KEY or OPENAI_API_KEY is set, it also offers the
upstream to which the key belongs.
"""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from tieline.core.repair.repairs import RepairName
from tieline.model.content import Value
from tieline.model.ports import Input, ModelFacts
from tieline.model.request import Effort
from tieline.model.rules import Rule
from tieline.model.workspaces import Autonomy

FILE_NAME = "tieline.toml"
DEFAULT_PORT = 18741
BUILT_IN = frozenset({"demo", "cursor", "acp"})
"""Names of built-in backends."""
RESERVED = BUILT_IN | {"tools"}
"""Names that no upstream may have. `tools` stands for the gateway's own tools in lists of backends."""
DEFAULT_URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
KEY_NAMES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}

Arguments = Literal["buffered", "incremental"]
Seconds = Annotated[float, Meta(gt=0, le=1e9)]
"""A positive number of seconds. The upper bound rejects infinity. NaN is rejected because it fails every comparison."""
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Number = Annotated[int, Meta(ge=1, le=1_000_000)]
TokenCount = Annotated[int, Meta(ge=1, le=1_000_000_000)]
BudgetTokens = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]
Money = Annotated[float, Meta(ge=0, le=1_000_000)]
"""An amount of money, in dollars."""


class ConfigError(Exception):
    """The configuration cannot be used. The message says where and why."""

    def __init__(self, message: str, *, path: Path | None = None, line: int | None = None) -> None:
        place = "" if path is None else f"{path}:{line}: " if line else f"{path}: "
        super().__init__(place + message)


class ServerSettings(Value, forbid_unknown_fields=True):
    """`[server]`: where the gateway listens and which clients it accepts."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = DEFAULT_PORT
    key_env: str = "TIELINE_KEY"
    key_file: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body_mib: Number = 48
    keep_alive: Seconds = 15.0

    @property
    def key_expression(self) -> str:
        """A shell expression whose value is the key that clients must send."""
        if self.key_file is None:
            return f"${self.key_env}"
        quoted = self.key_file.replace("'", "'\\''")
        return f"$(cat '{quoted}')"


class UpstreamSettings(Value, forbid_unknown_fields=True):
    """`[upstreams.NAME]`: the address of a model API, its key, and its differences from the standard protocol."""

    kind: Literal["anthropic", "openai"]
    api: Literal["chat", "responses", "auto"] | None = None
    """The API of an OpenAI-like upstream; None means `chat`.

    With `auto`, clients of the Responses API use `responses`, and all other clients use `chat`.
    """
    base_url: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    headers: Mapping[str, str] = {}
    models: tuple[str, ...] = ()
    connect_timeout: Seconds = 10.0
    first_byte_timeout: Seconds = 300.0
    idle_timeout: Seconds = 120.0
    retries: Count = 2
    stateful: bool = False
    """Whether the upstream's Responses API may store responses that the client allows to be stored."""
    betas: bool | None = None
    repairs: tuple[RepairName, ...] = ()
    dialect: Mapping[str, Any] = {}


class CursorSettings(Value, forbid_unknown_fields=True):
    """`[cursor]`: the address of Cursor's service, the client identity to present, and timeouts."""

    enabled: bool | None = None
    """Whether the Cursor backend is enabled. If None, it is enabled if there is a login or a key."""
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
    """If set, requests to Cursor carry a checksum header that is computed from this id."""
    history: Literal["blobs", "text"] = "blobs"
    web: bool = True
    images: bool = True
    workspace: str | None = None
    models: tuple[str, ...] = ()
    connect_timeout: Seconds = 10.0
    first_byte_timeout: Seconds = 30.0
    idle_timeout: Seconds = 30.0
    stall_timeout: Seconds = 120.0


class ParkingSettings(Value, forbid_unknown_fields=True):
    """`[parking]`: how long a run waits for a tool result, and how many runs may wait at the same time."""

    deadline: Seconds = 900.0
    limit: Number = 1024


class InboxSettings(Value, forbid_unknown_fields=True):
    """`[inbox]`: how long an inbox item waits for an answer."""

    timeout: Seconds = 120.0


class ToolSettings(Value, forbid_unknown_fields=True):
    """`[tools]`: the gateway's own tools, their workspace and rules, and the environment for commands."""

    enabled: bool = False
    workspace: str | None = None
    """The folder in which the tools work. If None, it is the working directory."""
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
    """`[acp.agents.NAME]`: an additional coding agent, or changed settings for a known agent."""

    command: tuple[str, ...] = ()
    title: str = ""
    env: Mapping[str, str] = {}
    cwd: str = ""
    login: str = ""


class McpSettings(Value, forbid_unknown_fields=True):
    """`[acp.mcp.NAME]`: an MCP server (a command or a URL) that a conversation with a coding agent can select."""

    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}


class AcpSettings(Value, forbid_unknown_fields=True):
    """`[acp]`: coding agents that are offered as models, with their folders, permissions, environment and timeouts."""

    enabled: bool = True
    workspace: str | None = None
    """The folder in which agents work. If None, it is the working directory of the gateway."""
    environment: tuple[str, ...] = ()
    """Names of the environment variables that agents receive. If empty, they receive all except the gateway's keys."""
    client_tools: bool = True
    """Whether agents may call the tools that clients offer in their requests."""
    files: bool = False
    """Whether agents read and write files through the gateway. The rules for the gateway's own tools then apply."""
    terminals: bool = False
    """Whether agents run commands through the gateway. The rules for the gateway's own tools then apply."""
    keep_sessions: bool = True
    """Whether conversations can be continued after a restart of the gateway."""
    processes: Number = 8
    start_timeout: Seconds = 60.0
    stall_timeout: Seconds = 600.0
    idle_timeout: Seconds = 900.0
    agents: Mapping[str, AgentSettings] = {}
    folders: Mapping[str, str] = {}
    """Folders, by name, that a conversation can select instead of `workspace`."""
    mcp: Mapping[str, McpSettings] = {}
    """MCP servers that a conversation can select, by name."""


class ResponsesSettings(Value, forbid_unknown_fields=True):
    """`[responses]`: the stored responses and conversations of the Responses API."""

    store: bool = True
    """Whether responses are stored. If true, a response is stored unless the client sets `store` to false."""
    keep_days: Annotated[float, Meta(gt=0, le=3650)] = 30.0
    max_mib: Number = 256
    """Maximum size of all stored responses together, in MiB. The least recently used ones are removed first."""


class ClusterSettings(Value, forbid_unknown_fields=True):
    """`[cluster]`: how this replica and the others reach one another. They share a database, named by `store.url`."""

    listen: str | None = None
    """The private address, `host:port`, at which this replica listens for the others; None without a cluster."""
    url: str | None = None
    """The URL at which the others reach this replica. If None, it is `http://` followed by `listen`."""
    url_env: str = "TIELINE_CLUSTER_URL"
    """The variable that may contain the URL, so that all replicas can have the same file. It overrides `url`."""
    secret_env: str = "TIELINE_CLUSTER_SECRET"  # noqa: S105 - the name of a variable
    """The variable with the secret that all replicas share."""
    secret_file: str | None = None
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """How long running and parked runs may continue after SIGTERM."""
    heartbeat_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 2.0
    dead_seconds: Annotated[float, Meta(ge=0.2, le=600)] = 10.0
    """How long a replica may send no heartbeat before the others consider it dead."""
    agents: bool = False
    """Whether this replica runs on the machine that has the workspace of the coding agents."""


class StoreSettings(Value, forbid_unknown_fields=True):
    """`[store]`: the PostgreSQL server that replicas share. Without it, the gateway uses SQLite files."""

    url: str | None = None
    url_env: str | None = None
    """The name of the environment variable that contains the URL, which may include a password."""
    connections: Annotated[int, Meta(ge=1, le=200)] = 8
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    """Seconds after which a statement is cancelled."""
    traffic: Count = 10_000
    """Maximum number of requests whose records are kept for the traffic views of all replicas."""
    traffic_mib: Number = 512
    traffic_days: Annotated[float, Meta(gt=0, le=3650)] = 7.0
    audit_days: Annotated[float, Meta(gt=0, le=36500)] = 365.0

    @property
    def is_used(self) -> bool:
        """Whether a PostgreSQL server is configured."""
        return self.url is not None or self.url_env is not None


class WebSettings(Value, forbid_unknown_fields=True):
    """`[web]`: the web page."""

    enabled: bool = True
    traffic: Count = 500
    """Maximum number of requests that the traffic view keeps."""
    setup: bool = True
    """Whether the page may add upstreams and install coding agents."""


class ClientSettings(Value, forbid_unknown_fields=True):
    """`[clients.NAME]`: how the gateway recognises one kind of client, and how it answers such clients."""

    user_agent: str | None = None
    key_env: str | None = None
    arguments: Arguments | None = None
    reasoning: Literal["reasoning_content", "reasoning", "none", "think"] | None = None
    freeform: Literal["custom", "function"] | None = None
    incomplete: Literal["incomplete", "completed"] | None = None
    activity: Literal["reasoning", "text", "hidden"] | None = None
    tools: bool | None = None
    """Whether this client may use the gateway's own tools. If None, only a named key can allow it."""


class ModelSettings(Value, forbid_unknown_fields=True):
    """`[models."NAME"]`: facts about a model, for upstreams that do not report them or report them incorrectly."""

    title: str = ""
    context: TokenCount | None = None
    max_output: TokenCount | None = None
    inputs: Annotated[tuple[Input, ...], Meta(min_length=1)] | None = None
    tools: bool | None = None
    reasoning: bool | tuple[Effort, ...] | None = None
    """Whether the model can reason, or the reasoning efforts that it accepts."""

    def facts(self) -> ModelFacts:
        """Return the settings as `ModelFacts`."""
        reasoning = self.reasoning
        efforts = reasoning if isinstance(reasoning, tuple) else () if reasoning is False else None
        return ModelFacts(
            title=self.title,
            context=self.context,
            max_output=self.max_output,
            inputs=self.inputs,
            tools=self.tools,
            thinks=None if reasoning is None else bool(reasoning),
            efforts=efforts,
        )


class KeyRules(Value, forbid_unknown_fields=True):
    """The rights and limits of a key.

    They apply to keys in the configuration and in the database, but the defaults of `agents` and `page` differ.
    """

    tools: bool = False
    models: tuple[str, ...] = ()
    """Patterns for the names of the models that may be used with the key. If empty, all models may be used."""
    agents: bool = False
    """Whether coding agents may be used with the key."""
    paths: tuple[str, ...] = ()
    """Prefixes of the paths for which the key is valid. If empty, the key is valid for all model APIs."""
    page: bool = False
    """Whether the key may log in to the page, where it sees only its own data."""
    admin: bool = False
    """Whether the key may do everything that the gateway's own key may do."""
    expires: datetime.date | None = None
    """The last day (UTC) on which the key is valid."""
    requests_per_minute: Number | None = None
    tokens_per_minute: TokenCount | None = None
    tokens_per_day: BudgetTokens | None = None
    tokens_per_month: BudgetTokens | None = None
    cost_per_day: Money | None = None
    cost_per_month: Money | None = None


class KeySettings(KeyRules, forbid_unknown_fields=True):
    """`[keys.NAME]`: a key for one client, and its rules."""

    key_env: str | None = None
    key_file: str | None = None
    agents: bool = True


class PriceSettings(Value, forbid_unknown_fields=True):
    """`[prices."PATTERN"]`: prices in dollars per million tokens. The pattern matches full names of models."""

    input: Money
    output: Money
    cache_read: Money | None = None
    """If None, tokens from the cache cost as much as other input."""
    cache_write: Money | None = None


class UsageSettings(Value, forbid_unknown_fields=True):
    """`[usage]`: the record of usage and cost."""

    enabled: bool = False
    """Whether usage is recorded even if there are no named keys."""
    keep_days: Annotated[int, Meta(ge=35, le=36500)] = 400
    """Number of days after which usage is deleted. Budgets need the current month."""


class WorkspaceSettings(Value, forbid_unknown_fields=True):
    """`[workspaces.NAME]`: a folder that clients can select by this name."""

    path: str
    autonomy: Autonomy | None = None
    """What tools and agents may do there without asking. If None, they ask, unless `tools.yolo` is set."""


class Config(Value, forbid_unknown_fields=True):
    """The whole configuration."""

    server: ServerSettings = ServerSettings()
    default_model: str | None = None
    arguments: Arguments | None = None
    activity: Literal["reasoning", "text", "hidden"] | None = None
    demo: bool = True
    log: Literal["debug", "info", "warning", "error"] = "warning"
    aliases: Mapping[str, str] = {}
    models: Mapping[str, ModelSettings] = {}
    cursor: CursorSettings = CursorSettings()
    parking: ParkingSettings = ParkingSettings()
    inbox: InboxSettings = InboxSettings()
    tools: ToolSettings = ToolSettings()
    acp: AcpSettings = AcpSettings()
    responses: ResponsesSettings = ResponsesSettings()
    store: StoreSettings = StoreSettings()
    web: WebSettings = WebSettings()
    cluster: ClusterSettings = ClusterSettings()
    upstreams: Mapping[str, UpstreamSettings] = {}
    clients: Mapping[str, ClientSettings] = {}
    keys: Mapping[str, KeySettings] = {}
    workspaces: Mapping[str, WorkspaceSettings] = {}
    prices: Mapping[str, PriceSettings] = {}
    usage: UsageSettings = UsageSettings()


def key_variables(config: Config) -> frozenset[str]:
    """Return the names of the variables with the gateway's own secrets. Commands and agents must not receive them."""
    named = (key.key_env for key in config.keys.values())
    own = (config.server.key_env, config.cluster.secret_env)
    store = (config.store.url_env, "PGPASSWORD") if config.store.is_used else ()
    return frozenset((*own, *(name for name in (*named, *store) if name is not None)))


def address(config: Config, port: int | None = None) -> str:
    """Return the URL at which clients on this machine reach the gateway. `port` replaces the configured port."""
    host = config.server.host
    shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared, not bound
    return f"http://{shown}:{config.server.port if port is None else port}"
