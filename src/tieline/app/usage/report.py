"""Reports about usage, as rows for people, as CSV and as JSON values."""

import csv
import datetime
import io
from collections.abc import Sequence
from typing import Any

from tieline.app.usage.tables import Group, UsageRow
from tieline.core.usage.limits import NANO
from tieline.model.errors import BadRequest

GROUPS: tuple[Group, ...] = ("key", "model", "client", "day")
COUNTS = (
    "requests",
    "failed",
    "cancelled",
    "input",
    "output",
    "cache_read",
    "cache_write",
    "reasoning",
    "unpriced",
    "estimated",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets treat a text that begins with one of these as a formula."""


def groups_of(names: Sequence[str]) -> tuple[Group, ...]:
    """Return the groups with these names, without duplicates. Raise BadRequest for an unknown name."""
    found: list[Group] = []
    for name in names:
        group = next((group for group in GROUPS if group == name), None)
        if group is None:
            raise BadRequest(f"`by`: expected {', '.join(GROUPS)}, got '{name[:100]}'", "by")
        if group not in found:
            found.append(group)
    return tuple(found)


def day_in(text: str, name: str) -> str:
    """Return the day in `text`, in the form `2026-01-31`. Raise BadRequest for the field `name` if it is not a day."""
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise BadRequest(f"`{name}`: expected a day such as 2026-01-31, got '{text[:100]}'", name) from None


def row_json(by: Sequence[Group], row: UsageRow) -> dict[str, Any]:
    """Return sums as JSON values. `cost` is in dollars; it is None if no request has a known cost."""
    cost = row.known_cost
    named: dict[str, Any] = dict(zip(by, row.groups, strict=True))
    return {**named, **{name: getattr(row, name) for name in COUNTS}, "cost": None if cost is None else cost / NANO}


def to_csv(by: Sequence[Group], rows: Sequence[UsageRow]) -> str:
    """Return sums as CSV. An unknown cost is an empty cell."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow([*by, *COUNTS, "cost"])
    for row in rows:
        cost = row.known_cost
        shown = "" if cost is None else f"{cost / NANO:.9f}".rstrip("0").rstrip(".")
        writer.writerow([*map(_harmless, row.groups), *(getattr(row, name) for name in COUNTS), shown])
    return output.getvalue()


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) else text
