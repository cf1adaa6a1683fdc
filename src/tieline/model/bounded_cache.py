"""A least-recently-used cache of bounded size."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A least-recently-used cache, bounded by the number of entries and, optionally, by their total weight.

    The caller chooses the unit of weight, such as bytes or characters. An entry heavier than `max_each` (by default
    `max_weight`) is not stored, so that one large value cannot evict all others.
    """

    __slots__ = ("_entries", "_max_each", "_max_entries", "_max_weight", "hits", "misses", "weight")

    def __init__(self, max_entries: int, *, max_weight: int | None = None, max_each: int | None = None) -> None:
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._max_entries = max_entries
        self._max_weight = max_weight
        self._max_each = max_weight if max_each is None else max_each
        self.weight = 0
        """The total weight of all entries."""
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys, from the least to the most recently used."""
        return iter(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value for `key`, or None. Mark the entry as the most recently used."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, weight: int = 0) -> None:
        """Store a value under `key` in place of any earlier value. Evict the least recently used entries if necessary.

        A value heavier than `max_each` is not stored, but an earlier value is removed all the same.
        """
        self.pop(key)
        if self._max_each is not None and weight > self._max_each:
            return
        self._entries[key] = value, weight
        self.weight += weight
        while len(self._entries) > self._max_entries or (
            self._max_weight is not None and self.weight > self._max_weight
        ):
            _, (_, evicted) = self._entries.popitem(last=False)
            self.weight -= evicted

    def pop(self, key: K) -> V | None:
        """Remove the entry for `key` and return its value, or None if there was no entry."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.weight -= entry[1]
        return entry[0]

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self.weight = 0
