"""Parse the blocks of a client's messages.

Blocks that only this protocol has become Foreign parts with their JSON unchanged. Search results and documents that
consist of text become text that any model can read, with the JSON of the block in `meta`. A tool result cannot contain
Foreign parts, so all of its blocks that only this protocol has become such text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from tieline.model.content import (
    NO_META,
    File,
    Foreign,
    Image,
    Meta,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tieline.model.errors import BadRequest
from tieline.wire.anthropic.schema import (
    PROTOCOL,
    Base64Source,
    BlockHead,
    DocumentBlock,
    ImageBlock,
    KnownBlock,
    RedactedBlock,
    SourceHead,
    TextBlock,
    TextsBlock,
    TextSource,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultShell,
    ToolUseBlock,
    UrlSource,
    is_set,
    text_of,
)
from tieline.wire.shared import json
from tieline.wire.shared.base64 import check_base64
from tieline.wire.shared.spelling import is_plain_name, plain_id, restore_id
from tieline.wire.shared.unsupported import placed

T = TypeVar("T")
Path = tuple[int, ...]
"""The path of a block: the indices of its message, of the tool result that contains it (if any), and of the block."""

_HEAD = msgspec.json.Decoder(BlockHead)
_SOURCE = msgspec.json.Decoder(SourceHead)
_BLOCK: msgspec.json.Decoder[KnownBlock] = msgspec.json.Decoder(KnownBlock)

_TEXTS = msgspec.json.Decoder(TextsBlock)

_KNOWN = frozenset({"text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"})
_KNOWN_INSIDE = frozenset({"text", "image", "document", "tool_reference"})
_SOURCES = {"image": ("base64", "url"), "document": ("base64", "url", "text")}
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The media types of images that the API accepts."""
_NULLS = re.compile(rb":\s*null")
_ORDER = {ToolResult: 0, ToolCall: 2}
"""Sort keys for the order of parts that the API requires: tool results first, calls last. Other parts have key 1."""
_MISSING = re.compile(r"missing required field `(\w+)`")


def content_parts(content: str | list[Raw] | None, message: int) -> tuple[Part, ...]:
    """Parse the content of the message with this index: a string or a list of blocks."""
    if not content:
        return ()
    if isinstance(content, str):
        return (Text(text=content),)
    return tuple(_part(raw, (message, place)) for place, raw in enumerate(content))


def is_standard(role: str, parts: Sequence[Part], text: bytes) -> bool:
    """Return whether the API accepts a message unchanged. `text` is its JSON, `parts` are its parsed blocks."""
    if not parts or (role == "system" and any(type(part) is not Text for part in parts)):
        return False
    if text.find(b"null") >= 0 and _NULLS.search(text):  # most texts need only the first search, which is fast
        return False
    order = [_ORDER.get(type(part), 1) for part in parts]
    return order == sorted(order) and all(map(_is_standard_part, parts))


def _is_standard_part(part: Part) -> bool:
    # Type comparisons, because class patterns that do not match are slow.
    if type(part) is Text:
        return bool(part.text) and not part.text.isspace()
    if type(part) is ToolResult:
        return _is_standard_result(part)
    if type(part) is ToolCall:
        return plain_id(part.id) == part.id and json.is_object(part.arguments) and is_plain_name(part.name)
    if type(part) is Thinking:
        return is_signed(part)
    if type(part) is Image and part.data is not None:
        return part.media_type in IMAGES
    return True


def _is_standard_result(part: ToolResult) -> bool:
    content = part.content
    if part.is_error and any(type(inner) is not Text for inner in content):
        return False
    return plain_id(part.call_id) == part.call_id and all(map(_is_standard_part, content))


def is_signed(part: Thinking) -> bool:
    """Return whether thinking has a signature that the API may have issued.

    A signature that contains a colon is from an OpenAI upstream.
    """
    signature = part.signature
    return signature is not None and signature != "" and ":" not in signature


def text_part(block: TextBlock) -> Text:
    """Return the part for a text block, with its citations and cache mark."""
    own = {"citations": text_of(block.citations)} if is_set(block.citations) else {}
    return Text(text=block.text, meta=meta_of(block.cache_control, own))


def meta_of(cache_control: Any, own: Mapping[str, Any]) -> Meta:
    """Return the `meta` of a part or tool: `own`, and the cache mark under a key that all protocols share."""
    if not own:
        return {"cache_control": cache_control} if cache_control else NO_META
    return {"cache_control": cache_control, PROTOCOL: own} if cache_control else {PROTOCOL: own}


def parse(decoder: msgspec.json.Decoder[T], data: bytes | Raw, at: str = "") -> T:
    """Decode JSON from a client. If that fails, raise BadRequest with the path of the invalid or missing field.

    `at` is the path at which `data` occurs in the request.
    """
    try:
        return json.parse(decoder, data, at)
    except BadRequest as error:
        missing = _MISSING.search(error.message)
        if missing is None:
            raise
        raise required(f"{error.param}.{missing[1]}" if error.param else missing[1]) from error


def required(param: str) -> BadRequest:
    """Return the error for a missing field. `param` is the path of the field."""
    return BadRequest(f"`{param}`: field required", param)


def unexpected(param: str, expected: str, got: str) -> BadRequest:
    """Return the error for a field with the unexpected value `got`.

    `param` is the path of the field, and `expected` describes the allowed values.
    """
    return BadRequest(f"`{param}`: expected {expected}, got {got!r}", param)


# ── One block ────────────────────────────────────────────────────────────────────────────────────


def _part(raw: Raw, path: Path) -> Part:
    match _known(raw, path, _KNOWN):
        case TextBlock() as block:
            return text_part(block)
        case ToolUseBlock() as block:
            return _call(block)
        case ToolResultShell() as block:
            return _result(block, path)
        case ThinkingBlock() as block:
            return Thinking(text=block.thinking, signature=block.signature or None)
        case RedactedBlock() as block:
            return Thinking(signature=block.data, redacted=True)
        case ImageBlock() as block:
            return _image(block, path)
        case DocumentBlock() as block:
            return _document(block, raw, path)
        case ToolReferenceBlock():
            return _foreign(raw, "tool_reference", path)
        case kind:
            return _as_text(raw, kind) or _foreign(raw, kind, path)


def _known(raw: Raw, path: Path, kinds: frozenset[str]) -> KnownBlock | str:
    """Return the decoded block, or only its type if the type of the block or of its source is unknown.

    `kinds` are the known types of blocks. Raise BadRequest if a block of a known type is invalid.
    """
    try:
        return _BLOCK.decode(raw)
    except msgspec.ValidationError:
        kind = _kind(raw, path)
        if kind not in kinds or not _has_known_source(kind, raw, path):
            return kind
        return parse(_BLOCK, raw, _path_text(path))


def _call(block: ToolUseBlock) -> ToolCall:
    own = {name: text_of(value) for name in ("caller", "toolset_name") if is_set(value := getattr(block, name))}
    return ToolCall(
        id=restore_id(block.id),
        name=block.name,
        arguments=text_of(block.input) if is_set(block.input) else "{}",
        meta=meta_of(block.cache_control, own),
    )


def _image(block: ImageBlock, path: Path) -> Image:
    own = {"transformations": text_of(block.transformations)} if is_set(block.transformations) else {}
    meta = meta_of(block.cache_control, own)
    match block.source:
        case Base64Source(media_type=media_type, data=data):
            return Image(media_type=media_type, data=_checked(data, path), meta=meta)
        case UrlSource(url=url):
            return Image(url=url, meta=meta)


def _document(block: DocumentBlock, raw: Raw, path: Path) -> Text | File:
    match block.source:
        case TextSource(data=data):
            text = _with_headings(data, block.title, block.context)
            return Text(text=text, meta=meta_of(block.cache_control, {"block": text_of(raw)}))
        case Base64Source(media_type=media_type, data=data):
            return File(media_type=media_type, data=_checked(data, path), name=block.title, meta=_document_meta(block))
        case UrlSource(url=url):
            return File(media_type="application/pdf", url=url, name=block.title, meta=_document_meta(block))


def _foreign(raw: Raw, kind: str, path: Path) -> Part:
    return placed(Foreign(protocol=PROTOCOL, kind=kind, json=text_of(raw)), _path_text(path))


def _as_text(raw: Raw, kind: str) -> Text | None:
    """Return a search result or document as text, with the block's JSON in `meta`; None for any other block."""
    if kind not in ("search_result", "document"):
        return None
    try:
        block = _TEXTS.decode(raw)
    except msgspec.ValidationError:
        return None
    source = block.source
    content = block.content if isinstance(source, str) else source.content
    texts = content if isinstance(content, str) else "\n\n".join(inner.text for inner in content)
    if not texts:
        return None
    about = source if isinstance(source, str) else block.context
    return Text(
        text=_with_headings(texts, block.title, about), meta=meta_of(block.cache_control, {"block": text_of(raw)})
    )


def _with_headings(text: str, *headings: str | None) -> str:
    """Return the text with the given headings above it. Headings that are empty or None are skipped."""
    about = "\n".join(heading for heading in headings if heading)
    return f"{about}\n\n{text}" if about else text


def _document_meta(block: DocumentBlock) -> Meta:
    own = {}
    if block.context:
        own["context"] = block.context
    if is_set(block.citations):
        own["citations"] = text_of(block.citations)
    return meta_of(block.cache_control, own)


# ── Tool results ─────────────────────────────────────────────────────────────────────────────────


def _result(block: ToolResultShell, path: Path) -> ToolResult:
    content: tuple[Text | Image | File, ...] = ()
    if isinstance(block.content, str):
        content = (Text(text=block.content),) if block.content else ()
    elif block.content:
        content = tuple(_inner(raw, (*path, place)) for place, raw in enumerate(block.content))
    return ToolResult(
        call_id=restore_id(block.tool_use_id),
        content=content,
        is_error=bool(block.is_error),
        meta=meta_of(block.cache_control, {}),
    )


def _inner(raw: Raw, path: Path) -> Text | Image | File:
    match _known(raw, path, _KNOWN_INSIDE):
        case TextBlock() as block:
            return text_part(block)
        case ImageBlock() as block:
            return _image(block, path)
        case DocumentBlock() as block:
            return _document(block, raw, path)
        case ToolReferenceBlock(tool_name=name):
            return Text(text=f"Tool {name} is now available.", meta={PROTOCOL: {"block": text_of(raw)}})
        case kind:
            text = _as_text(raw, kind) if isinstance(kind, str) else None
            return text or Text(text=text_of(raw), meta={PROTOCOL: {"block": text_of(raw)}})


# ── Checks ───────────────────────────────────────────────────────────────────────────────────────


def _path_text(path: Path) -> str:
    message, *places = path
    return f"messages[{message}]" + "".join(f".content[{place}]" for place in places)


def _kind(raw: Raw, path: Path) -> str:
    kind = parse(_HEAD, raw, _path_text(path)).type
    if kind is None:
        raise required(f"{_path_text(path)}.type")
    return kind


def _has_known_source(kind: str, raw: Raw, path: Path) -> bool:
    known = _SOURCES.get(kind)
    if known is None:
        return True
    source = parse(_SOURCE, raw, _path_text(path)).source.type
    if source is None:
        raise required(f"{_path_text(path)}.source.type")
    return source in known


def _checked(data: str, path: Path) -> str:
    """Return the base64 text `data` without white space. Raise BadRequest, with `path`, if it is invalid."""
    try:
        return _as_base64(data)
    except ValueError as error:
        param = f"{_path_text(path)}.source.data"
        raise BadRequest(f"`{param}`: expected base64", param) from error


def _as_base64(data: str) -> str:
    try:
        check_base64(data)
    except ValueError:
        data = "".join(data.split())
        check_base64(data)
    if not data:
        raise ValueError("there is no data")
    return data
