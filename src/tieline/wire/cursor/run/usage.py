"""The tokens of a run, leg by leg."""

from msgspec.structs import replace

from tieline.model.events import Usage
from tieline.wire.cursor._pb.updates_pb2 import TurnEndedUpdate

SANE_CACHE = 3
"""The cache is counted once for every step of a run: more than so many times the context says nothing any more."""


class UsageCounter:
    """The tokens of a run, leg by leg.

    The service tells what a turn took when the turn is over, all steps together. Before that there are the tokens
    counted as they came, and the size of the context in the last checkpoint.
    """

    def __init__(self) -> None:
        self.context = 0
        """How many tokens the context has, by the last checkpoint."""
        self._counted = 0
        self._told_before = 0
        self._billed: Usage | None = None

    @property
    def has_counted(self) -> bool:
        """Whether there was any output."""
        return self._counted + self._told_before > 0

    def count(self, tokens: int) -> None:
        """So many tokens of output came."""
        self._counted += max(tokens, 0)

    def bill(self, ended: TurnEndedUpdate) -> None:
        """A turn is over; there may be several in a run, and they add up."""
        before = self._billed or Usage()
        read, write = max(ended.cache_read_tokens, 0), max(ended.cache_write_tokens, 0)
        if ended.HasField("input_tokens") or ended.HasField("output_tokens"):
            self._billed = Usage(
                input=before.input + max(ended.input_tokens - read - write, 0),
                output=before.output + max(ended.output_tokens, 0),
                cache_read=before.cache_read + read,
                cache_write=before.cache_write + write,
                reasoning=before.reasoning + max(ended.reasoning_tokens, 0),
            )

    def usage(self) -> Usage:
        """What is known of this leg."""
        billed = self._billed
        if billed is None:
            return Usage(input=max(self.context - self._counted, 0), output=self._counted)
        output = max(billed.output - self._told_before, 0) or self._counted
        # Seen in transcripts/cursor/usage_beyond_reason.dialogue
        is_sane = not self.context or billed.cache_read <= SANE_CACHE * self.context
        return replace(
            billed,
            output=output,
            cache_read=billed.cache_read if is_sane else 0,
            reasoning=min(billed.reasoning, output),
        )

    def next_leg(self) -> None:
        """What has been told is not told again."""
        self._told_before += self.usage().output
        self._counted = 0
