"""An upstream's answer that did not stream, as the events of a leg.

Nearly every answer is words, thoughts and calls with nothing odd about them: that is decoded in one pass. Any other
goes block by block through the reader of streams, which knows what to do about what is odd.
"""

import msgspec

from tieline.model.assemble import part_events, reason_for
from tieline.model.content import Part, Thinking
from tieline.model.events import Event, Started
from tieline.wire.anthropic.reader import NO_TEXT, ResponseReader, arguments_of, call_of
from tieline.wire.anthropic.schema import ABSENT, BlockIn, ReplyIn, given
from tieline.wire.anthropic.usage import NO_USAGE, REASONS, finished_by, usage_of
from tieline.wire.shared.spelling import UNCHANGED, Spelled

_REPLY = msgspec.json.Decoder(ReplyIn)


def read_reply(body: bytes, spelled: Spelled = UNCHANGED, *, fallback_id: str = "", model: str = "") -> list[Event]:
    """The events of a whole answer."""
    try:
        events = _usual_events(_REPLY.decode(body), spelled, fallback_id, model)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        events = None
    if events is None:
        return ResponseReader(spelled, fallback_id=fallback_id, model=model).read_whole(body)
    return events


def _usual_events(reply: ReplyIn, spelled: Spelled, fallback_id: str, model: str) -> list[Event] | None:
    """The events of an answer; None if anything about it is odd."""
    reason = REASONS.get(reply.stop_reason)
    if reason is None or reply.error is not ABSENT:
        return None
    events: list[Event] = [Started(id=reply.id or fallback_id, model=reply.model or model)]
    if reply.usage is not None and (usage := usage_of(reply.usage)) != NO_USAGE:
        events.append(usage)
    made: set[str] = set()
    for index, block in enumerate(reply.content):
        part = _usual_part(block, spelled, made)
        if part is None:
            return None
        events += part_events(index, *part)
    events.append(finished_by(reason_for(len(made), reason), reply))
    return events


def _usual_part(block: BlockIn, spelled: Spelled, made: set[str]) -> tuple[Part, str] | None:
    """A part without its text, and the text. The ids of the calls so far are `made`: no two may be the same."""
    match block.type:
        case "text" if block.citations is ABSENT or not given(block.citations):
            return NO_TEXT, block.text or block.thinking or ""
        case "thinking":
            return Thinking(signature=block.signature or None), block.text or block.thinking or ""
        case "tool_use" if block.id and block.name:
            call = call_of(block, spelled)
            if not call.id or call.id in made or call.freeform:  # raw text may hold half an emoji
                return None
            made.add(call.id)
            return call, arguments_of(block, call)
        case _:
            return None
