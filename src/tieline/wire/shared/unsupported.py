"""Content that an upstream cannot take: refused with the place of the part, never silently replaced."""

from msgspec.structs import replace

from tieline.model.content import File, Foreign, Image, Part
from tieline.model.errors import BadRequest

AT = "at"
"""The key in `meta` for the path of a part in the client's request; parts that every upstream takes have none."""


def placed(part: Part, at: str) -> Part:
    """The part with its path."""
    return replace(part, meta={**part.meta, AT: at})


def within(part: Part, place: str) -> Part:
    """The part with its path seen from further outside."""
    return replace(part, meta={**part.meta, AT: f"{place}.{part.meta[AT]}"}) if AT in part.meta else part


def refused(part: Part, taken: str) -> BadRequest:
    """The error for a part of a user's message that the upstream cannot take; `taken` is what it does take."""
    at = str(part.meta.get(AT, "messages"))
    match part:
        case Foreign():
            what = f"`{part.kind}` content"
        case Image() | File():
            kind = "images" if isinstance(part, Image) else "files"
            what = f"{kind} of the type {part.media_type or 'unknown'}"
        case _:
            what = f"{type(part).__name__} parts"
    return BadRequest(f"`{at}`: the upstream of this model does not take {what}, expected {taken}", at)
