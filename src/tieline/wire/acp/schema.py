"""The shapes of the Agent Client Protocol: what is asked, and what is answered.

Every struct serves both roles: it is encoded by the side that says it and decoded by the other. Fields without a
default are those that the published schema requires, so they are always written; the others are written only when they
are said. Reading is more patient than this file looks, see `lenient.py`; enumerations are plain strings, since a new
value must not cost a message. What happens inside a session stands in `updates.py`, what one agent alone sends in
`extensions.py`.
"""

from typing import Any

from msgspec import Raw, Struct, field

PROTOCOL = "acp"
VERSION = 1

AUTH_REQUIRED = -32000
NOT_FOUND = -32002


class Shape(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What every object of the protocol is."""


class Empty(Shape):
    """An answer, or a capability, that is there and says no more."""


HERE = Empty()
"""A capability is offered by being there."""


# ── Content ──────────────────────────────────────────────────────────────────────────────────────


class TextBlock(Shape, tag="text", tag_field="type"):
    text: str


class ImageBlock(Shape, tag="image", tag_field="type"):
    data: str
    mime_type: str
    uri: str | None = None


class AudioBlock(Shape, tag="audio", tag_field="type"):
    data: str
    mime_type: str


class LinkBlock(Shape, tag="resource_link", tag_field="type"):
    uri: str
    name: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class Resource(Shape):
    """Holds `text` or `blob` (base64)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class ResourceBlock(Shape, tag="resource", tag_field="type"):
    resource: Resource


Block = TextBlock | ImageBlock | AudioBlock | LinkBlock | ResourceBlock


# ── The beginning ────────────────────────────────────────────────────────────────────────────────


class Implementation(Shape):
    name: str
    version: str
    title: str | None = None


class FileSystemCapabilities(Shape):
    read_text_file: bool = False
    write_text_file: bool = False


class ConfigOptionCapabilities(Shape):
    boolean: Empty | None = None


class ClientSessionCapabilities(Shape):
    config_options: ConfigOptionCapabilities | None = None
    notices: Empty | None = None
    compaction: Empty | None = None


class ClientAuthCapabilities(Shape):
    terminal: bool = False


class ElicitationCapabilities(Shape):
    form: Empty | None = None
    url: Empty | None = None


class ClientCapabilities(Shape):
    fs: FileSystemCapabilities | None = None
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: ClientAuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None
    meta: dict[str, Any] | None = field(default=None, name="_meta")


class InitializeParams(Shape):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None


class PromptCapabilities(Shape):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Shape):
    http: bool = False
    sse: bool = False


class SessionCapabilities(Shape):
    """Each is there or not; what is inside does not matter here."""

    list: Any = None
    delete: Any = None
    fork: Any = None
    resume: Any = None
    close: Any = None
    additional_directories: Any = None


class AgentAuthCapabilities(Shape):
    logout: Any = None


class AgentCapabilities(Shape):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None


class TerminalLogin(Struct):
    """The older way to say what to run to log in: the whole command, in the `_meta` of a method."""

    command: str
    args: list[str] | None = None
    env: dict[str, str] | None = None
    label: str | None = None


class AuthMeta(Struct):
    terminal: TerminalLogin | None = field(default=None, name="terminal-auth")


class AuthMethod(Shape):
    """A way to log in: by asking the agent, or (`type` is "terminal") by running it with these arguments."""

    id: str
    name: str
    description: str | None = None
    type: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    meta: AuthMeta | None = field(default=None, name="_meta")


class InitializeResult(Shape):
    protocol_version: int
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] | None = None
    agent_info: Implementation | None = None


class AuthenticateParams(Shape):
    method_id: str


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────


class NameValue(Shape):
    """A variable of the environment, or a header."""

    name: str
    value: str


class McpStdio(Shape):
    name: str
    command: str
    args: list[str]
    env: list[NameValue]


class McpHttp(Shape):
    """A server reached by HTTP; `type` is "http" or "sse"."""

    type: str
    name: str
    url: str
    headers: list[NameValue]


McpServer = McpStdio | McpHttp


class NewSessionParams(Shape):
    cwd: str
    mcp_servers: list[Any]
    additional_directories: list[str] | None = None


class KnownSessionParams(Shape):
    """To load, resume or fork."""

    session_id: str
    cwd: str
    mcp_servers: list[Any]
    additional_directories: list[str] | None = None


class SessionParams(Shape):
    """To close, delete or cancel."""

    session_id: str


class Mode(Shape):
    id: str
    name: str
    description: str | None = None


class ModeState(Shape):
    current_mode_id: str
    available_modes: list[Mode]


class Model(Shape):
    model_id: str
    name: str
    description: str | None = None


class ModelState(Shape):
    """Never became part of the protocol, but several agents still offer their models only this way."""

    current_model_id: str
    available_models: list[Model]


class ConfigValue(Shape):
    """One value of an option; or, with `options`, a group of them."""

    name: str
    value: str = ""
    description: str | None = None
    group: str | None = None
    options: "list[ConfigValue] | None" = None


class ConfigOption(Shape):
    id: str
    name: str
    type: str
    description: str | None = None
    category: str | None = None
    current_value: str | bool | None = None
    options: list[ConfigValue] | None = None


class SessionResult(Shape):
    """The answer to session/new, load, resume and fork; only new and fork need the id."""

    session_id: str = ""
    modes: ModeState | None = None
    models: ModelState | None = None
    config_options: list[ConfigOption] | None = None


class ListSessionsParams(Shape):
    cwd: str | None = None
    cursor: str | None = None


class SessionInfo(Shape):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResult(Shape):
    sessions: list[SessionInfo]
    next_cursor: str | None = None


class SetModeParams(Shape):
    session_id: str
    mode_id: str


class SetModelParams(Shape):
    session_id: str
    model_id: str


class SetConfigOptionParams(Shape):
    """`type` is said only with a boolean value."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


class SetConfigOptionResult(Shape):
    config_options: list[ConfigOption]


# ── A turn ───────────────────────────────────────────────────────────────────────────────────────


class PromptParams(Shape):
    session_id: str
    prompt: list[Block]


class TokenUsage(Shape):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class TokenCount(Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class Quota(Struct):
    token_count: TokenCount | None = None


class PromptMeta(Struct):
    """Where an agent that does not know `usage` tells it."""

    quota: Quota | None = None


class PromptResult(Shape):
    stop_reason: str
    usage: TokenUsage | None = None
    meta: PromptMeta | None = field(default=None, name="_meta")


class CancelRequestParams(Shape):
    request_id: int


class CancelledRequest(Shape):
    """The same of the other side, whose ids are theirs to spell."""

    request_id: Raw


# ── What an agent asks ───────────────────────────────────────────────────────────────────────────


class PermissionOption(Shape):
    option_id: str
    name: str
    kind: str


class PermissionOutcome(Shape):
    """`outcome` is "selected" or "cancelled"."""

    outcome: str
    option_id: str | None = None


class PermissionResult(Shape):
    """`answers` is an extension: what was answered to questions that came as a permission request, by their index."""

    outcome: PermissionOutcome
    answers: dict[str, str] | None = None


class ReadFileParams(Shape):
    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadFileResult(Shape):
    content: str


class WriteFileParams(Shape):
    session_id: str
    path: str
    content: str


class CreateTerminalParams(Shape):
    session_id: str
    command: str
    args: list[str] | None = None
    env: list[NameValue] | None = None
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResult(Shape):
    terminal_id: str


class TerminalParams(Shape):
    """To read, await, kill or release."""

    session_id: str
    terminal_id: str


class ExitStatus(Shape):
    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResult(Shape):
    output: str
    truncated: bool
    exit_status: ExitStatus | None = None


class ElicitationParams(Shape):
    """`mode` is "form" (then there is a schema) or "url"."""

    message: str
    mode: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: Any = None
    requested_schema: dict[str, Any] | None = None
    elicitation_id: str | None = None
    url: str | None = None


class ElicitationResult(Shape):
    """`action` is "accept" (then there may be content), "decline" or "cancel"."""

    action: str
    content: dict[str, Any] | None = None


class ElicitationCompleteParams(Shape):
    elicitation_id: str
