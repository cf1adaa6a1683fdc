"""What an answer says of itself beside its words: how many tokens it took, and why it ended."""

import msgspec
from msgspec import Raw

from tieline.model.content import NO_META
from tieline.model.events import Finished, StopReason, Usage
from tieline.wire.anthropic.schema import ABSENT, PROTOCOL, DeltaIn, StopDetails, UsageIn, given, text_of
from tieline.wire.shared.json import Malformed, read

REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "pause_turn": StopReason.PAUSED,
    "refusal": StopReason.REFUSAL,
    "model_context_window_exceeded": StopReason.CONTEXT_FULL,
    "compaction": StopReason.COMPACTED,
    # Relays let the words of their own upstream through.
    "stop": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
NO_USAGE = Usage()

_STOP_SEQUENCE = StopReason.STOP_SEQUENCE  # a member of an enum is found through its class slowly
_STOP_DETAILS = msgspec.json.Decoder(StopDetails)


def usage_of(usage: UsageIn, so_far: Usage = NO_USAGE) -> Usage:
    """Counts are cumulative, and some events leave out what others said: the most of each is the truth."""
    fresh, output = usage.input_tokens or 0, usage.output_tokens or 0
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    details = usage.output_tokens_details
    thought = 0 if details is None else details.thinking_tokens or 0
    if so_far is NO_USAGE and fresh >= 0 <= output and read >= 0 <= written and thought >= 0:
        return Usage(input=fresh, output=output, cache_read=read, cache_write=written, reasoning=thought)
    return Usage(
        input=max(so_far.input, fresh),
        output=max(so_far.output, output),
        cache_read=max(so_far.cache_read, read),
        cache_write=max(so_far.cache_write, written),
        reasoning=max(so_far.reasoning, thought),
    )


def finished_by(reason: StopReason, stop: DeltaIn) -> Finished:
    """The ending with all that was said about it."""
    sequence = stop.stop_sequence if reason is _STOP_SEQUENCE else None
    if stop.stop_details is ABSENT and stop.container is ABSENT:
        return Finished(reason=reason, sequence=sequence)
    own = {name: text_of(value) for name in ("stop_details", "container") if given(value := getattr(stop, name))}
    return Finished(
        reason=reason,
        sequence=sequence,
        detail=_explanation(stop.stop_details),
        meta={PROTOCOL: own} if own else NO_META,
    )


def _explanation(details: Raw) -> str | None:
    try:
        return read(_STOP_DETAILS, bytes(details)).explanation if given(details) else None
    except Malformed:
        return None
