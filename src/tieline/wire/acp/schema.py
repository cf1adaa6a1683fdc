"""The JSON objects of the Agent Client Protocol as structs: parameters and results of its methods.

Both sides use the same structs, one to encode and the other to decode. Fields without a default are required by the
published schema and always written; other fields are written only if they are set. Decoding tolerates deviations (see
`lenient.py`), and enumerations are plain strings, so that a new value does not invalidate a message. `updates.py`
contains the structs for `session/update`, `extensions.py` those that individual agents add.
"""

from typing import Any

from msgspec import Raw, Struct, field

PROTOCOL = "acp"
VERSION = 1

AUTH_REQUIRED = -32000
NOT_FOUND = -32002


class AcpShape(Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The base class of the protocol's JSON objects."""


class Empty(AcpShape):
    """An empty object. It is used as a result, or as the value of a capability."""


PRESENT = Empty()
"""The value that a capability has if it is offered."""


# ── Content ──────────────────────────────────────────────────────────────────────────────────────


class TextContent(AcpShape, tag="text", tag_field="type"):
    text: str


class ImageContent(AcpShape, tag="image", tag_field="type"):
    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(AcpShape, tag="audio", tag_field="type"):
    data: str
    mime_type: str


class ResourceLink(AcpShape, tag="resource_link", tag_field="type"):
    uri: str
    name: str
    mime_type: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None


class Resource(AcpShape):
    """The content of a resource: either `text` or `blob` (base64)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(AcpShape, tag="resource", tag_field="type"):
    resource: Resource


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


# ── initialize ───────────────────────────────────────────────────────────────────────────────────


class Implementation(AcpShape):
    name: str
    version: str
    title: str | None = None


class FileSystemCapabilities(AcpShape):
    read_text_file: bool = False
    write_text_file: bool = False


class ConfigOptionCapabilities(AcpShape):
    boolean: Empty | None = None


class ClientSessionCapabilities(AcpShape):
    config_options: ConfigOptionCapabilities | None = None
    notices: Empty | None = None
    compaction: Empty | None = None


class ClientAuthCapabilities(AcpShape):
    terminal: bool = False


class ElicitationCapabilities(AcpShape):
    form: Empty | None = None
    url: Empty | None = None


class ClientCapabilities(AcpShape):
    fs: FileSystemCapabilities | None = None
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: ClientAuthCapabilities | None = None
    elicitation: ElicitationCapabilities | None = None
    meta: dict[str, Any] | None = field(default=None, name="_meta")


class InitializeParams(AcpShape):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None
    client_info: Implementation | None = None


class PromptCapabilities(AcpShape):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(AcpShape):
    http: bool = False
    sse: bool = False


class SessionCapabilities(AcpShape):
    """The agent's capabilities for sessions. A capability is offered unless its value is null or false."""

    list: Any = None
    delete: Any = None
    fork: Any = None
    resume: Any = None
    close: Any = None
    additional_directories: Any = None


class AgentAuthCapabilities(AcpShape):
    logout: Any = None


class AgentCapabilities(AcpShape):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities | None = None
    mcp_capabilities: McpCapabilities | None = None
    session_capabilities: SessionCapabilities | None = None
    auth: AgentAuthCapabilities | None = None


class TerminalLogin(Struct):
    """A complete login command. Older agents send it in the `_meta` of a login method."""

    command: str
    args: list[str] | None = None
    env: dict[str, str] | None = None
    label: str | None = None


class AuthMeta(Struct):
    terminal: TerminalLogin | None = field(default=None, name="terminal-auth")


class AuthMethod(AcpShape):
    """A login method.

    If `type` is "terminal", the user logs in by running the agent's program with `args`; otherwise the client sends a
    login request to the agent.
    """

    id: str
    name: str
    description: str | None = None
    type: str | None = None
    args: list[str] | None = None
    env: dict[str, str] | None = None
    meta: AuthMeta | None = field(default=None, name="_meta")


class InitializeResult(AcpShape):
    protocol_version: int
    agent_capabilities: AgentCapabilities | None = None
    auth_methods: list[AuthMethod] | None = None
    agent_info: Implementation | None = None


class AuthenticateParams(AcpShape):
    method_id: str


# ── Sessions ─────────────────────────────────────────────────────────────────────────────────────


class NameValue(AcpShape):
    """An environment variable or an HTTP header."""

    name: str
    value: str


class McpStdio(AcpShape):
    name: str
    command: str
    args: list[str]
    env: list[NameValue]


class McpHttp(AcpShape):
    """An MCP server that is reached over HTTP. `type` is "http" or "sse"."""

    type: str
    name: str
    url: str
    headers: list[NameValue]


McpServer = McpStdio | McpHttp


class NewSessionParams(AcpShape):
    cwd: str
    mcp_servers: list[Any]
    additional_directories: list[str] | None = None


class KnownSessionParams(AcpShape):
    """Parameters of session/load, session/resume and session/fork."""

    session_id: str
    cwd: str
    mcp_servers: list[Any]
    additional_directories: list[str] | None = None


class SessionParams(AcpShape):
    """Parameters of session/close, session/delete and session/cancel."""

    session_id: str


class ModeShape(AcpShape):
    id: str
    name: str
    description: str | None = None


class ModeState(AcpShape):
    current_mode_id: str
    available_modes: list[ModeShape]


class ModelShape(AcpShape):
    model_id: str
    name: str
    description: str | None = None


class ModelState(AcpShape):
    """The models of a session. The final protocol has no such object, but some agents list their models only here."""

    current_model_id: str
    available_models: list[ModelShape]


class ConfigValue(AcpShape):
    """A possible value of an option or, if `options` is set, a group of such values."""

    name: str
    value: str = ""
    description: str | None = None
    group: str | None = None
    options: "list[ConfigValue] | None" = None


class ConfigOptionShape(AcpShape):
    id: str
    name: str
    type: str
    description: str | None = None
    category: str | None = None
    current_value: str | bool | None = None
    options: list[ConfigValue] | None = None


class SessionResult(AcpShape):
    """Result of session/new, session/load, session/resume and session/fork. Only new and fork set `session_id`."""

    session_id: str = ""
    modes: ModeState | None = None
    models: ModelState | None = None
    config_options: list[ConfigOptionShape] | None = None


class ListSessionsParams(AcpShape):
    cwd: str | None = None
    cursor: str | None = None


class SessionInfoShape(AcpShape):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResult(AcpShape):
    sessions: list[SessionInfoShape]
    next_cursor: str | None = None


class SetModeParams(AcpShape):
    session_id: str
    mode_id: str


class SetModelParams(AcpShape):
    session_id: str
    model_id: str


class SetConfigOptionParams(AcpShape):
    """Parameters of session/set_config_option. `type` is "boolean" if the value is a boolean, and absent otherwise."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


class SetConfigOptionResult(AcpShape):
    config_options: list[ConfigOptionShape]


# ── A turn ───────────────────────────────────────────────────────────────────────────────────────


class PromptParams(AcpShape):
    session_id: str
    prompt: list[ContentBlock]


class TokenUsage(AcpShape):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None


class TokenTotals(Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class Quota(Struct):
    token_count: TokenTotals | None = None


class PromptMeta(Struct):
    """The `_meta` of a prompt's result. Agents that do not use `usage` report their token counts here."""

    quota: Quota | None = None


class PromptResult(AcpShape):
    stop_reason: str
    usage: TokenUsage | None = None
    meta: PromptMeta | None = field(default=None, name="_meta")


class CancelRequestParams(AcpShape):
    request_id: int


class CancelledRequest(AcpShape):
    """Parameters of `$/cancel_request` as received. The id is raw JSON, because the sender may use ids of any type."""

    request_id: Raw


# ── Requests from the agent ──────────────────────────────────────────────────────────────────────


class PermissionOptionShape(AcpShape):
    option_id: str
    name: str
    kind: str


class PermissionOutcome(AcpShape):
    """The outcome of a permission request: "cancelled", or "selected" with the id of the chosen option."""

    outcome: str
    option_id: str | None = None


class PermissionResult(AcpShape):
    """Result of session/request_permission.

    `answers` is an extension: the answers to questions in the request, by the index of the question.
    """

    outcome: PermissionOutcome
    answers: dict[str, str] | None = None


class ReadFileParams(AcpShape):
    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadFileResult(AcpShape):
    content: str


class WriteFileParams(AcpShape):
    session_id: str
    path: str
    content: str


class CreateTerminalParams(AcpShape):
    session_id: str
    command: str
    args: list[str] | None = None
    env: list[NameValue] | None = None
    cwd: str | None = None
    output_byte_limit: int | None = None


class CreateTerminalResult(AcpShape):
    terminal_id: str


class TerminalParams(AcpShape):
    """Parameters of terminal/output, terminal/wait_for_exit, terminal/kill and terminal/release."""

    session_id: str
    terminal_id: str


class ExitStatus(AcpShape):
    exit_code: int | None = None
    signal: str | None = None


class TerminalOutputResult(AcpShape):
    output: str
    truncated: bool
    exit_status: ExitStatus | None = None


class ElicitationParams(AcpShape):
    """Parameters of elicitation/create. Mode "form" uses `requested_schema`, mode "url" uses `url`."""

    message: str
    mode: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: Any = None
    requested_schema: dict[str, Any] | None = None
    elicitation_id: str | None = None
    url: str | None = None


class ElicitationResult(AcpShape):
    """Result of elicitation/create. `action` is "accept", "decline" or "cancel"; only "accept" may have `content`."""

    action: str
    content: dict[str, Any] | None = None


class ElicitationCompleteParams(AcpShape):
    elicitation_id: str
