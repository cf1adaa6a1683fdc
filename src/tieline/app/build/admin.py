"""Manages keys and reports usage for the web page."""

import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from tieline.app.build.storage import Storage
from tieline.app.build.usage import UsageParts
from tieline.app.config import KeyRules
from tieline.app.database.engine import DatabaseFailed
from tieline.app.keys.description import key_json
from tieline.app.keys.stored import StoredKeys
from tieline.app.keys.table import KeyTable, NewKey
from tieline.app.usage.report import day_in, groups_of, row_json, to_csv
from tieline.app.usage.tables import Group, UsageRow, UsageTables
from tieline.core.usage.limits import day_of, month_of
from tieline.model.errors import BadRequest, GatewayError

T = TypeVar("T")

MAX_GRACE = 90 * 24 * 3600.0
DEFAULTS = {"page": True}
"""Defaults for the rules of a key created on the page, where they differ from those of the configuration."""


class PageKeys:
    """Manages the stored keys. Changes take effect in this process at once."""

    def __init__(self, storage: Storage, stored: StoredKeys, configured: Sequence[str]) -> None:
        self._storage = storage
        self._stored = stored
        self._configured = configured

    async def list(self) -> Sequence[Mapping[str, Any]]:
        now = time.time()
        return [key_json(record, now) for record in await _tried(self._table().all())]

    async def create(self, name: str, rules: Mapping[str, Any]) -> Mapping[str, Any]:
        if name in self._configured:
            raise BadRequest(f"`name`: the configuration already has a key `{name}`", "name")
        try:
            checked = msgspec.convert({**DEFAULTS, **rules}, KeyRules)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `$.")
            field = f"rules.{place.rstrip('`')}" if place else "rules"
            raise BadRequest(f"`{field}`: {reason[:1].lower()}{reason[1:]}", field) from error
        return await self._shown(await _tried(self._table().create(name, checked)))

    async def rotate(self, name: str, grace: float) -> Mapping[str, Any]:
        if not 0 <= grace <= MAX_GRACE:
            raise BadRequest(f"`grace`: expected a number of seconds from 0 to {MAX_GRACE:.0f}", "grace")
        return await self._shown(await _tried(self._table().rotate(name, grace)))

    async def revoke(self, name: str) -> Mapping[str, Any]:
        record = await _tried(self._table().revoke(name))
        await self._stored.refresh()
        return key_json(record, time.time())

    async def _shown(self, new: NewKey) -> Mapping[str, Any]:
        await self._stored.refresh()
        return {**key_json(new.record, time.time()), "key": new.value}

    def _table(self) -> KeyTable:
        return KeyTable(self._storage.database.now(), time.time)


class PageUsage:
    """Reports usage from the database, after inserting the usage that this process has not inserted yet."""

    def __init__(self, storage: Storage, parts: UsageParts) -> None:
        self._storage = storage
        self._parts = parts

    async def rows(self, by: Sequence[str], since: str, until: str, owner: str | None) -> Sequence[Mapping[str, Any]]:
        groups, rows = await self._report(by, since, until, owner)
        return [row_json(groups, row) for row in rows]

    async def csv(self, by: Sequence[str], since: str, until: str, owner: str | None) -> str:
        return to_csv(*await self._report(by, since, until, owner))

    async def _report(
        self, by: Sequence[str], since: str, until: str, owner: str | None
    ) -> tuple[tuple[Group, ...], list[UsageRow]]:
        groups = groups_of(by)
        first = day_in(since, "since") if since else f"{month_of(day_of(time.time()))}-01"
        last = day_in(until, "until") if until else ""
        await _tried(self._parts.ledger.flush())
        tables = UsageTables(self._storage.database.now())
        return groups, await _tried(tables.report(groups, since=first, until=last, owner=owner))


async def _tried(work: Awaitable[T]) -> T:
    try:
        return await work
    except DatabaseFailed as error:
        message = "The gateway's database cannot be used at the moment. Try again later."
        raise GatewayError("overloaded", message, code="database_unavailable", retry_after=5.0) from error
