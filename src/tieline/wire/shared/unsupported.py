"""Errors and notes about content and tools that an upstream does not support, with the path in the client's request."""

from msgspec.structs import replace

from tieline.model.content import File, Foreign, Image, Message, Part
from tieline.model.errors import BadRequest
from tieline.model.events import Note, left_out
from tieline.model.request import Request, ToolSpec

AT = "at"
"""The key in `meta` for the path of a part in the request. Only parts that some upstream may reject have it."""

TOOL_ADDITIONS = frozenset(["tool_addition", "additional_tools"])
"""Kinds of `Foreign` parts that occur in system messages and define tools. The tools are also among the request's
tools, so nothing is lost if such a part is dropped."""

_SAME_TOOL = frozenset(["tool", "name", "namespace", "namespace_description", "inline"])
"""Extensions of a tool that only describe its form in another protocol. Leaving them out loses nothing."""


_DETAILS = frozenset(["name", "context", "citations", "transformations"])
"""Fields of messages, images and files that exist in only one protocol and matter to the answer."""


def placed(part: Part, at: str) -> Part:
    """Return a copy of the part with its path in the request, `at`, stored in `meta`."""
    return replace(part, meta={**part.meta, AT: at})


def within(part: Part, place: str) -> Part:
    """Return a copy of the part with `place` prepended to its path in `meta`, if it has one."""
    return replace(part, meta={**part.meta, AT: f"{place}.{part.meta[AT]}"}) if AT in part.meta else part


def refused(part: Part, taken: str) -> BadRequest:
    """Return the error for a part that the upstream does not support; `taken` names the supported kinds of content."""
    at = str(part.meta.get(AT, "messages"))
    match part:
        case Foreign():
            what = f"`{part.kind}` content"
        case Image() | File():
            kind = "images" if isinstance(part, Image) else "files"
            what = f"{kind} of the type {part.media_type or 'unknown'}"
        case _:
            what = f"{type(part).__name__} parts"
    return BadRequest(f"`{at}`: the upstream of this model does not accept {what}; expected {taken}", at)


def without_hosted(tool: ToolSpec, position: int, request: Request) -> Note:
    """Return a note that `tool`, which only another upstream could run, is not offered.

    Raise BadRequest if the client depends on it: the tool choice names it, or the request offers no tools that the
    client runs.
    """
    at = f"tools[{position}]"
    problem = f"this upstream cannot run the hosted tool '{tool.hosted}'"
    if tool.name in request.tool_choice.names or all(other.hosted for other in request.tools):
        raise BadRequest(f"`{at}`: {problem}", at)
    return left_out(at, problem)


def lost_extensions(tool: ToolSpec, protocol: str) -> list[Note]:
    """Return a note for each extension of a tool that this protocol does not define."""
    found = [own for name, own in tool.meta.items() if name not in (protocol, "cache_control", "format")]
    # An entry with a `type` is not an extension but the original definition of a tool that became an ordinary one.
    names = [name for own in found if isinstance(own, dict) and "type" not in own for name in own]
    return [left_out(f"tools.{name}", "an extension of another protocol") for name in names if name not in _SAME_TOOL]


def lost_details(value: Message | Image | File, protocol: str) -> list[Note]:
    """Return a note for each field of a message, image or file that this protocol does not define."""
    found = (own for name, own in value.meta.items() if name != protocol and isinstance(own, dict))
    return [left_out(name, "a field of another protocol") for own in found for name in own if name in _DETAILS]
