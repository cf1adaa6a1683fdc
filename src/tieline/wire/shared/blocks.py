"""Parse content blocks and system prompts in the format of Anthropic's API.

Some editors send them to the endpoints of OpenAI's APIs.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from tieline.model.content import NO_META, File, Image, Message, Meta, Part, Text, Thinking, ToolCall, ToolResult
from tieline.wire.shared.fields import bad, checked_base64, json_text
from tieline.wire.shared.json import parse
from tieline.wire.shared.shapes import Shape

Content = str | list[Raw] | dict[str, Raw] | float | int | bool | None
ReadResult = Callable[[Content, str], tuple[Text | Image | File, ...]]
"""A function that parses the content of a tool result. The second argument is the path of the content."""

_NULL = Raw(b"null")


class _AnthropicShape(Shape, kw_only=True):
    type: str | None = None
    cache_control: dict[str, Any] | None = None


class SourceShape(_AnthropicShape):
    """The source of an image or a document."""

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class BlockShape(_AnthropicShape):
    """A content block of any type."""

    source: SourceShape | None = None
    title: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()
    tool_use_id: str | None = None
    content: Content = None
    is_error: bool | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class TextShape(_AnthropicShape):
    """A block of a system prompt."""

    text: str


_BLOCK = msgspec.json.Decoder(BlockShape)
_SYSTEM = msgspec.json.Decoder(str | list[TextShape] | None)


def read_system(raw: Raw) -> tuple[Message, ...]:
    """Parse a top-level system prompt: a string or a list of text blocks. Return no message if it is empty.

    Raise BadRequest if the prompt is of any other type.
    """
    try:
        system = _SYSTEM.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad("system", "a string or an array of text blocks") from error
    blocks = [TextShape(text=system)] if isinstance(system, str) else system or []
    parts = tuple(Text(text=block.text, meta=_meta(block)) for block in blocks if block.text)
    return (Message(role="system", parts=parts),) if parts else ()


def read_block(raw: Raw, at: str, read_result: ReadResult) -> Part:
    """Parse a block whose type is in BLOCKS; `at` is its path. Raise BadRequest if a field is invalid."""
    shape = parse(_BLOCK, raw, at)
    return _KINDS[shape.type or ""](shape, at, read_result)


def _source(shape: BlockShape, at: str, _read_result: ReadResult) -> Part:
    source = shape.source
    if source is None:
        raise bad(f"{at}.source", "an object")
    kind: Any = Image if shape.type == "image" else File
    names = {} if shape.type == "image" or shape.title is None else {"name": shape.title}
    match source.type:
        case "base64":
            data = checked_base64(source.data, f"{at}.source.data")
            part: Part = kind(media_type=source.media_type or "", data=data, meta=_meta(shape), **names)
        case "url" if source.url:
            part = kind(url=source.url, meta=_meta(shape), **names)
        case "text" if shape.type == "document" and source.data is not None:
            part = Text(text=source.data, meta=_meta(shape))
        case _:
            raise bad(f"{at}.source.type", "base64 or url, with its data or url")
    return part


def _tool_use(shape: BlockShape, at: str, _read_result: ReadResult) -> Part:
    if not shape.name:
        raise bad(f"{at}.name", "the name of a tool")
    arguments = json_text(shape.input) if shape.input and shape.input != _NULL else "{}"
    return ToolCall(id=shape.id or "", name=shape.name, arguments=arguments, meta=_meta(shape))


def _tool_result(shape: BlockShape, at: str, read_result: ReadResult) -> Part:
    return ToolResult(
        call_id=shape.tool_use_id or "",
        content=read_result(shape.content, f"{at}.content"),
        is_error=bool(shape.is_error),
        meta=_meta(shape),
    )


def _thinking(shape: BlockShape, _at: str, _read_result: ReadResult) -> Part:
    if shape.type == "redacted_thinking":
        return Thinking(redacted=True, signature=shape.data)
    return Thinking(text=shape.thinking or "", signature=shape.signature)


_KINDS: dict[str, Callable[[BlockShape, str, ReadResult], Part]] = {
    "image": _source,
    "document": _source,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "thinking": _thinking,
    "redacted_thinking": _thinking,
}
BLOCKS = frozenset(_KINDS)
"""The types of content blocks that only Anthropic's API has."""


def _meta(shape: _AnthropicShape) -> Meta:
    return NO_META if shape.cache_control is None else {"cache_control": shape.cache_control}
