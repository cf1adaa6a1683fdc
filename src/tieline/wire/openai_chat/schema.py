"""The JSON structures ("shapes") of Chat Completions, as clients and upstreams send them in practice.

Every field may be absent or null, except in `StandardMessage`; code that requires a field raises an error with the path
of the field. Values that are only passed on are `msgspec.Raw`. A request is first decoded with the strict RequestShape.
If it has unknown fields, it is decoded again with AnyRequestShape.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw

from tieline.wire.shared.blocks import Content
from tieline.wire.shared.shapes import FileRef, ImageUrl, Shape

PROTOCOL = "openai_chat"

STATE_FIELDS = ("reasoning_details", "thinking_blocks", "extra_content")
"""The fields of a message or a call that hold provider state, which must be sent back unchanged."""

ABSENT = Raw()


# ── Requests ─────────────────────────────────────────────────────────────────────────────────────


class PartShape(Shape):
    """A content part. Anthropic's content blocks, which some editors send, are decoded by `wire.shared.blocks`."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: str | ImageUrl | None = None
    detail: str | None = None
    file: FileRef | None = None
    document_url: str | None = None
    document_name: str | None = None
    cache_control: dict[str, Any] | None = None
    thinking: str | list[Raw] | None = None


class FunctionShape(Shape):
    """The function in a call: the name and the arguments, or a fragment of them in a delta."""

    name: str | None = None
    arguments: str | dict[str, Raw] | list[Raw] | None = None


class CustomShape(Shape):
    name: str | None = None
    input: str | None = None


class CallShape(Shape):
    """A tool call in the history."""

    id: str | None = None
    type: str | None = None
    function: FunctionShape | None = None
    custom: CustomShape | None = None
    extra_content: Raw = ABSENT


class ThinkingBlockShape(Shape):
    type: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class MessageShape(Shape):
    role: str | None = None
    content: Content = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Raw] | None = None
    thinking_blocks: Raw = ABSENT
    reasoning_details: Raw = ABSENT
    extra_content: Raw = ABSENT
    tool_calls: list[CallShape] | None = None
    function_call: FunctionShape | None = None
    tool_call_id: str | None = None


class FunctionSpec(Shape):
    name: str | None = None
    description: str | None = None
    parameters: Raw = ABSENT
    strict: bool | None = None
    cache_control: dict[str, Any] | None = None


class CustomSpec(Shape):
    name: str | None = None
    description: str | None = None
    format: dict[str, Any] | None = None


class ToolShape(Shape):
    """A tool: nested as in the spec, or flat as in the Responses API and in Anthropic's API."""

    type: str | None = None
    function: FunctionSpec | None = None
    custom: CustomSpec | None = None
    name: str | None = None
    description: str | None = None
    parameters: Raw = ABSENT
    input_schema: Raw = ABSENT
    strict: bool | None = None
    format: dict[str, Any] | None = None
    cache_control: dict[str, Any] | None = None


class ToolReference(Shape):
    name: str | None = None


class AllowedTool(Shape):
    type: str | None = None
    function: ToolReference | None = None
    custom: ToolReference | None = None
    name: str | None = None


class AllowedTools(Shape):
    mode: str | None = None
    tools: list[AllowedTool] | None = None


class ChoiceShape(Shape):
    """`tool_choice` as an object, in the form of Chat Completions, the Responses API or Anthropic's API."""

    type: str | None = None
    function: ToolReference | None = None
    custom: ToolReference | None = None
    name: str | None = None
    allowed_tools: AllowedTools | None = None
    mode: str | None = None
    tools: list[AllowedTool] | None = None
    disable_parallel_tool_use: bool | None = None


class JsonSchema(Shape):
    name: str | None = None
    schema: Raw = ABSENT
    strict: bool | None = None


class FormatShape(Shape):
    type: str | None = None
    json_schema: JsonSchema | None = None


class StreamOptions(Shape):
    include_usage: bool | None = None


class SamplingFields(Shape):
    """The sampling and streaming settings of a request."""

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: Raw = ABSENT


class Untranslated(SamplingFields):
    """The sampling and streaming settings, and the fields that are kept as JSON in `Request.extra`."""

    audio: Raw = ABSENT
    frequency_penalty: Raw = ABSENT
    logit_bias: Raw = ABSENT
    logprobs: Raw = ABSENT
    metadata: Raw = ABSENT
    modalities: Raw = ABSENT
    moderation: Raw = ABSENT
    prediction: Raw = ABSENT
    presence_penalty: Raw = ABSENT
    prompt_cache_options: Raw = ABSENT
    prompt_cache_retention: Raw = ABSENT
    reasoning: Raw = ABSENT
    safety_identifier: Raw = ABSENT
    seed: Raw = ABSENT
    service_tier: Raw = ABSENT
    store: Raw = ABSENT
    thinking: Raw = ABSENT
    top_logprobs: Raw = ABSENT
    verbosity: Raw = ABSENT
    web_search_options: Raw = ABSENT


_FIRST = len(SamplingFields.__struct_fields__)
UNTRANSLATED = Untranslated.__struct_fields__[_FIRST:]
THE_UNTRANSLATED = slice(_FIRST, _FIRST + len(UNTRANSLATED))
"""The positions of the fields in UNTRANSLATED among the fields of a RequestShape."""


class RequestShape(Untranslated, forbid_unknown_fields=True):
    """A request with known fields only. `tools`, a list of ToolShape, is decoded later, unless it is cached."""

    model: str | None = None
    messages: list[Raw] | None = None
    tools: Raw = ABSENT
    tool_choice: str | ChoiceShape | None = None
    parallel_tool_calls: bool | None = None
    functions: list[FunctionSpec] | None = None
    function_call: str | ToolReference | None = None
    reasoning_effort: str | None = None
    response_format: Raw = ABSENT
    n: int | None = None
    user: str | None = None
    prompt_cache_key: str | None = None


class AnyRequestShape(RequestShape, forbid_unknown_fields=False):
    """A request that may have unknown fields."""


# ── Messages that follow the spec ────────────────────────────────────────────────────────────────

MAX_ID = 64
Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
Words = Annotated[str, Meta(min_length=1)]


class StandardText(Shape, tag="text"):
    text: Words


class StandardUrl(Shape):
    url: str


class StandardImage(Shape, tag="image_url"):
    image_url: StandardUrl


class StandardAudio(Shape, tag="input_audio"):
    input_audio: Raw


class StandardFile(Shape, tag="file"):
    file: Raw


class StandardRefusal(Shape, tag="refusal"):
    refusal: str


class StandardFunction(Shape):
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    arguments: str


class StandardCall(Shape):
    id: Id
    type: Literal["function"]
    function: StandardFunction


class SystemMessage(Shape, tag_field="role", tag="system"):
    content: Words | Annotated[list[StandardText], Meta(min_length=1)]


class UserMessage(Shape, tag_field="role", tag="user"):
    content: Words | Annotated[list[StandardText | StandardImage | StandardAudio | StandardFile], Meta(min_length=1)]


class AssistantMessage(Shape, tag_field="role", tag="assistant"):
    content: Words | Annotated[list[StandardText | StandardRefusal], Meta(min_length=1)] | None
    tool_calls: Annotated[list[StandardCall], Meta(min_length=1)] | None = None


class ToolMessage(Shape, tag_field="role", tag="tool"):
    tool_call_id: Id
    content: Words | Annotated[list[StandardText], Meta(min_length=1)]


StandardMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""A message that every upstream accepts unchanged. It may have additional fields."""


# ── Responses ────────────────────────────────────────────────────────────────────────────────────


class CallDelta(Shape):
    """A fragment of a tool call in a stream; any field may be missing."""

    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: FunctionShape | None = None
    custom: CustomShape | None = None
    extra_content: Raw = ABSENT


class Delta(Shape):
    """A fragment of an answer in a stream, or a whole message, which has the same fields."""

    content: str | list[Raw] | None = None
    tool_calls: list[CallDelta] | None = None
    reasoning_content: str | list[Raw] | None = None
    reasoning: str | dict[str, Raw] | None = None
    reasoning_details: Raw = ABSENT
    thinking_blocks: Raw = ABSENT
    extra_content: Raw = ABSENT
    refusal: str | None = None
    function_call: FunctionShape | None = None
    annotations: list[Raw] | None = None


class Choice(Shape):
    index: int | None = None
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    error: Any = None


class PromptDetails(Shape):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(Shape):
    reasoning_tokens: int | None = None


class UsageShape(Shape):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class Chunk(Shape):
    """One event of a stream, or the body of a non-streaming answer."""

    id: str | int | None = None
    model: str | None = None
    object: str | None = None
    choices: list[Choice] | None = None
    usage: UsageShape | None = None
    error: Any = None


class ContentItem(Shape):
    """An item of `content` from an upstream that sends content as a list."""

    type: str | None = None
    text: str | None = None
    thinking: str | list[Raw] | None = None
