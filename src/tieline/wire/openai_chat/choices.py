"""Requests for several answers (`n` in the request). Each answer is a separate leg and becomes one of the choices."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tieline.model.errors import BadRequest
from tieline.model.events import Reply, Usage
from tieline.model.request import Request
from tieline.wire.openai_chat.dialect import Options
from tieline.wire.openai_chat.writer import render
from tieline.wire.shared.json import encode, parse

MAX_CHOICES = 16

_NUMBER = msgspec.json.Decoder(int)
_BODY = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CHOICES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def choices(request: Request) -> int:
    """Return how many answers the client requests (`n`).

    Raise BadRequest if the number is out of range, or if it is above 1 for a stream.
    """
    if "n" not in request.extra:
        return 1
    number = parse(_NUMBER, request.extra["n"], "n")
    if not 1 <= number <= MAX_CHOICES:
        raise BadRequest(f"`n`: expected a number from 1 to {MAX_CHOICES}, got {number}", "n")
    if request.stream and number > 1:
        raise BadRequest(
            f"`n`: expected 1 with `stream`, got {number}; several answers are possible only without `stream`", "n"
        )
    return number


def one_choice(request: Request) -> Request:
    """Return a copy of the request that asks for only one answer."""
    return replace(request, extra={name: value for name, value in request.extra.items() if name != "n"})


def render_choices(replies: Sequence[Reply], options: Options) -> bytes:
    """Return the response body with all answers as numbered choices, and with their total usage.

    The replies must have no source. Otherwise the usage would be copied from the first one.
    """
    usages = [reply.usage for reply in replies]
    total = Usage(**{name: sum(getattr(usage, name) for usage in usages) for name in Usage.__struct_fields__})
    body = _BODY.decode(render(replace(replies[0], usage=total), options))
    listed = []
    for index, reply in enumerate(replies):
        choice = _CHOICES.decode(_BODY.decode(render(reply, options))["choices"])[0]
        listed.append({**choice, "index": index})
    return encode({**body, "choices": listed})
