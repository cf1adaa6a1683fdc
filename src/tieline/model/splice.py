"""Several legs of a run as one leg for the client: parts are renumbered, usage adds up, only one beginning and end."""

from msgspec.structs import replace

from tieline.model.events import Event, PartDelta, PartEnd, PartStart, Usage


class Splice:
    """Numbers the parts of one leg as they go out; some may be left out, others put in between."""

    def __init__(self) -> None:
        self._next = 0
        self._before = Usage()
        self._now = Usage()

    @property
    def next_index(self) -> int:
        """The number of the next part; taken by `place`."""
        return self._next

    def place(self) -> int:
        """A number for a part that is put in."""
        self._next += 1
        return self._next - 1

    def renumber(self, event: PartStart | PartDelta | PartEnd) -> Event:
        """The event of a part that goes out."""
        index = self._next
        if type(event) is PartEnd:
            self._next += 1
        return event if event.index == index else replace(event, index=index)

    def add(self, usage: Usage) -> Usage:
        """The usage of the whole leg, now that this one's is known."""
        self._now = usage
        before = self._before
        if before == Usage():
            return usage
        return Usage(
            input=before.input + usage.input,
            output=before.output + usage.output,
            cache_read=before.cache_read + usage.cache_read,
            cache_write=before.cache_write + usage.cache_write,
            reasoning=before.reasoning + usage.reasoning,
        )

    def next_leg(self) -> None:
        """The next leg of the run begins."""
        self._before, self._now = self.add(self._now), Usage()
