"""Convert between content blocks of the protocol and neutral parts.

Every agent accepts text and links. Images, audio and embedded files are sent only to agents that accept them. To
other agents, a text file is sent as text; an image, audio or any other file is replaced by a placeholder, and a note is
added.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import NamedTuple

from tieline.model.content import File, Image, Part, Text
from tieline.model.events import Note, left_out
from tieline.wire.acp.schema import (
    PROTOCOL,
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptCapabilities,
    Resource,
    ResourceLink,
    TextContent,
)
from tieline.wire.shared.lenient import well_formed

_PLAIN = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


class Prompt(NamedTuple):
    """The content blocks of a prompt, and notes about parts that were left out."""

    blocks: list[ContentBlock]
    notes: tuple[Note, ...]


def prompt_of(parts: Sequence[Part], takes: PromptCapabilities) -> Prompt:
    """Convert parts to a prompt for an agent with these capabilities.

    Parts other than text, images and files are ignored.
    """
    blocks: list[ContentBlock] = []
    notes: list[Note] = []
    for part in parts:
        block = _block(part, takes)
        if block is not None:
            blocks.append(block)
        elif isinstance(part, Image | File):
            name = _name(part)
            blocks.append(TextContent(text=f"[{name} omitted: this agent does not accept it]"))
            notes.append(left_out(name, "the agent does not accept it; it is not in the prompt"))
    return Prompt(blocks, tuple(notes))


def part_of(block: ContentBlock) -> Part:
    """Convert a content block to a neutral part."""
    match block:
        case TextContent():
            return Text(text=well_formed(block.text))
        case ImageContent():
            return Image(media_type=block.mime_type, data=block.data or None, url=block.uri)
        case AudioContent():
            return File(media_type=block.mime_type, data=block.data)
        case ResourceLink():
            return File(media_type=block.mime_type or "", url=block.uri, name=block.title or block.name)
        case EmbeddedResource():
            return _part_of_resource(block.resource)


def _part_of_resource(resource: Resource) -> Part:
    if resource.text is not None:
        return Text(text=well_formed(resource.text), meta={PROTOCOL: {"uri": resource.uri}})
    return File(media_type=resource.mime_type or "", data=resource.blob, name=resource.uri)


def _name(part: Image | File) -> str:
    if isinstance(part, Image):
        return part.media_type or "image"
    return part.name or part.media_type or "file"


def _block(part: Part, takes: PromptCapabilities) -> ContentBlock | None:
    match part:
        case Text():
            return TextContent(text=part.text) if part.text else None
        case Image(data=str(data)) if takes.image:
            return ImageContent(data=data, mime_type=part.media_type or "image/png", uri=part.url)
        case File(data=str(data)):
            return _file(part, data, takes)
        case Image(url=str(url)):
            return ResourceLink(uri=url, name="image", mime_type=part.media_type or None)
        case File(url=str(url)):
            return ResourceLink(uri=url, name=part.name or "file", mime_type=part.media_type or None)
        case _:
            return None


def _file(file: File, data: str, takes: PromptCapabilities) -> ContentBlock | None:
    if takes.audio and file.media_type.startswith("audio/"):
        return AudioContent(data=data, mime_type=file.media_type)
    text = _text_of(file, data)
    if takes.embedded_context:
        uri = file.url or f"attachment:///{file.name or 'file'}"
        blob = data if text is None else None
        return EmbeddedResource(resource=Resource(uri=uri, mime_type=file.media_type or None, text=text, blob=blob))
    if text is not None:
        return TextContent(text=f"{file.name or 'file'}:\n\n{text}")
    return None


def _text_of(file: File, data: str) -> str | None:
    if not file.media_type.startswith(_PLAIN):
        return None
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
