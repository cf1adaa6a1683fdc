"""Several answers to one request: `n` choices, each of them a leg of its own."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from tieline.model.errors import BadRequest
from tieline.model.events import Reply, Usage
from tieline.model.request import Request
from tieline.wire.openai_chat.writer import Options, render
from tieline.wire.shared.json import encode, parse

MOST = 16

_NUMBER = msgspec.json.Decoder(int)
_BODY = msgspec.json.Decoder(dict[str, msgspec.Raw])
_CHOICES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def choices(request: Request) -> int:
    """How many answers the client wants."""
    if "n" not in request.extra:
        return 1
    number = parse(_NUMBER, request.extra["n"], "n")
    if not 1 <= number <= MOST:
        raise BadRequest(f"`n` is {number}: from 1 to {MOST} choices can be asked for", "n")
    if request.stream and number > 1:
        raise BadRequest("`n`: a stream holds one choice; ask without `stream` for several", "n")
    return number


def one_choice(request: Request) -> Request:
    """The request for one of the answers."""
    return replace(request, extra={name: value for name, value in request.extra.items() if name != "n"})


def render_choices(replies: Sequence[Reply], options: Options) -> bytes:
    """All answers in one body, each with its index; usage is what all of them took."""
    usages = [reply.usage for reply in replies]
    total = Usage(**{name: sum(getattr(usage, name) for usage in usages) for name in Usage.__struct_fields__})
    body = _BODY.decode(render(replace(replies[0], usage=total), options))
    listed = []
    for index, reply in enumerate(replies):
        choice = _CHOICES.decode(_BODY.decode(render(reply, options))["choices"])[0]
        listed.append({**choice, "index": index})
    return encode({**body, "choices": listed})
