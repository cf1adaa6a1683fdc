"""The JSON structures ("shapes") of the Responses API, as clients and upstreams send them in practice.

Every field may be absent or null; code that requires a field raises an error with the path of the field. Values that
are only passed on are `msgspec.Raw`. A request is first decoded with the strict RequestShape. If it has unknown fields,
it is decoded again with AnyRequestShape.
"""

from typing import Any

from msgspec import Raw

from tieline.wire.shared.shapes import FileRef, ImageUrl, Shape

PROTOCOL = "openai_responses"

ABSENT = Raw()


# ── Items: the same in the input and in the output ───────────────────────────────────────────────


Content = str | list[Raw] | dict[str, Raw] | float | int | bool | None


class PartShape(Shape):
    """A content part of a message or of a tool's output. The field `file` exists only in Chat Completions."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    annotations: Raw = ABSENT
    image_url: str | ImageUrl | None = None
    file_id: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    file: FileRef | None = None


class SummaryShape(Shape):
    """A part of a reasoning item, of the type `summary_text` or `reasoning_text`."""

    type: str | None = None
    text: str | None = None


class ItemShape(Shape):
    """An input or output item of any type."""

    type: str | None = None
    id: str | None = None
    status: str | None = None
    role: str | None = None
    content: Content = None
    phase: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | dict[str, Raw] | list[Raw] | None = None
    input: str | dict[str, Raw] | list[Raw] | None = None
    output: Content = None
    summary: list[SummaryShape] | None = None
    encrypted_content: str | None = None
    action: dict[str, Any] | None = None
    operation: dict[str, Any] | None = None
    execution: str | None = None
    tools: Raw = ABSENT
    author: str | None = None
    recipient: str | None = None


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────


class ToolShape(Shape):
    """A tool or namespace of any type. `tools` are the tools in a namespace.

    `function` and `custom` come from Chat Completions, which nests the definition of a tool. `input_schema` and
    `cache_control` are fields of Anthropic's API.
    """

    type: str | None = None
    name: str | None = None
    description: str | None = None
    parameters: Raw = ABSENT
    strict: bool | None = None
    defer_loading: bool | None = None
    format: dict[str, Any] | None = None
    tools: list[Raw] | None = None
    execution: str | None = None
    environment: dict[str, Any] | str | None = None
    server_label: str | None = None
    function: "ToolShape | None" = None
    custom: "ToolShape | None" = None
    input_schema: Raw = ABSENT
    cache_control: dict[str, Any] | None = None


class AllowedTool(Shape):
    type: str | None = None
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None
    function: "AllowedTool | None" = None
    custom: "AllowedTool | None" = None


class ChoiceShape(AllowedTool):
    """`tool_choice` as an object."""

    mode: str | None = None
    tools: list[AllowedTool] | None = None


class FormatShape(Shape):
    type: str | None = None
    name: str | None = None
    schema: Raw = ABSENT
    strict: bool | None = None


class TextOptionsShape(Shape):
    format: FormatShape | None = None


class ReasoningShape(Shape):
    effort: str | None = None


class Untranslated(Shape):
    """The fields of a request that are kept as JSON in `Request.extra`."""

    client_metadata: Raw = ABSENT
    context_management: Raw = ABSENT
    max_tool_calls: Raw = ABSENT
    metadata: Raw = ABSENT
    moderation: Raw = ABSENT
    prompt: Raw = ABSENT
    prompt_cache_options: Raw = ABSENT
    prompt_cache_retention: Raw = ABSENT
    safety_identifier: Raw = ABSENT
    service_tier: Raw = ABSENT
    top_logprobs: Raw = ABSENT
    truncation: Raw = ABSENT


UNTRANSLATED = Untranslated.__struct_fields__

STATE_FIELDS = frozenset(
    [
        *("background", "conversation", "previous_response_id", "store"),
        *("generate", "stream_id", "stream_options", "type"),
    ]
)
"""Fields about stored responses and delivery. The gateway handles them itself; they are not in `Request.extra`.

`generate`, `stream_id` and `type` occur only in WebSocket messages.
"""


class RequestShape(Untranslated, forbid_unknown_fields=True):
    """A request with known fields only. `tools`, a list of ToolShape, is decoded later, unless it is cached."""

    model: str | None = None
    input: str | list[Raw] | None = None
    instructions: str | None = None
    tools: Raw = ABSENT
    tool_choice: Raw = ABSENT
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: Raw = ABSENT
    reasoning: Raw = ABSENT
    include: list[str] | None = None
    stream: bool | None = None
    user: str | None = None
    prompt_cache_key: str | None = None

    background: Raw = ABSENT
    conversation: Raw = ABSENT
    generate: Raw = ABSENT
    previous_response_id: Raw = ABSENT
    store: Raw = ABSENT
    stream_id: Raw = ABSENT
    stream_options: Raw = ABSENT
    type: Raw = ABSENT


class AnyRequestShape(RequestShape, forbid_unknown_fields=False):
    """A request that may have unknown fields."""


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


class InputDetails(Shape):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(Shape):
    reasoning_tokens: int | None = None


class UsageShape(Shape):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class IncompleteDetails(Shape):
    reason: str | None = None


class ResponseShape(Shape):
    """A response: the body of a non-streaming answer, or a member of the first and last events of a stream."""

    id: str | None = None
    model: str | None = None
    object: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: UsageShape | None = None
    incomplete_details: IncompleteDetails | None = None
    error: Any = None
    store: bool | None = None


class StreamEvent(Shape):
    """One event of a stream. `delta` and `part` accept any type, because unknown events may use them differently."""

    type: str | None = None
    sequence_number: int | None = None
    item_id: str | None = None
    call_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: Any = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | dict[str, Raw] | list[Raw] | None = None
    input: str | None = None
    name: str | None = None
    part: Raw = ABSENT
    item: Raw = ABSENT
    response: ResponseShape | None = None
    error: Any = None
