"""The JSON structures of the Messages API, with the fields that the gateway reads or writes.

The structs for the blocks of a request are used in both directions: to decode a client's request, and to encode a
request for an upstream. Values that are only passed on are `Raw`, so that they stay unchanged. An absent Raw
field is `ABSENT`, never None, so that `omit_defaults` omits it.
"""

from typing import Any

from msgspec import Raw, Struct

PROTOCOL = "anthropic"

ABSENT = Raw()
EMPTY_OBJECT = Raw(b"{}")


def is_set(value: Raw) -> bool:
    """Return whether a field is present and not null."""
    return value is not ABSENT and bytes(value) != b"null"


def text_of(value: Raw) -> str:
    """Return the JSON text of a raw value."""
    return bytes(value).decode()


# ── Blocks of a request ──────────────────────────────────────────────────────────────────────────


class Base64Source(Struct, tag="base64", tag_field="type"):
    media_type: str
    data: str


class UrlSource(Struct, tag="url", tag_field="type"):
    url: str


class TextSource(Struct, tag="text", tag_field="type", omit_defaults=True):
    data: str
    media_type: str = ""


class TextBlock(Struct, tag="text", tag_field="type", omit_defaults=True):
    text: str
    citations: Raw = ABSENT
    cache_control: Any = None


class ImageBlock(Struct, tag="image", tag_field="type", omit_defaults=True):
    source: Base64Source | UrlSource
    transformations: Raw = ABSENT
    cache_control: Any = None


class DocumentBlock(Struct, tag="document", tag_field="type", omit_defaults=True):
    source: Base64Source | UrlSource | TextSource
    title: str | None = None
    context: str | None = None
    citations: Raw = ABSENT
    cache_control: Any = None


class ContentSource(Struct):
    content: str | list[TextBlock]


class TextsBlock(Struct):
    """A search result, or a document whose source is a list of texts."""

    source: str | ContentSource
    content: str | list[TextBlock] = ""
    title: str | None = None
    context: str | None = None
    cache_control: Any = None


class ThinkingBlock(Struct, tag="thinking", tag_field="type", omit_defaults=True):
    thinking: str
    signature: str | None = None


class RedactedBlock(Struct, tag="redacted_thinking", tag_field="type"):
    data: str


class ToolUseBlock(Struct, tag="tool_use", tag_field="type", omit_defaults=True):
    id: str
    name: str
    input: Raw = ABSENT
    caller: Raw = ABSENT
    toolset_name: Raw = ABSENT
    cache_control: Any = None


class ToolReferenceBlock(Struct, tag="tool_reference", tag_field="type"):
    tool_name: str


class ToolResultOut(Struct, tag="tool_result", tag_field="type", omit_defaults=True):
    """A tool result to send to an upstream. Blocks that are passed on unchanged are Raw."""

    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | DocumentBlock | Raw] | None = None
    is_error: bool | None = None
    cache_control: Any = None


class ToolResultShell(Struct, tag="tool_result", tag_field="type"):
    """A tool result from a client, whose blocks are not decoded yet."""

    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None
    cache_control: Any = None


KnownBlock = (
    TextBlock
    | ImageBlock
    | ThinkingBlock
    | RedactedBlock
    | ToolUseBlock
    | ToolResultShell
    | DocumentBlock
    | ToolReferenceBlock
)
MarkedBlock = TextBlock | ImageBlock | DocumentBlock | ToolUseBlock | ToolResultOut
"""The blocks that are allowed to have a cache mark."""


class MessageShell(Struct):
    """A message from a client, whose blocks are not decoded yet."""

    role: str
    content: str | list[Raw] | None = None


class BlockHead(Struct):
    type: str | None = None


class SourceHead(Struct):
    source: BlockHead


# ── A request ────────────────────────────────────────────────────────────────────────────────────


class Tool(Struct, omit_defaults=True):
    """A custom tool, or the common members of a tool that Anthropic defines."""

    name: str = ""
    type: str | None = None
    description: str | None = None
    input_schema: Raw = ABSENT
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    defer_loading: bool | None = None
    allowed_callers: Any = None
    input_examples: Any = None
    cache_control: Any = None


class ToolChoiceIn(Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Metadata(Struct):
    user_id: str | None = None


class ThinkingConfig(Struct):
    type: str
    budget_tokens: int | None = None


class FormatIn(Struct):
    type: str
    schema: Raw = ABSENT
    name: str | None = None


class OutputConfig(Struct):
    effort: str | None = None
    format: FormatIn | None = None
    task_budget: Raw = ABSENT


class RequestFields(Struct, kw_only=True):
    """The fields of a request that are translated. Long fields are Raw and are decoded only if they are not cached."""

    messages: list[Raw]
    model: str | None = None
    max_tokens: int | None = None
    system: Raw = ABSENT
    tools: Raw = ABSENT
    tool_choice: ToolChoiceIn | None = None
    thinking: Raw = ABSENT
    output_config: OutputConfig | None = None
    output_format: FormatIn | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    thread: Raw = ABSENT
    metadata: Raw = ABSENT
    """Must be the last field: it is translated, but also passed on unchanged, like the fields of KnownRequest."""


class KnownRequest(RequestFields, kw_only=True, forbid_unknown_fields=True):
    """A request that has only known fields. The fields that this subclass adds are passed on unchanged."""

    betas: Raw = ABSENT
    cache_control: Raw = ABSENT
    compaction: Raw = ABSENT
    container: Raw = ABSENT
    context_management: Raw = ABSENT
    diagnostics: Raw = ABSENT
    fallback_credit_token: Raw = ABSENT
    fallbacks: Raw = ABSENT
    inference_geo: Raw = ABSENT
    mcp_servers: Raw = ABSENT
    service_tier: Raw = ABSENT
    speed: Raw = ABSENT
    user_profile_id: Raw = ABSENT
    workspace_id: Raw = ABSENT


class AddedTool(Struct, frozen=True):
    definition: Raw = ABSENT


class Addition(Struct):
    """A block in a system message that makes a tool available for the rest of the conversation."""

    tool: AddedTool = AddedTool()


_FIRST = RequestFields.__struct_fields__.index("metadata")
TRANSLATED = frozenset(RequestFields.__struct_fields__[:_FIRST])
PASSED_ON = KnownRequest.__struct_fields__[_FIRST:]
THE_PASSED_ON = slice(_FIRST, None)
"""The positions of the fields in PASSED_ON among the fields of a KnownRequest."""


# ── An answer ────────────────────────────────────────────────────────────────────────────────────


class TokenDetails(Struct):
    thinking_tokens: int | None = None


class UsageIn(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: TokenDetails | None = None


class BlockIn(Struct):
    """A block of any type in an answer, with the fields that the gateway translates."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = ABSENT
    caller: Raw = ABSENT
    toolset_name: Raw = ABSENT
    citations: Raw = ABSENT


class DeltaIn(Struct):
    """A delta in a stream: more content of a block, or the ending of the message."""

    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    content: str | None = None
    encrypted_content: str | None = None
    citation: Raw = ABSENT
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Raw = ABSENT
    container: Raw = ABSENT


class MessageIn(Struct):
    """The message at the start of a stream, or a whole answer."""

    type: str = ""
    id: str | None = None
    model: str | None = None
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Raw = ABSENT
    container: Raw = ABSENT
    usage: UsageIn | None = None
    error: Raw = ABSENT


class StreamEvent(Struct):
    """Any event of a stream."""

    type: str = ""
    index: int = 0
    delta: DeltaIn | None = None
    content_block: Raw = ABSENT
    message: MessageIn | None = None
    usage: UsageIn | None = None
    error: Raw = ABSENT


class StopDetails(Struct):
    explanation: str | None = None


class ErrorDetails(Struct):
    error_code: str | None = None


class ErrorIn(Struct):
    type: str | None = None
    message: str | None = None
    details: ErrorDetails | None = None


class InputTokenCount(Struct):
    input_tokens: int
