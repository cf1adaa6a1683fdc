"""Content blocks and neutral parts: what a user says to an agent, and what an agent shows.

Every agent takes text and links. Pictures, sounds and whole files go only to agents that say they take them; to the
others a text file is said as text, and of everything else a note remains, so that nobody wonders.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import NamedTuple

from tieline.model.content import File, Image, Part, Text
from tieline.model.events import Note, left_out
from tieline.wire.acp.schema import (
    PROTOCOL,
    AudioBlock,
    Block,
    ImageBlock,
    LinkBlock,
    PromptCapabilities,
    Resource,
    ResourceBlock,
    TextBlock,
)
from tieline.wire.shared.lenient import well_formed

_PLAIN = ("text/", "application/json", "application/xml", "application/yaml", "application/toml")


class Prompt(NamedTuple):
    """What is sent of a message, and what a person should know was not."""

    blocks: list[Block]
    notes: tuple[Note, ...]


def prompt_of(parts: Sequence[Part], takes: PromptCapabilities) -> Prompt:
    """The blocks that say these parts to an agent; what is neither text nor picture nor file is left out."""
    blocks: list[Block] = []
    notes: list[Note] = []
    for part in parts:
        block = _block(part, takes)
        if block is not None:
            blocks.append(block)
        elif isinstance(part, Image | File):
            kind = part.media_type or "picture"
            blocks.append(TextBlock(text=f"[a {kind} was here, which this agent cannot take]"))
            notes.append(left_out(kind, "the agent takes none, it is not in the prompt"))
    return Prompt(blocks, tuple(notes))


def part_of(block: Block) -> Part:
    """The neutral part of a block."""
    match block:
        case TextBlock():
            return Text(text=well_formed(block.text))
        case ImageBlock():
            return Image(media_type=block.mime_type, data=block.data or None, url=block.uri)
        case AudioBlock():
            return File(media_type=block.mime_type, data=block.data)
        case LinkBlock():
            return File(media_type=block.mime_type or "", url=block.uri, name=block.title or block.name)
        case ResourceBlock():
            return _part_of_resource(block.resource)


def _part_of_resource(resource: Resource) -> Part:
    if resource.text is not None:
        return Text(text=well_formed(resource.text), meta={PROTOCOL: {"uri": resource.uri}})
    return File(media_type=resource.mime_type or "", data=resource.blob, name=resource.uri)


def _block(part: Part, takes: PromptCapabilities) -> Block | None:
    match part:
        case Text():
            return TextBlock(text=part.text) if part.text else None
        case Image(data=str(data)) if takes.image:
            return ImageBlock(data=data, mime_type=part.media_type or "image/png", uri=part.url)
        case File(data=str(data)):
            return _file(part, data, takes)
        case Image(url=str(url)):
            return LinkBlock(uri=url, name="image", mime_type=part.media_type or None)
        case File(url=str(url)):
            return LinkBlock(uri=url, name=part.name or "file", mime_type=part.media_type or None)
        case _:
            return None


def _file(file: File, data: str, takes: PromptCapabilities) -> Block | None:
    if takes.audio and file.media_type.startswith("audio/"):
        return AudioBlock(data=data, mime_type=file.media_type)
    text = _text_of(file, data)
    if takes.embedded_context:
        uri = file.url or f"attachment:///{file.name or 'file'}"
        blob = data if text is None else None
        return ResourceBlock(resource=Resource(uri=uri, mime_type=file.media_type or None, text=text, blob=blob))
    if text is not None:
        return TextBlock(text=f"{file.name or 'file'}:\n\n{text}")
    return None


def _text_of(file: File, data: str) -> str | None:
    if not file.media_type.startswith(_PLAIN):
        return None
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
