"""Count the tokens of a run, leg by leg."""

from msgspec.structs import replace

from tieline.model.events import Usage
from tieline.wire.cursor._pb.updates_pb2 import TurnEndedUpdate

MAX_CACHE_RATIO = 3
"""The service counts cached tokens once per step. A sum of more than this many contexts is not reported."""


class UsageCounter:
    """The tokens of a run, leg by leg.

    The service reports the usage of a turn at its end, for all steps together. Before that, only the streamed counts of
    output tokens and the context size in the last checkpoint are known.
    """

    def __init__(self) -> None:
        self.context = 0
        """The size of the context in tokens, by the last checkpoint."""
        self._counted = 0
        """Output tokens of this leg, as streamed."""
        self._reported_before = 0
        """Output tokens of earlier legs."""
        self._billed: Usage | None = None
        """The usage that the service reported for its turns so far."""

    @property
    def has_counted(self) -> bool:
        """Whether there was any output."""
        return self._counted + self._reported_before > 0

    def count(self, tokens: int) -> None:
        """Add streamed output tokens."""
        self._counted += max(tokens, 0)

    def bill(self, ended: TurnEndedUpdate) -> None:
        """Add the usage of a turn; a run may have several."""
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
        """Return the usage of this leg as far as it is known."""
        billed = self._billed
        if billed is None:
            return Usage(input=max(self.context - self._counted, 0), output=self._counted)
        output = max(billed.output - self._reported_before, 0) or self._counted
        # Seen in transcripts/cursor/usage_beyond_reason.dialogue
        is_plausible = not self.context or billed.cache_read <= MAX_CACHE_RATIO * self.context
        return replace(
            billed,
            output=output,
            cache_read=billed.cache_read if is_plausible else 0,
            reasoning=min(billed.reasoning, output),
        )

    def next_leg(self) -> None:
        """Begin a leg: what was reported before is not reported again."""
        self._reported_before += self.usage().output
        self._counted = 0
