"""Build the blocks of a message from its parts."""

from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tieline.model.content import (
    File,
    Foreign,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tieline.model.events import Note, left_out
from tieline.wire.anthropic.parse_content import IMAGES, is_signed
from tieline.wire.anthropic.schema import (
    ABSENT,
    PROTOCOL,
    Base64Source,
    BlockHead,
    DocumentBlock,
    ImageBlock,
    MarkedBlock,
    RedactedBlock,
    TextBlock,
    TextSource,
    ThinkingBlock,
    Tool,
    ToolResultOut,
    ToolUseBlock,
    UrlSource,
)
from tieline.wire.shared.json import encode, is_object, is_wrapped_invalid, object_text
from tieline.wire.shared.spelling import ToolNames, plain_id
from tieline.wire.shared.unsupported import refused

Block = TextBlock | ImageBlock | DocumentBlock | ThinkingBlock | RedactedBlock | ToolUseBlock | ToolResultOut | Raw
M = TypeVar("M", TextBlock, ImageBlock, DocumentBlock, ToolUseBlock, ToolResultOut)
Shown = TextBlock | ImageBlock | DocumentBlock | Raw

_UNSIGNED = left_out("thinking", "the API rejects a turn that contains thinking without a signature")
_PDF = "application/pdf"
_ACCEPTED = "text, images (jpeg, png, gif, webp), and documents (PDF or text)"
_HEAD = msgspec.json.Decoder(BlockHead)
_MARKABLE = frozenset({TextBlock, ImageBlock, DocumentBlock, ToolUseBlock, ToolResultOut})


class BlockWriter(Struct):
    """Builds the blocks of a message or of the system prompt. `notes` lists content that was left out or replaced."""

    names: ToolNames
    extensions: bool
    unsigned: bool = False
    """Whether to send thinking that has no signature."""
    has_unsigned: bool = False
    """Whether an assistant message contained thinking without a signature."""
    notes: list[Note] = []
    marked: list[MarkedBlock] = []
    """The blocks that have a cache mark, in the order in which they were built."""

    def user(self, message: Message) -> list[Block]:
        """Return the blocks for a user message, tool results first."""
        results: list[Block] = []
        others: list[Block] = []
        for part in message.parts:
            if type(part) is ToolResult:
                results.append(self._result(part, others))
            elif type(part) is Text and not part.meta:
                if part.text and not part.text.isspace():
                    others.append(TextBlock(part.text))
            elif isinstance(part, Text):
                others.extend(self._shown(part))
            else:
                others.append(self._attachment(part))
        return results + others if results else others

    def _attachment(self, part: Part) -> Block:
        """Return the block for an image, file or foreign part. Raise BadRequest if the API does not accept it."""
        match part:
            case Image() if (image := self._image(part)) is not None:
                return image
            case File() if (file := self._file(part)) is not None:
                return file
            case Foreign() if part.protocol == PROTOCOL:
                return _raw(part.json)
            case _:
                raise refused(part, _ACCEPTED)

    def assistant(self, message: Message, strip_thinking: bool) -> list[Block]:
        """Return the blocks for an assistant message, without thinking if `strip_thinking` is set."""
        blocks: list[Block] = []
        for part in message.parts:
            if type(part) is ToolCall:
                blocks.append(self._call(part))
            elif type(part) is Text and not part.meta:
                if part.text and not part.text.isspace():
                    blocks.append(TextBlock(part.text))
            elif type(part) is Thinking:
                signed = is_signed(part)
                self.has_unsigned = self.has_unsigned or not signed
                if not strip_thinking and (signed or (self.unsigned and part.text)):
                    _insert_thinking(blocks, thinking_block(part if signed else replace(part, signature=None)))
                elif part.text:
                    self.notes.append(_UNSIGNED)
            else:
                blocks.extend(self._other(part))
        return blocks

    def system(self, message: Message) -> list[TextBlock]:
        """Return the text blocks for a message of the initial system prompt."""
        return [
            self._marked(text_block(part)) if part.meta else TextBlock(part.text)
            for part in message.parts
            if type(part) is Text and not is_blank(part.text)
        ]

    def directives(self, message: Message) -> list[Block]:
        """Return the blocks for a system message within a conversation. Such a message may also add or remove tools."""
        blocks: list[Block] = []
        for part in message.parts:
            if type(part) is Text:
                if not is_blank(part.text):
                    blocks.append(self._marked(text_block(part)) if part.meta else TextBlock(part.text))
            else:
                blocks.extend(self._foreign(part))
        return blocks

    def _call(self, part: ToolCall) -> ToolUseBlock:
        if part.freeform:
            arguments = Raw(encode({"input": part.arguments}))
        else:
            arguments = Raw(part.arguments if is_object(part.arguments) else self._object(part))
        block = ToolUseBlock(plain_id(part.id), self.names.to_upstream(part.name), arguments)
        if part.meta:
            own = part.meta.get(PROTOCOL, {})
            block.caller = _raw(own.get("caller"))
            block.toolset_name = _raw(own.get("toolset_name"))
            block.cache_control = part.meta.get("cache_control")
            self._marked(block)
        return block

    def _object(self, part: ToolCall) -> str:
        text = object_text(part.arguments)
        if is_wrapped_invalid(part.arguments, text):
            self.notes.append(Note(kind="arguments", message=f"{part.name}: invalid JSON was wrapped in an object"))
        return text

    def _result(self, part: ToolResult, others: list[Block]) -> ToolResultOut:
        """Return the block for a tool result.

        The API allows only text in a failed result, so its images and documents are appended to `others`.
        """
        block = ToolResultOut(plain_id(part.call_id), is_error=part.is_error or None)
        match part.content:
            case (Text() as only,) if not only.meta:
                block.content = only.text or None
            case ():
                pass
            case _:
                block.content = self._shown_inside(part, others) or None
        if part.meta:
            block.cache_control = part.meta.get("cache_control")
            self._marked(block)
        return block

    def _shown_inside(self, part: ToolResult, others: list[Block]) -> list[Shown]:
        shown = [block for inner in part.content for block in self._shown(inner)]
        moved = [block for block in shown if part.is_error and isinstance(block, ImageBlock | DocumentBlock)]
        others.extend(moved)
        return [block for block in shown if block not in moved]

    def _shown(self, part: Text | Image | File) -> Iterable[Shown]:
        match part:
            case Text(text=text, meta=meta):
                if not meta:
                    return () if is_blank(text) else (TextBlock(text),)
                own = meta.get(PROTOCOL, {})
                if "block" in own and (self.extensions or not _is_reference(own["block"])):
                    return (_raw(own["block"]),)
                return () if is_blank(text) else (self._marked(text_block(part)),)
            case Image():
                return (self._image(part) or self._left_out(part),)
            case File():
                return (self._file(part) or self._left_out(part),)

    def _image(self, part: Image) -> ImageBlock | None:
        """Return the block for an image, or None if the API does not accept it."""
        if part.data is not None:
            if part.media_type not in IMAGES:
                return None
            source: Base64Source | UrlSource = Base64Source(part.media_type, part.data)
        elif part.url is not None:
            source = UrlSource(part.url)
        else:
            return None
        if part.meta.get("detail", "auto") != "auto":
            self.notes.append(left_out("detail", "there is no such field in this protocol"))
        own = part.meta.get(PROTOCOL, {})
        return self._marked(ImageBlock(source, _raw(own.get("transformations")), part.meta.get("cache_control")))

    def _file(self, part: File) -> DocumentBlock | None:
        """Return the block for a file, or None if the API does not accept it."""
        source = _document_source(part)
        if source is None:
            return None
        own = part.meta.get(PROTOCOL, {})
        citations, mark = _raw(own.get("citations")), part.meta.get("cache_control")
        return self._marked(DocumentBlock(source, part.name, own.get("context"), citations, mark))

    def _left_out(self, part: Image | File) -> TextBlock:
        kind = "image" if isinstance(part, Image) else "file"
        name = part.name if isinstance(part, File) and part.name else part.media_type or kind
        self.notes.append(left_out(f"{kind} {name}", "the upstream does not accept it"))
        return self._marked(TextBlock(f"[{kind} left out: {name}]", cache_control=part.meta.get("cache_control")))

    def _marked(self, block: M) -> M:
        if block.cache_control:
            self.marked.append(block)
        return block

    def _other(self, part: Part) -> Iterable[Block]:
        """Return the blocks for a part of an assistant message that is not plain text, thinking or a call."""
        match part:
            case Text():
                return self._shown(part)
            case Image() | File():
                return (self._left_out(part),)
            case _:
                return self._foreign(part)

    def _foreign(self, part: Part) -> Iterable[Raw]:
        """Return the JSON of a part that only this protocol defines. Leave out any other part, and add a note."""
        if isinstance(part, Foreign) and part.protocol == PROTOCOL:
            return (_raw(part.json),)
        what = part.kind if isinstance(part, Foreign) else type(part).__name__
        self.notes.append(left_out(what, "the upstream has no such part here"))
        return ()


def text_block(part: Text) -> TextBlock:
    """Return the block for a text, with its citations and its cache mark."""
    own = part.meta.get(PROTOCOL, {})
    return TextBlock(part.text, _raw(own.get("citations")), part.meta.get("cache_control"))


def thinking_block(part: Thinking) -> ThinkingBlock | RedactedBlock:
    """Return the block for thinking, with its signature."""
    if part.redacted:
        return RedactedBlock(part.signature or "")
    return ThinkingBlock(part.text, part.signature or "")


def is_blank(text: str) -> bool:
    """Return whether a text is empty or consists only of white space. The API rejects such texts."""
    return not text or text.isspace()


def mark_offset(blocks: Sequence[object], after: int) -> int:
    """Return the position at which to insert a cache mark into a JSON text that ends with these blocks.

    The position is counted from the end of the text; 0 means that no block is allowed to have a mark. The mark becomes
    the last member of the last block that is allowed to have one. `after` is the number of characters that follow the
    last block in the text.
    """
    for block in reversed(blocks):
        if type(block) in _MARKABLE or (type(block) is Tool and not block.defer_loading):
            return after + 1
        after += len(encode(block)) + 1
    return 0


def _insert_thinking(blocks: list[Block], thinking: ThinkingBlock | RedactedBlock) -> None:
    """Insert a thinking block before the first call, where the API requires it."""
    calls = (at for at, block in enumerate(blocks) if isinstance(block, ToolUseBlock))
    blocks.insert(next(calls, len(blocks)), thinking)


def _is_reference(block: str) -> bool:
    """Return whether the JSON of a block is a tool_reference, which announces a tool with deferred loading.

    Upstreams without `Dialect.extensions` do not know such blocks.
    """
    return _HEAD.decode(block).type == "tool_reference"


def _raw(text: Any) -> Raw:
    return ABSENT if text is None else Raw(text.encode())


def _document_source(part: File) -> Base64Source | UrlSource | TextSource | None:
    if part.data is None:
        return None if part.url is None else UrlSource(part.url)
    if part.media_type == _PDF:
        return Base64Source(_PDF, part.data)
    if not part.media_type.startswith("text/"):
        return None
    try:
        return TextSource(b64decode(part.data).decode(), "text/plain")
    except ValueError:
        return None
