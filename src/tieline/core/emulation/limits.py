"""Token limits and stop sequences for upstreams that do not support them."""

from msgspec.structs import replace

from tieline.core.history.token_estimate import CHARACTERS_PER_TOKEN, estimate
from tieline.model.content import Text, Thinking
from tieline.model.events import (
    Batch,
    Event,
    Finished,
    Note,
    PartDelta,
    PartEnd,
    PartStart,
    StopReason,
    Usage,
)
from tieline.model.request import Request


class Limits:
    """Ends a leg at the token limit or at a stop sequence.

    The number of tokens is estimated from the length of text and thinking. A call is never cut: half a call is useless.
    """

    def __init__(self, request: Request) -> None:
        limit = request.sampling.max_tokens
        self._request = request
        self._left = None if limit is None else limit * CHARACTERS_PER_TOKEN
        self._stop = tuple(stop for stop in request.sampling.stop if stop)
        self._part: Text | Thinking | None = None
        self._given: list[str] = []
        self._held = ""
        """The end of the received text, held back because it may be the beginning of a stop sequence."""
        self._output = 0
        self._has_usage = False
        self.is_cut = False
        """Whether a limit has ended the leg. `apply` drops all later events, and the caller must close the run."""

    def apply(self, batch: Batch) -> Batch:
        """Return a batch with only the events that the limits allow. If a limit is reached, the leg ends there."""
        out: list[Event] = []
        for event in batch:
            if self.is_cut:
                break
            self._take(event, out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        if type(event) is PartDelta and self._part is not None:
            self._add(event, self._part, out)
            return
        if type(event) is PartStart:
            self._part = event.part if isinstance(event.part, Text | Thinking) else None
            self._given, self._held = [], ""
        elif type(event) is PartEnd and self._held:
            out.append(PartDelta(event.index, self._held))
            self._held = ""
        elif type(event) is Usage:
            self._has_usage = True
        out.append(event)

    def _add(self, delta: PartDelta, part: Text | Thinking, out: list[Event]) -> None:
        text = self._held + delta.text
        at, reason, sequence = self._end_in(text, part)
        if reason is not None:
            self._emit(delta.index, text[:at], out)
            self._finish(delta.index, part, reason, sequence, out)
            return
        keep = _overlap(text, self._stop) if type(part) is Text else 0
        if not keep and not self._held:
            self._count(delta.text)
            out.append(delta)
            return
        self._held = text[len(text) - keep :]
        self._emit(delta.index, text[: len(text) - keep], out)

    def _end_in(self, text: str, part: Text | Thinking) -> tuple[int, StopReason | None, str | None]:
        """Return the position at which the text reaches a limit, the stop reason, and the stop sequence, if any.

        If the text reaches no limit, return its length, None and None.
        """
        stops = self._stop if type(part) is Text else ()
        found = min(((at, stop) for stop in stops if (at := text.find(stop)) >= 0), default=None)
        if self._left is not None and len(text) > self._left and (found is None or self._left < found[0]):
            return self._left, StopReason.MAX_TOKENS, None
        return (len(text), None, None) if found is None else (found[0], StopReason.STOP_SEQUENCE, found[1])

    def _emit(self, index: int, text: str, out: list[Event]) -> None:
        if text:
            self._count(text)
            out.append(PartDelta(index, text))

    def _count(self, text: str) -> None:
        self._given.append(text)
        self._output += len(text)
        if self._left is not None:
            self._left -= len(text)

    def _finish(
        self, index: int, part: Text | Thinking, reason: StopReason, sequence: str | None, out: list[Event]
    ) -> None:
        self.is_cut = True
        tokens = -(-self._output // CHARACTERS_PER_TOKEN)
        out.append(PartEnd(index=index, part=replace(part, text="".join(self._given))))
        if not self._has_usage:
            out.append(Usage(input=estimate(self._request), output=tokens))
        limit = "the token limit" if sequence is None else "a stop sequence"
        message = f"the gateway ended the answer at {limit} after about {tokens} tokens; the upstream cannot do this"
        out += (Note(kind="limit", message=message), Finished(reason=reason, sequence=sequence))


def _overlap(text: str, stops: tuple[str, ...]) -> int:
    """Return how many characters at the end of the text may be the beginning of a stop sequence."""
    return max(
        (size for stop in stops for size in range(1, min(len(stop), len(text) + 1)) if text.endswith(stop[:size])),
        default=0,
    )
