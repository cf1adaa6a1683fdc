"""The command `tieline usage`: shows usage and cost from the database."""

import argparse
import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tieline.app.build.storage import Storage
from tieline.app.config import Config, ConfigError
from tieline.app.database.engine import DatabaseFailed
from tieline.app.usage.report import day_in, groups_of, row_json, to_csv
from tieline.app.usage.tables import Group, UsageRow, UsageTables
from tieline.core.usage.limits import day_of, money, month_of
from tieline.model.errors import GatewayError
from tieline.tools.invisible_text import visible

Say = Callable[[str], None]

OWN = "(own key)"
UNKNOWN = "unknown"


def run(options: argparse.Namespace, config: Config, env: Mapping[str, str], say: Say) -> int:
    """Run `tieline usage` and return its exit status. `say` prints a line."""
    by = groups_of(options.by or ["key"])
    since = day_in(options.since, "since") if options.since else f"{month_of(day_of(time.time()))}-01"
    until = day_in(options.until, "until") if options.until else ""
    rows = asyncio.run(_report(config, env, by, since, until))
    if options.csv:
        say(to_csv(by, rows).rstrip("\r\n"))
    elif options.json:
        say(msgspec.json.format(msgspec.json.encode([row_json(by, row) for row in rows]), indent=2).decode())
    elif not rows:
        say(f"No usage has been recorded {f'from {since} to {until}' if until else f'since {since}'}.")
    else:
        for line in _table(by, rows):
            say(line)
    return 0


async def _report(
    config: Config, env: Mapping[str, str], by: Sequence[Group], since: str, until: str
) -> list[UsageRow]:
    storage = Storage(config.store, env)
    if not storage.is_persistent:
        raise ConfigError("usage is not stored: neither HOME nor XDG_STATE_HOME is set")
    try:
        return await UsageTables(storage.database.now()).report(by, since=since, until=until)
    except DatabaseFailed as error:
        raise GatewayError("overloaded", f"the database cannot be used: {error}") from error
    finally:
        await storage.aclose()


def _table(by: Sequence[Group], rows: Sequence[UsageRow]) -> list[str]:
    heads = (*(group.upper() for group in by), "REQUESTS", "INPUT", "CACHED", "OUTPUT", "COST")
    lines = [heads]
    for row in rows:
        names = [visible(name) or OWN for name in row.groups]
        numbers = (row.requests, row.input + row.cache_write, row.cache_read, row.output)
        lines.append((*names, *(f"{number:,}" for number in numbers), _cost(row)))
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    left = len(by)
    return [
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _cost(row: UsageRow) -> str:
    """Return the cost. A `+` means that the cost of some requests is not known."""
    cost = row.known_cost
    if cost is None:
        return UNKNOWN
    return f"{money(cost)}{'+' if row.unpriced else ''}"
