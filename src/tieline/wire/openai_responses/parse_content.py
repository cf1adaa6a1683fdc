"""Parse the content of a client's items: the parts of messages, and tool outputs.

Besides the parts in the spec, content parts from Chat Completions and content blocks from Anthropic's API are accepted,
because some clients send them to this endpoint.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from tieline.model.content import NO_META, File, Foreign, Image, Meta, Part, Text
from tieline.wire.openai_responses.schema import PROTOCOL, Content, PartShape
from tieline.wire.shared.blocks import BLOCKS, read_block
from tieline.wire.shared.fields import bad, checked_base64, data_url, json_text
from tieline.wire.shared.json import encode, parse
from tieline.wire.shared.shapes import FileRef
from tieline.wire.shared.unsupported import placed

_PART = msgspec.json.Decoder(PartShape)
_COMMON_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def content_parts(content: Content, meta: Meta = NO_META, at: str = "content") -> list[Part]:
    """Parse the content of a message: a string, null, or a list of parts. Empty texts are dropped.

    `meta` is stored in each text; it describes the item that the texts belong to.
    """
    if isinstance(content, str):
        return [Text(text=content, meta=meta)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise bad(at, "a string or an array of content parts")
    parts = [_part(raw, meta, f"{at}[{position}]") for position, raw in enumerate(content)]
    return [part for part in parts if not (isinstance(part, Text) and not part.text)]


def output_parts(output: Content, at: str = "output") -> tuple[Text | Image | File, ...]:
    """Parse the output of a tool: texts, images and files. Any other JSON becomes text."""
    if isinstance(output, str):
        return (Text(text=output),) if output else ()
    if output is None:
        return ()
    if isinstance(output, list) and all(map(_is_output_part, output)):
        parts = content_parts(output, at=at)
        return tuple(part for part in parts if isinstance(part, Text | Image | File))
    return (Text(text=encode(output).decode()),)


def _is_output_part(raw: Raw) -> bool:
    try:
        shape = _PART.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    is_by_id = shape.file_id is not None or (shape.file is not None and shape.file.file_data is None)
    return shape.type in _OUTPUT_KINDS and not is_by_id


# ── One function per kind of part ────────────────────────────────────────────────────────────────


def _part(raw: Raw, meta: Meta, at: str) -> Part:
    shape = parse(_PART, raw, at)
    read = _KINDS.get(shape.type or "", _foreign)
    return read(shape, raw, meta, at)


def _text(shape: PartShape, _raw: Raw, meta: Meta, at: str) -> Part:
    if shape.text is None:
        raise bad(f"{at}.text", "a string")
    return Text(text=shape.text, meta=_with_annotations(shape, meta))


def _with_annotations(shape: PartShape, meta: Meta) -> Meta:
    annotations = bytes(shape.annotations)
    if annotations.strip() in (b"", b"[]", b"null"):
        return meta
    return {PROTOCOL: {**meta.get(PROTOCOL, {}), "annotations": annotations.decode()}}


def _refusal(shape: PartShape, _raw: Raw, meta: Meta, at: str) -> Part:
    if shape.refusal is None:
        raise bad(f"{at}.refusal", "a string")
    return Text(text=shape.refusal, refusal=True, meta=meta)


def _image(shape: PartShape, raw: Raw, _meta: Meta, at: str) -> Part:
    if shape.image_url is None and shape.file_id is not None:
        return _foreign(shape, raw, _meta, at)
    if isinstance(shape.image_url, str) or shape.image_url is None:
        at, url, detail = f"{at}.image_url", shape.image_url, shape.detail
    else:
        at, url, detail = f"{at}.image_url.url", shape.image_url.url, shape.image_url.detail or shape.detail
    if not url:
        raise bad(at, "the URL of an image, or its data as a data: URL")
    meta = NO_META if detail is None else {"detail": detail}
    if url[:5].lower() != "data:":
        return Image(url=url, meta=meta)
    media_type, data = data_url(url, at)
    image = Image(media_type=media_type, data=data, meta=meta)
    return image if media_type in _COMMON_IMAGES else placed(image, at)


def _file(shape: PartShape, raw: Raw, meta: Meta, at: str) -> Part:
    file = shape.file or FileRef(file_data=shape.file_data, file_id=shape.file_id, filename=shape.filename)
    if shape.file_url:
        return File(media_type="application/pdf", url=shape.file_url, name=file.filename)
    if file.file_data is None:
        return _foreign(shape, raw, meta, at)
    at = f"{at}.file.file_data" if shape.file else f"{at}.file_data"
    if file.file_data[:5].lower() == "data:":
        media_type, data = data_url(file.file_data, at)
    else:
        media_type, data = "application/pdf", checked_base64(file.file_data, at)
    part = File(media_type=media_type, data=data, name=file.filename)
    return part if media_type == "application/pdf" or media_type.startswith("text/") else placed(part, at)


def _block(_shape: PartShape, raw: Raw, _meta: Meta, at: str) -> Part:
    """Parse a content block in the format of Anthropic's API, which some editors send."""
    return read_block(raw, at, output_parts)


def _foreign(shape: PartShape, raw: Raw, _meta: Meta, at: str) -> Part:
    if not shape.type:
        raise bad(f"{at}.type", "the type of a content part")
    return placed(Foreign(protocol=PROTOCOL, kind=shape.type, json=json_text(raw)), at)


_KINDS: dict[str, Callable[[PartShape, Raw, Meta, str], Part]] = {
    "input_text": _text,
    "output_text": _text,
    "text": _text,
    "summary_text": _text,
    "refusal": _refusal,
    "input_image": _image,
    "image_url": _image,
    "input_file": _file,
    "file": _file,
    **dict.fromkeys(BLOCKS, _block),
}
_OUTPUT_KINDS = frozenset(_KINDS) - {"refusal", "tool_use", "tool_result", "thinking", "redacted_thinking"}
