"""Usage entries, one for each request, and their sums."""

from collections.abc import Iterable, Mapping
from operator import add
from typing import Literal

import msgspec
from msgspec.structs import astuple

from tieline.core.usage.limits import DAY

Status = Literal["ok", "failed", "cancelled"]

COLUMNS = (
    *("requests", "failed", "cancelled", "input", "output", "cache_read", "cache_write", "reasoning"),
    *("cost", "unpriced", "estimated"),
)
"""The names of the sums, in the order of a row."""
MAX_ROWS = 10_000
"""Number of rows of one `UsageSums`. Further combinations of models and clients are summed up as `other`."""
MAX_NEW = 50
"""Number of entries that are added up together: few enough that they are still in the processor's cache."""
OTHER = "other"

Place = tuple[str, int, str, str, str]
"""Identifies a row: the key, the number of the day since 1970, the backend, the model and the client."""


class UsageEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What one request to an upstream used."""

    at: int
    """When it ended, in seconds since 1970."""
    owner: str
    """The name of the key; empty for the gateway's own keys."""
    backend: str
    model: str
    client: str
    status: Status
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: int | None = None
    """The cost in billionths; None if it is unknown."""
    is_estimated: bool = False
    """Whether the tokens are an estimate, because the upstream did not report them."""


STATUS = UsageEntry.__struct_fields__.index("status")


class UsageSums:
    """The sums of entries. They take bounded memory, however many entries are added."""

    __slots__ = ("_new", "_rows")

    def __init__(self, entries: Iterable[UsageEntry] = ()) -> None:
        self._rows: dict[Place, list[int]] = {}
        self._new: list[UsageEntry] = []
        """Entries that have not been added up yet. Adding up many at once takes less time."""
        for entry in entries:
            self.add(entry)

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self._new) + sum(row[0] for row in self._rows.values())

    @property
    def rows(self) -> Mapping[Place, list[int]]:
        """The sums in the order of `COLUMNS`. The cost is in billionths."""
        self._add_up()
        return self._rows

    def add(self, entry: UsageEntry) -> None:
        """Add an entry."""
        new = self._new
        new.append(entry)
        if len(new) >= MAX_NEW:
            self._add_up()

    def _add_up(self) -> None:
        groups: dict[Place, list[UsageEntry]] = {}
        for entry in self._new:
            place = (entry.owner, entry.at // DAY, entry.backend, entry.model, entry.client)
            groups.setdefault(place, []).append(entry)
        self._new.clear()
        for place, entries in groups.items():
            statuses, *tokens, costs, estimated = list(zip(*map(astuple, entries), strict=True))[STATUS:]
            sums = (
                *(len(entries), statuses.count("failed"), statuses.count("cancelled")),
                *(sum(numbers) for numbers in tokens),
                *(sum(filter(None, costs)), costs.count(None), sum(estimated)),
            )
            row = self._rows.get(place) or self._new_row(place)
            row[:] = map(add, row, sums)

    def _new_row(self, place: Place) -> list[int]:
        if len(self._rows) >= MAX_ROWS:
            place = (*place[:3], OTHER, OTHER)
        return self._rows.setdefault(place, [0] * len(COLUMNS))
