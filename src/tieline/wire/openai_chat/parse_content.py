"""Parse the content parts of a client's messages.

Besides the parts in the spec, Anthropic's content blocks are accepted, because some editors send them to this endpoint.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from tieline.model.content import NO_META, File, Foreign, Image, Meta, Part, Text
from tieline.wire.openai_chat.schema import PROTOCOL, PartShape
from tieline.wire.shared.blocks import BLOCKS, Content, read_block
from tieline.wire.shared.fields import bad, checked_base64, data_url, json_text
from tieline.wire.shared.json import encode, parse
from tieline.wire.shared.unsupported import placed

_PART = msgspec.json.Decoder(PartShape)


def content_parts(content: Content, at: str = "content") -> list[Part]:
    """Parse the content of a message: a string, null, or a list of parts. Empty texts are dropped."""
    if isinstance(content, str):
        return [Text(text=content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise bad(at, "a string or an array of content parts")
    parts = [_part(raw, f"{at}[{position}]") for position, raw in enumerate(content)]
    return [part for part in parts if not (isinstance(part, Text) and not part.text)]


def result_parts(content: Content, at: str = "content") -> tuple[Text | Image | File, ...]:
    """Parse the content of a tool result: texts, images and files. Any other JSON becomes text."""
    if isinstance(content, str):
        return (Text(text=content),) if content else ()
    if content is None:
        return ()
    if isinstance(content, list) and all(map(_is_result_part, content)):
        parts = content_parts(content, at)
        return tuple(part for part in parts if isinstance(part, Text | Image | File))
    return (Text(text=encode(content).decode()),)


def _is_result_part(raw: Raw) -> bool:
    try:
        shape = _PART.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return shape.type in _RESULT_KINDS or (shape.file is not None and shape.file.file_data is not None)


# ── One function per kind of part ────────────────────────────────────────────────────────────────


def _part(raw: Raw, at: str) -> Part:
    shape = parse(_PART, raw, at)
    read = _KINDS.get(shape.type or "")
    if read is None:
        got = "nothing" if shape.type is None else f"'{shape.type}'"
        raise bad(f"{at}.type", f"one of {', '.join(_KINDS)}, got {got}")
    return read(shape, raw, at)


def _text(shape: PartShape, _raw: Raw, at: str) -> Part:
    if shape.text is None:
        raise bad(f"{at}.text", "a string")
    return Text(text=shape.text, meta=_meta(shape))


def _refusal(shape: PartShape, _raw: Raw, at: str) -> Part:
    if shape.refusal is None:
        raise bad(f"{at}.refusal", "a string")
    return Text(text=shape.refusal, refusal=True)


def _image_url(shape: PartShape, _raw: Raw, at: str) -> Part:
    if isinstance(shape.image_url, str) or shape.image_url is None:
        at, url, detail = f"{at}.image_url", shape.image_url, shape.detail
    else:
        at, url, detail = f"{at}.image_url.url", shape.image_url.url, shape.image_url.detail
    if not url:
        raise bad(at, "the URL of an image, or its data as a data: URL")
    meta = _meta(shape, detail=detail)
    if url[:5].lower() != "data:":
        return Image(url=url, meta=meta)
    media_type, data = data_url(url, at)
    image = Image(media_type=media_type, data=data, meta=meta)
    return image if media_type in _COMMON_IMAGES else placed(image, at)


def _file(shape: PartShape, raw: Raw, at: str) -> Part:
    file = shape.file
    if file is None:
        raise bad(f"{at}.file", "an object")
    if file.file_data is None:
        return placed(Foreign(protocol=PROTOCOL, kind="file", json=json_text(raw)), at)
    at = f"{at}.file.file_data"
    if file.file_data[:4].lower() == "http":
        return _linked(file.file_data, file.filename, raw, at)
    if file.file_data[:5].lower() == "data:":
        media_type, data = data_url(file.file_data, at)
    else:
        media_type, data = "application/pdf", checked_base64(file.file_data, at)
    part = File(media_type=media_type, data=data, name=file.filename, meta=_meta(shape))
    return part if media_type == "application/pdf" or media_type.startswith("text/") else placed(part, at)


def _document_url(shape: PartShape, raw: Raw, at: str) -> Part:
    if not shape.document_url:
        raise bad(f"{at}.document_url", "the URL of a document")
    return _linked(shape.document_url, shape.document_name, raw, f"{at}.document_url")


def _linked(url: str, name: str | None, raw: Raw, at: str) -> Part:
    """Return the file part for a document URL. Keep `raw`, the client's JSON, because some upstreams accept it."""
    meta = {PROTOCOL: {"part": json_text(raw)}}
    return placed(File(media_type="application/pdf", url=url, name=name, meta=meta), at)


def _foreign(shape: PartShape, raw: Raw, at: str) -> Part:
    return placed(Foreign(protocol=PROTOCOL, kind=shape.type or "", json=json_text(raw)), at)


def _block(_shape: PartShape, raw: Raw, at: str) -> Part:
    """Parse a content block in the format of Anthropic's API, which some editors send."""
    return read_block(raw, at, result_parts)


def _thinking(shape: PartShape, raw: Raw, at: str) -> Part:
    if isinstance(shape.thinking, list):
        return Foreign(protocol=PROTOCOL, kind="thinking", json=json_text(raw))
    return read_block(raw, at, result_parts)


_KINDS: dict[str, Callable[[PartShape, Raw, str], Part]] = {
    "text": _text,
    "image_url": _image_url,
    "file": _file,
    "document_url": _document_url,
    "input_audio": _foreign,
    "refusal": _refusal,
    "input_text": _text,
    "output_text": _text,
    "input_image": _image_url,
    "audio_url": _foreign,
    "video_url": _foreign,
    **dict.fromkeys(BLOCKS, _block),
    "thinking": _thinking,
}
_COMMON_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_RESULT_KINDS = frozenset({"text", "input_text", "output_text", "image_url", "input_image", "image", "document"})


def _meta(shape: PartShape, detail: str | None = None) -> Meta:
    if shape.cache_control is None and detail is None:
        return NO_META
    meta: dict[str, Any] = {}
    if shape.cache_control is not None:
        meta["cache_control"] = shape.cache_control
    if detail is not None:
        meta["detail"] = detail
    return meta
