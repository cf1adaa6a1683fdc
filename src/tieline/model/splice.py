"""Merge several legs of a run into one leg for the client: renumber the parts and add up the usage."""

from msgspec.structs import replace

from tieline.model.events import Event, PartDelta, PartEnd, PartStart, Usage


class Splice:
    """Renumbers the parts of several legs and adds up their usage. The caller may drop parts and insert new ones."""

    def __init__(self) -> None:
        self._next = 0
        self._before = Usage()
        self._now = Usage()

    @property
    def next_index(self) -> int:
        """The index of the next part in the merged leg; `take_index` reserves it."""
        return self._next

    def take_index(self) -> int:
        """Reserve an index for a part that the caller inserts, and return it."""
        self._next += 1
        return self._next - 1

    def renumber(self, event: PartStart | PartDelta | PartEnd) -> Event:
        """Return the event with its index in the merged leg."""
        index = self._next
        if type(event) is PartEnd:
            self._next += 1
        return event if event.index == index else replace(event, index=index)

    def add(self, usage: Usage) -> Usage:
        """Record the usage of the current leg, and return the total of this leg and the earlier ones."""
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
        """Begin the next leg: add the usage of the leg that has ended to the total."""
        self._before, self._now = self.add(self._now), Usage()
